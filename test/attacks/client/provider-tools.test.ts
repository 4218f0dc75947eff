import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { suiteRelay } from '../../support/relay.ts'
import {
  events,
  json,
  startToolVendor,
  type ToolVendor,
  type VendorAnswer,
} from '../../support/tool-vendor.ts'

/** A user tries to have a provider run tools without paying for them. */

const OPENAI = { type: 1 }
const ANTHROPIC = { type: 14 }
const GEMINI = { type: 24 }
const PERPLEXITY = { type: 27 }

const FUNCTION = { type: 'function', name: 'add', parameters: { type: 'object', properties: {} } }
const TOOL_PRICES = { web_search: 0.01, file_search: 0.0025, code_interpreter: 0.03, image_generation: 0.25 }
/** Tokens of every response below, and their cost: 1 and 2 USD per million. */
const TOKENS = { input_tokens: 100, output_tokens: 10, total_tokens: 110 }
const TOKEN_NANOS = 120_000

const OUTPUT = [
  { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'a' } },
  { type: 'web_search_call', id: 'ws_2', status: 'completed', action: { type: 'search', query: 'b' } },
  {
    type: 'web_search_call',
    id: 'ws_3',
    status: 'completed',
    action: { type: 'open_page', url: 'https://a.example' },
  },
  { type: 'file_search_call', id: 'fs_1', status: 'completed', queries: ['a'] },
  { type: 'code_interpreter_call', id: 'ci_1', status: 'completed', code: '1+1', container_id: 'cntr_1' },
  { type: 'image_generation_call', id: 'ig_1', status: 'completed', result: 'aGk=', output_format: 'png' },
  {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text: 'Done.', annotations: [] }],
  },
]
/** Two web searches, one file search, one code execution, one image. */
const CALL_NANOS = 2 * 10_000_000 + 2_500_000 + 30_000_000 + 250_000_000

const response = (output: readonly unknown[] = OUTPUT) => ({
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status: 'completed',
  model: 'm',
  output,
  usage: TOKENS,
})

const wholeResponse = () => json(response())

const streamedResponse = (isCut = false): VendorAnswer =>
  events(
    [
      { type: 'response.created', response: { ...response([]), status: 'in_progress', usage: null } },
      ...OUTPUT.map((item, output_index) => ({ type: 'response.output_item.done', output_index, item })),
      ...(isCut ? [] : [{ type: 'response.completed', response: response() }]),
    ],
    isCut,
  )

const chatAnswer = (usage: object = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Done.' }, finish_reason: 'stop' }],
  usage,
})

const chatStream = (): VendorAnswer => {
  const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }
  return events([
    { ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content: 'Done.' } }] },
    {
      ...chunk,
      choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
      usage: { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 },
    },
  ])
}

const message = (usage: object, content: readonly object[] = [{ type: 'text', text: 'Done.' }]) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content,
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage,
})

const SEARCHED = { web_search_requests: 50, web_fetch_requests: 0 }
/** 50 searches and the 400,000 tokens of their results. */
const MUCH = { input_tokens: 400_000, output_tokens: 10, server_tool_use: SEARCHED }

describe('tools that the provider runs', () => {
  const relay = suiteRelay('sqlite')
  let vendor: ToolVendor
  before(async () => {
    vendor = await startToolVendor()
  })
  after(async () => {
    vendor.close()
  })

  type Fields = Readonly<Record<string, unknown>>
  const AT = { responses: '/v1/responses', chat: '/v1/chat/completions', messages: '/v1/messages' } as const

  async function open(channel: Fields, price: Fields, { sent: sentModel = 'm', quota = 50_000_000 } = {}) {
    const { model } = await relay.serve(sentModel, { ...channel, base_url: vendor.url }, price)
    const { id, key } = await relay.newToken({ remain_quota: quota })
    const ask = (path: string, body: Fields, headers: Readonly<Record<string, string>> = {}) =>
      relay.api('POST', path, { model, ...body }, { token: key, headers })
    return { model, id, key, ask }
  }

  const warningsOf = (reply: { headers: Headers }) => reply.headers.get('x-sluice-warnings') ?? ''

  describe('in the Responses format', () => {
    const request = (tools: readonly object[], more: Fields = {}) => ({ input: 'hi', tools, ...more })
    const HOSTED = [
      { type: 'web_search' },
      { type: 'file_search', vector_store_ids: ['vs_1'] },
      { type: 'code_interpreter', container: { type: 'auto' } },
      { type: 'image_generation' },
    ]

    for (const [way, answer] of [
      ['whole', wholeResponse],
      ['streamed', () => streamedResponse()],
    ] as const)
      it(`cost what their calls cost in a ${way} response`, async () => {
        const { id, ask } = await open(OPENAI, { tools: TOOL_PRICES })
        vendor.answers(answer)
        const reply = await ask(AT.responses, request(HOSTED, { stream: way === 'streamed' }))
        assert.equal(reply.status, 200, reply.text)
        assert.equal(warningsOf(reply), '')
        const row = await relay.rowOf(id)
        assert.equal(row.cost, TOKEN_NANOS + CALL_NANOS)
        const { searches, file_searches, code_interpreter_calls, image_generation_calls } = row.other
        assert.deepEqual(
          { searches, file_searches, code_interpreter_calls, image_generation_calls },
          { searches: 2, file_searches: 1, code_interpreter_calls: 1, image_generation_calls: 1 },
        )
      })

    it('cost what their calls cost if the response is translated for a client of another format', async () => {
      const { id, ask } = await open(
        { ...OPENAI, setting: { chat_formats: ['responses'] } },
        { tools: TOOL_PRICES },
      )
      vendor.answers(wholeResponse)
      const reply = await ask(AT.chat, { messages: [{ role: 'user', content: 'hi' }] })
      assert.equal(reply.status, 200, reply.text)
      assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS + CALL_NANOS)
    })

    it('are charged per call if the stream breaks off before any usage', async () => {
      const { id, ask } = await open(OPENAI, { tools: TOOL_PRICES })
      vendor.answers(() => streamedResponse(true))
      await ask(AT.responses, request(HOSTED, { stream: true }))
      assert.ok((await relay.rowOf(id)).cost >= CALL_NANOS)
    })

    it('are removed with a warning if the model has no price for them', async () => {
      const { id, ask } = await open(OPENAI, { tools: { file_search: 0.0025 } })
      vendor.answers(() => json(response(OUTPUT.slice(-1))))
      const tools = [FUNCTION, ...HOSTED]
      const reply = await ask(AT.responses, request(tools, { tool_choice: { type: 'web_search' } }))
      assert.equal(reply.status, 200, reply.text)
      assert.deepEqual(
        vendor.bodies[0].tools.map(({ type }: { type: string }) => type),
        ['function', 'file_search'],
      )
      assert.equal('tool_choice' in vendor.bodies[0], false)
      for (const field of ['tools[1]', 'tools[3]', 'tools[4]', 'tool_choice'])
        assert.ok(warningsOf(reply).includes(`${field}: was removed`), `${field} in ${warningsOf(reply)}`)
      assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS)
    })

    it('leave a valid request if all of them are removed', async () => {
      const { ask } = await open(OPENAI, {})
      vendor.answers(() => json(response(OUTPUT.slice(-1))))
      const more = { tool_choice: 'required', parallel_tool_calls: true }
      const reply = await ask(AT.responses, request(HOSTED, more))
      assert.equal(reply.status, 200, reply.text)
      for (const name of ['tools', 'tool_choice', 'parallel_tool_calls'])
        assert.equal(name in vendor.bodies[0], false, name)
    })

    it('are refused instead of removed for a strict client', async () => {
      const { ask } = await open(OPENAI, {})
      vendor.answers(wholeResponse)
      const reply = await ask(AT.responses, request(HOSTED), { 'x-sluice-strict': 'true' })
      assert.equal(reply.status, 400, reply.text)
      assert.match(reply.text, /tools\[0\]/)
      assert.equal(vendor.bodies.length, 0)
    })

    it('are removed if they are of an unknown type, or request a more expensive container', async () => {
      const { ask } = await open(OPENAI, { tools: TOOL_PRICES })
      vendor.answers(() => json(response(OUTPUT.slice(-1))))
      const dear = { type: 'code_interpreter', container: { type: 'auto', memory_limit: '64g' } }
      const reply = await ask(AT.responses, request([{ type: 'mind_reading' }, dear, FUNCTION]))
      assert.equal(reply.status, 200, reply.text)
      assert.deepEqual(vendor.bodies[0].tools, [FUNCTION])
    })

    /** Items of the input that offer tools. */
    const offering = (tools: readonly object[]) => [
      { role: 'user', content: 'hi' },
      { type: 'additional_tools', role: 'developer', tools },
      { type: 'tool_search_output', call_id: 'c', execution: 'client', status: 'completed', tools },
    ]

    for (const setting of [{}, { chat_formats: ['responses'] }])
      it(`are removed from items of the input without a price, ${setting.chat_formats ? 'translated' : 'unchanged'}`, async () => {
        const { id, ask } = await open({ ...OPENAI, setting }, { tools: { file_search: 0.0025 } })
        vendor.answers(() => json(response(OUTPUT.slice(-1))))
        const input = offering([...HOSTED, FUNCTION])
        const reply = await ask(AT.responses, { input })
        assert.equal(reply.status, 200, reply.text)
        const [, ...items] = vendor.bodies[0].input
        for (const { tools } of items)
          assert.deepEqual(
            tools.map(({ type }: { type: string }) => type),
            ['file_search', 'function'],
          )
        assert.ok(warningsOf(reply).includes('input[1].tools[0]: was removed'), warningsOf(reply))
        assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS)
        await ask(AT.responses, { input: offering([{ type: 'web_search' }]) })
        assert.deepEqual(vendor.bodies[1].input[2].tools, [])
        const strict = await ask(AT.responses, { input }, { 'x-sluice-strict': 'true' })
        assert.equal(strict.status, 400, strict.text)
      })

    it('are held, limited and charged if items of the input offer them', async () => {
      const { id, ask } = await open(OPENAI, { tools: TOOL_PRICES })
      vendor.answers(wholeResponse)
      const reply = await ask(AT.responses, { input: offering(HOSTED) })
      assert.deepEqual([reply.status, warningsOf(reply)], [200, ''])
      assert.deepEqual(vendor.bodies[0].input, offering(HOSTED))
      assert.equal(vendor.bodies[0].max_tool_calls, 40)
      assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS + CALL_NANOS)
      const poor = await open(OPENAI, { tools: TOOL_PRICES }, { quota: 5_000 })
      assert.equal((await poor.ask(AT.responses, { input: offering(HOSTED) })).status, 429)
    })

    it('are forwarded if the client runs them itself', async () => {
      const { ask } = await open(OPENAI, {})
      vendor.answers(() => json(response(OUTPUT.slice(-1))))
      const tools = [
        FUNCTION,
        { type: 'custom', name: 'sql' },
        { type: 'local_shell' },
        { type: 'apply_patch' },
        { type: 'computer_use_preview', display_width: 1, display_height: 1, environment: 'linux' },
      ]
      const reply = await ask(AT.responses, request(tools))
      assert.deepEqual([reply.status, warningsOf(reply)], [200, ''])
      assert.deepEqual(vendor.bodies[0].tools, tools)
    })

    it('are charged as reported beside a member of another format', async () => {
      const { id, ask } = await open(OPENAI, { tools: TOOL_PRICES })
      vendor.answers(wholeResponse)
      const reply = await ask(AT.responses, request(HOSTED, { messages: [], contents: [] }))
      assert.equal(reply.status, 200, reply.text)
      assert.equal(vendor.bodies[0].max_tool_calls, 20)
      assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS + CALL_NANOS)
    })

    it('are limited to the calls that the hold covers: that limit is sent to the provider', async () => {
      const { ask } = await open(OPENAI, { tools: TOOL_PRICES })
      vendor.answers(() => json(response(OUTPUT.slice(-1))))
      await ask(AT.responses, request([{ type: 'web_search' }]))
      await ask(AT.responses, request([{ type: 'web_search' }], { max_tool_calls: 2 }))
      assert.deepEqual(
        vendor.bodies.map(({ max_tool_calls }) => max_tool_calls),
        [5, 2],
      )
      const wrong = await ask(AT.responses, request([{ type: 'web_search' }], { max_tool_calls: '99' }))
      assert.equal(wrong.status, 400)
      assert.equal(wrong.body.error.param, 'max_tool_calls')
    })
  })

  describe('in chat completions', () => {
    const messages = [{ role: 'user', content: 'hi' }]

    for (const [name, searchFields] of Object.entries({
      web_search_options: { web_search_options: { search_context_size: 'high' } },
      enable_search: { enable_search: true },
      plugins: { plugins: [{ id: 'web' }] },
      tools: { tools: [{ type: 'web_search', web_search: { enable: true } }] },
    })) {
      it(`are removed if ${name} requests a search without a price`, async () => {
        const { ask } = await open(OPENAI, {})
        vendor.answers(() => json(chatAnswer()))
        const reply = await ask(AT.chat, { messages, ...searchFields })
        assert.equal(reply.status, 200, reply.text)
        assert.equal(name in vendor.bodies[0], false)
        assert.ok(warningsOf(reply).includes(name), warningsOf(reply))
      })

      it(`are charged once per request if ${name} requests a search, which no response reports`, async () => {
        const { id, ask } = await open(OPENAI, { tools: TOOL_PRICES })
        vendor.answers(() => json(chatAnswer()))
        const reply = await ask(AT.chat, { messages, ...searchFields })
        assert.equal(reply.status, 200, reply.text)
        assert.deepEqual(vendor.bodies[0][name], (searchFields as Fields)[name])
        assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS + 10_000_000)
      })
    }

    for (const member of ['input', 'contents'])
      it(`are charged once per request beside a member ${member}, which belongs to another format`, async () => {
        const { id, ask } = await open(OPENAI, { tools: TOOL_PRICES })
        vendor.answers(() => json(chatAnswer()))
        const tools = [
          { type: 'web_search', web_search: { enable: true } },
          { type: 'function', function: { name: 'add' } },
        ]
        const reply = await ask(AT.chat, { messages, tools, [member]: '' })
        assert.equal(reply.status, 200, reply.text)
        assert.deepEqual(vendor.bodies[0].tools, tools)
        assert.equal('max_tool_calls' in vendor.bodies[0], false)
        assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS + 10_000_000)
      })

    it('cost nothing if the format of the channel does not support them', async () => {
      const { id, ask } = await open(ANTHROPIC, { tools: TOOL_PRICES })
      vendor.answers(() => json(message({ input_tokens: 100, output_tokens: 10 })))
      const reply = await ask(AT.chat, { messages, web_search_options: {} })
      assert.ok(warningsOf(reply).includes('web_search_options'), warningsOf(reply))
      assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS)
    })

    for (const [way, answer] of [
      ['whole', () => json(chatAnswer())],
      ['streamed', chatStream],
    ] as const)
      it(`cost the fee of a model that searches with every request, in a ${way} response`, async () => {
        for (const [channel, sentModel] of [
          [PERPLEXITY, 'sonar'],
          [PERPLEXITY, 'a-name-of-its-own'],
          [OPENAI, 'gpt-4o-search-preview'],
        ] as const) {
          const { id, ask } = await open(channel, { per_search: 0.005 }, { sent: sentModel })
          vendor.answers(answer)
          const reply = await ask(AT.chat, { messages, stream: way === 'streamed' })
          assert.equal(reply.status, 200, reply.text)
          const row = await relay.rowOf(id)
          assert.deepEqual([sentModel, row.cost, row.other.searches], [sentModel, TOKEN_NANOS + 5_000_000, 1])
        }
      })

    it('cost more if the request selects a more expensive search that the price lists', async () => {
      const { id, ask } = await open(
        PERPLEXITY,
        {
          tools: { web_search: 0.005 },
          variants: [{ when: { web_search: 'high' }, tools: { web_search: 0.012 } }],
        },
        { sent: 'sonar' },
      )
      vendor.answers(() => json(chatAnswer()))
      await ask(AT.chat, { messages, web_search_options: { search_context_size: 'high' } })
      assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS + 12_000_000)
    })
  })

  describe('in Anthropic’s format', () => {
    const request = (tools: readonly object[], more: Fields = {}) => ({
      max_tokens: 100,
      messages: [{ role: 'user', content: 'hi' }],
      tools,
      ...more,
    })
    const SEARCH = { type: 'web_search_20250305', name: 'web_search' }

    it('cannot be used by concurrent requests beyond what the balance covers', async () => {
      const { id, ask } = await open(ANTHROPIC, { tools: TOOL_PRICES }, { quota: 5_000 })
      vendor.answers(() => json(message(MUCH)))
      const body = request([{ ...SEARCH, max_uses: 50 }])
      const replies = await Promise.all(Array.from({ length: 5 }, () => ask(AT.messages, body)))
      assert.deepEqual(
        replies.map(({ status }) => status),
        [429, 429, 429, 429, 429],
      )
      assert.equal(vendor.bodies.length, 0)
      assert.equal(await relay.usedBy(id), 0)
    })

    it('are covered by the hold before they run, with the input that their results add', async () => {
      const { id, ask } = await open(ANTHROPIC, { tools: TOOL_PRICES })
      let heldQuota = 0
      vendor.answers(async () => {
        heldQuota = (await relay.must(relay.gateway.api('GET', `/api/token/${id}`))).held_quota
        return json(message(MUCH))
      })
      const reply = await ask(AT.messages, request([{ ...SEARCH, max_uses: 50 }]))
      assert.equal(reply.status, 200, reply.text)
      const { cost, other } = await relay.rowOf(id)
      assert.deepEqual([cost, other.searches], [50 * 10_000_000 + 400_000_000 + 20_000, 50])
      assert.ok(heldQuota >= relay.units(cost), `${heldQuota} units were held for ${relay.units(cost)}`)
    })

    it('are limited to what the hold covers if the request sets no limit', async () => {
      const { ask } = await open(ANTHROPIC, { tools: TOOL_PRICES })
      vendor.answers(() => json(message({ input_tokens: 100, output_tokens: 10 })))
      const fetching = { type: 'web_fetch_20250910', name: 'web_fetch' }
      const custom = { name: 'add', input_schema: { type: 'object' } }
      await ask(AT.messages, request([SEARCH, { ...SEARCH, max_uses: 2 }, fetching, custom]))
      assert.deepEqual(vendor.bodies[0].tools, [
        { ...SEARCH, max_uses: 5 },
        { ...SEARCH, max_uses: 2 },
        { ...fetching, max_uses: 5, max_content_tokens: 25_000 },
        custom,
      ])
    })

    it('are held up to their limits beside a member of another format', async () => {
      const { ask } = await open(ANTHROPIC, { tools: TOOL_PRICES }, { quota: 200_000 })
      vendor.answers(() => json(message(MUCH)))
      const reply = await ask(AT.messages, request([{ ...SEARCH, max_uses: 50 }], { input: '' }))
      assert.equal(reply.status, 429, reply.text)
      assert.equal(vendor.bodies.length, 0)
    })

    it('are refused with an invalid limit, by the name of the field', async () => {
      const { ask } = await open(ANTHROPIC, { tools: TOOL_PRICES })
      vendor.answers(() => json(message(MUCH)))
      const reply = await ask(AT.messages, request([{ ...SEARCH, max_uses: '9' }]))
      assert.equal(reply.status, 400, reply.text)
      assert.match(reply.text, /tools\[0\]\.max_uses/)
    })

    it('are removed if they have no price, and all other bytes stay unchanged', async () => {
      const { key, model } = await open(ANTHROPIC, {})
      vendor.answers(() => json(message({ input_tokens: 100, output_tokens: 10 })))
      const custom = '{"name":"add",  "input_schema":{"type":"object","maximum":1e400}}'
      const body = (tools: string) =>
        `{"model":"${model}","max_tokens":9, "tools": ${tools},"messages":[{"role":"user","content":"hi"}]}`
      const reply = await relay.gateway.api('POST', AT.messages, undefined, {
        token: key,
        raw: body(`[ ${JSON.stringify(SEARCH)} , ${custom}]`),
      })
      assert.equal(reply.status, 200, reply.text)
      assert.equal(vendor.texts[0], body(`[${custom}]`).replace(model, 'm'))
    })

    it('cost what their results show if a stream breaks off before its last usage', async () => {
      const { id, ask } = await open(ANTHROPIC, { tools: TOOL_PRICES })
      const start = message({ input_tokens: 100, output_tokens: 1 }, [])
      const searchResult = { type: 'web_search_tool_result', tool_use_id: 's', content: [] }
      const failed = {
        ...searchResult,
        content: { type: 'web_search_tool_result_error', error_code: 'unavailable' },
      }
      vendor.answers(() =>
        events(
          [
            { type: 'message_start', message: { ...start, stop_reason: null } },
            { type: 'content_block_start', index: 0, content_block: searchResult },
            { type: 'content_block_stop', index: 0 },
            { type: 'content_block_start', index: 1, content_block: failed },
            { type: 'content_block_stop', index: 1 },
          ],
          true,
        ),
      )
      await ask(AT.messages, request([SEARCH], { stream: true }))
      assert.equal((await relay.rowOf(id)).other.searches, 1)
    })
  })

  describe('in Google’s format', () => {
    const answer = {
      candidates: [
        {
          content: { role: 'model', parts: [{ text: 'Done.' }] },
          finishReason: 'STOP',
          index: 0,
          groundingMetadata: { webSearchQueries: ['a', 'b'] },
        },
      ],
      usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 10, totalTokenCount: 110 },
      modelVersion: 'gemini-3-flash',
    }
    const declared = { functionDeclarations: [{ name: 'add' }] }
    const contents = [{ role: 'user', parts: [{ text: 'hi' }] }]

    it('are removed beside functions of the client if they have no price', async () => {
      const { ask, model } = await open(GEMINI, {})
      vendor.answers(() =>
        json({ ...answer, candidates: [{ ...answer.candidates[0], groundingMetadata: {} }] }),
      )
      const tools = [{ ...declared, googleSearch: {} }, { google_search: {} }, { urlContext: {} }]
      const reply = await ask(`/v1beta/models/${model}:generateContent`, { contents, tools })
      assert.equal(reply.status, 200, reply.text)
      assert.deepEqual(vendor.bodies[0].tools, [declared, { urlContext: {} }])
      assert.ok(warningsOf(reply).includes('tools[0].googleSearch'), warningsOf(reply))
    })

    it('cost each search if they have a price', async () => {
      const { id, ask, model } = await open(GEMINI, { tools: { web_search: 0.014 } })
      vendor.answers(() => json(answer))
      const reply = await ask(`/v1beta/models/${model}:generateContent`, {
        contents,
        tools: [{ google_search: {} }],
      })
      assert.equal(reply.status, 200, reply.text)
      assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS + 2 * 14_000_000)
    })

    for (const way of ['whole', 'streamed'])
      it(`cost each execution of code in a ${way} response, if they have a price`, async () => {
        const { id, ask, model } = await open(GEMINI, { tools: TOOL_PRICES })
        const part = (content: object, more: object = {}) => ({
          ...answer,
          candidates: [{ content: { role: 'model', parts: [content] }, index: 0, ...more }],
        })
        const executableCode = { language: 'PYTHON', code: '1+1' }
        const codeExecutionResult = { outcome: 'OUTCOME_OK', output: '2' }
        const parts = [{ executableCode }, { codeExecutionResult }, { executableCode }, { text: 'Done.' }]
        const finishReason = 'STOP'
        vendor.answers(() =>
          way === 'whole'
            ? json({ ...answer, candidates: [{ content: { role: 'model', parts }, finishReason, index: 0 }] })
            : events(parts.map((each, at) => part(each, at === parts.length - 1 ? { finishReason } : {}))),
        )
        const method = way === 'whole' ? 'generateContent' : 'streamGenerateContent?alt=sse'
        const reply = await ask(`/v1beta/models/${model}:${method}`, {
          contents,
          tools: [{ codeExecution: {} }],
        })
        assert.equal(reply.status, 200, reply.text)
        assert.equal((await relay.rowOf(id)).cost, TOKEN_NANOS + 2 * 30_000_000)
      })
  })
})
