import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { bedrock } from '../../src/chat/anthropic/bedrock/format.ts'
import { cohere } from '../../src/chat/cohere/format.ts'
import type { IdsAndClock, Outbound } from '../../src/chat/hub/format.ts'
import type { ChatAnswer, ChatEvent, ChatRequest, Message } from '../../src/chat/hub/hub.ts'
import { FORMATS, OUTBOUND } from '../../src/chat/index.ts'
import { ollama } from '../../src/chat/ollama/format.ts'
import { isInDialect } from '../../src/chat/openai/chat-completions/dialect.ts'
import { openaiChat } from '../../src/chat/openai/chat-completions/format.ts'
import { EMPTY } from '../../src/domain/usage.ts'
import { mistral } from '../../src/providers/vendors/mistral.ts'
import { eventFrame } from '../support/corpus.ts'
import { chatRequests } from '../support/format-arbitraries.ts'
import { answerOf } from '../support/gathered-answer.ts'
import { fc } from '../support/properties.ts'

const idsAndClock: IdsAndClock = { newId: prefix => `${prefix}1`, nowS: () => 0 }

const HELLO: ChatRequest = {
  model: 'm',
  stream: false,
  messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
}

const WEATHER = {
  type: 'function',
  name: 'weather',
  description: 'Tells the weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
} as const

const PIXEL = 'iVBORw0KGgo='

/** A turn with two parallel calls, and their results; the second result has an image. */
const LOOP: readonly Message[] = [
  { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
  { role: 'user', content: [{ type: 'text', text: 'Weather in Berlin and Paris?' }] },
  {
    role: 'assistant',
    content: [
      { type: 'reasoning', text: 'Two calls.' },
      { type: 'toolCall', id: 'call_a', name: 'weather', arguments: '{"city":"Berlin"}' },
      { type: 'toolCall', id: 'call_b', name: 'weather', arguments: '{"city":"Paris"}' },
    ],
  },
  {
    role: 'tool',
    content: [
      { type: 'toolResult', callId: 'call_a', content: [{ type: 'text', text: '15 °C' }] },
      { type: 'toolResult', callId: 'call_b', content: [{ type: 'text', text: '17 °C' }] },
    ],
  },
]

const fields = (format: Outbound, request: ChatRequest) => {
  const { body, warnings } = format.encodeRequest(request)
  return { body, lost: warnings.map(({ field }) => field) }
}

function streamed(format: Outbound, bytes: Buffer): readonly ChatEvent[] {
  const decoder = format.createStreamDecoder({ idsAndClock })
  return [...decoder.push(bytes), ...decoder.end()]
}

function wholeOf(events: readonly ChatEvent[]): ChatAnswer {
  const gathered = answerOf(events)
  assert.ok('answer' in gathered, JSON.stringify(gathered))
  return gathered.answer
}

function errorOf(events: readonly ChatEvent[]) {
  const last = events.at(-1)
  assert.ok(last?.type === 'error', `an error was expected, not ${last?.type}`)
  return last.error
}

const sse = (...events: readonly { readonly type: string }[]) =>
  Buffer.from(events.map(each => `event: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`).join(''))

const lines = (...values: readonly unknown[]) =>
  Buffer.from(values.map(each => `${JSON.stringify(each)}\n`).join(''))

describe('formats that only providers use', () => {
  const names = OUTBOUND.map(({ name }) => name)
  for (const format of OUTBOUND.filter(each => !FORMATS.some(({ name }) => name === each.name))) {
    it(`write any request in ${format.name}, and warn of what they leave out`, () => {
      fc.assert(
        fc.property(
          chatRequests(names),
          fc.constantFrom('m', 'us.anthropic.claude-sonnet-4-5-v1:0', 'gpt-oss:20b'),
          (request, model) => {
            const { body, warnings } = format.encodeRequest({ ...request, model })
            assert.deepEqual(JSON.parse(JSON.stringify(body)), body)
            for (const { field, message } of warnings) assert.ok(field !== '' && message !== '')
          },
        ),
        { numRuns: 300 },
      )
    })
  }
})

describe('chats for Bedrock', () => {
  const CLAUDE = 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'

  it('support a tool loop: calls and results, all results in one turn', () => {
    const { body, lost } = fields(bedrock, { ...HELLO, model: CLAUDE, messages: LOOP, tools: [WEATHER] })
    assert.deepEqual(body.system, [{ text: 'Be brief.' }])
    const [, assistant, results] = body.messages as { role: string; content: unknown[] }[]
    assert.deepEqual(assistant?.content, [
      { toolUse: { toolUseId: 'call_a', name: 'weather', input: { city: 'Berlin' } } },
      { toolUse: { toolUseId: 'call_b', name: 'weather', input: { city: 'Paris' } } },
    ])
    assert.deepEqual(results, {
      role: 'user',
      content: [
        { toolResult: { toolUseId: 'call_a', content: [{ text: '15 °C' }] } },
        { toolResult: { toolUseId: 'call_b', content: [{ text: '17 °C' }] } },
      ],
    })
    assert.deepEqual(body.toolConfig, {
      tools: [
        {
          toolSpec: {
            name: 'weather',
            description: 'Tells the weather',
            inputSchema: { json: WEATHER.parameters },
          },
        },
      ],
    })
    assert.deepEqual(lost, ['messages[2].content[0]'], 'only the unsigned thought')
  })

  it('repeat the tools of a conversation if the request lists none', () => {
    const { body } = fields(bedrock, { ...HELLO, messages: LOOP })
    assert.deepEqual(body.toolConfig, {
      tools: [{ toolSpec: { name: 'weather', inputSchema: { json: { type: 'object' } } } }],
    })
  })

  it('require one tool by name, or any tool', () => {
    const choice = (toolChoice: ChatRequest['toolChoice']) =>
      fields(bedrock, { ...HELLO, tools: [WEATHER], ...(toolChoice && { toolChoice }) }).body.toolConfig
    const chosen = (config: unknown) => (config as { toolChoice?: unknown } | undefined)?.toolChoice
    assert.deepEqual(chosen(choice({ mode: 'required' })), { any: {} })
    assert.deepEqual(chosen(choice({ mode: 'required', only: ['weather'] })), { tool: { name: 'weather' } })
    assert.equal(choice({ mode: 'none' }), undefined)
  })

  it('send a schema to newer Claude models, and put it into the prompt for others', () => {
    const output = { type: 'schema', schema: WEATHER.parameters, name: 'report' } as const
    const claudeRequest = fields(bedrock, { ...HELLO, model: CLAUDE, output })
    const schema = JSON.stringify({ ...WEATHER.parameters, additionalProperties: false })
    assert.deepEqual(claudeRequest.body.outputConfig, {
      textFormat: {
        type: 'json_schema',
        structure: { jsonSchema: { schema, name: 'report' } },
      },
    })
    assert.deepEqual(claudeRequest.lost, [])
    const llamaRequest = fields(bedrock, { ...HELLO, model: 'meta.llama3', output })
    assert.equal(llamaRequest.body.outputConfig, undefined)
    assert.match(JSON.stringify(llamaRequest.body.system), /fits this schema/)
    assert.deepEqual(llamaRequest.lost, ['response_format'])
  })

  it('send images and documents as bytes, under names that the vendor accepts', () => {
    const { body, lost } = fields(bedrock, {
      ...HELLO,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look.' },
            { type: 'media', kind: 'image', source: { data: PIXEL }, mediaType: 'image/png' },
            { type: 'media', kind: 'image', source: { url: 'https://example.com/a.png' } },
            {
              type: 'media',
              kind: 'file',
              source: { data: 'JVBERg==' },
              mediaType: 'application/pdf',
              name: 'a_b.pdf',
            },
            { type: 'media', kind: 'file', source: { text: 'words' }, name: 'a b pdf' },
          ],
        },
      ],
    })
    const [{ content }] = body.messages as [{ content: unknown[] }]
    assert.deepEqual(content.slice(1), [
      { image: { format: 'png', source: { bytes: PIXEL } } },
      { document: { format: 'pdf', name: 'a b pdf', source: { bytes: 'JVBERg==' } } },
      { document: { format: 'txt', name: 'a b pdf 2', source: { text: 'words' } } },
    ])
    assert.deepEqual(lost, ['messages[0].content[2]'])
  })

  it('set reasoning with the fields of each model family', () => {
    const reasoning = { effort: 'high' }
    const reasoningFieldsOf = (model: string) =>
      fields(bedrock, { ...HELLO, model, reasoning, maxTokens: 40_000 }).body.additionalModelRequestFields
    assert.deepEqual(reasoningFieldsOf(CLAUDE), { thinking: { type: 'enabled', budget_tokens: 16_384 } })
    assert.deepEqual(reasoningFieldsOf('us.anthropic.claude-opus-4-6-v1'), {
      thinking: { type: 'adaptive' },
      output_config: { effort: 'high' },
    })
    assert.deepEqual(reasoningFieldsOf('openai.gpt-oss-120b-1:0'), { reasoning_effort: 'high' })
    assert.deepEqual(reasoningFieldsOf('us.amazon.nova-2-lite-v1:0'), {
      reasoningConfig: { type: 'enabled', maxReasoningEffort: 'high' },
    })
    assert.deepEqual(fields(bedrock, { ...HELLO, model: 'meta.llama3', reasoning }).lost, ['reasoning'])
  })

  it('send back reasoning that the vendor signed, and cache markers', () => {
    const signature = { format: 'bedrock', value: 'proof' }
    const { body, lost } = fields(bedrock, {
      ...HELLO,
      model: CLAUDE,
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Hi', cache: {} }] },
        {
          role: 'assistant',
          content: [
            { type: 'reasoning', text: 'Hm.', signature },
            { type: 'reasoning', text: '', encrypted: { format: 'bedrock', value: 'c2VjcmV0' } },
            { type: 'reasoning', text: 'Foreign.', signature: { format: 'anthropic', value: 'x' } },
            { type: 'text', text: 'Hello.' },
          ],
        },
        { role: 'user', content: [{ type: 'text', text: 'Again' }] },
      ],
    })
    const [user, assistant] = body.messages as { content: unknown[] }[]
    assert.deepEqual(user?.content, [{ text: 'Hi' }, { cachePoint: { type: 'default' } }])
    assert.deepEqual(assistant?.content, [
      { reasoningContent: { reasoningText: { text: 'Hm.', signature: 'proof' } } },
      { reasoningContent: { redactedContent: 'c2VjcmV0' } },
      { text: 'Hello.' },
    ])
    assert.deepEqual(lost, ['messages[1].content[2]'])
  })

  it('count cache reads and writes beside the input, under any of their names', () => {
    const read = (usage: unknown) => bedrock.readUsage({ usage })
    const reportedUsage = { inputTokens: 2, outputTokens: 5, totalTokens: 1329 }
    assert.deepEqual(read({ ...reportedUsage, cacheReadInputTokens: 1000, cacheWriteInputTokens: 322 }), {
      ...EMPTY,
      input: 2,
      cachedInput: 1000,
      cacheWrite: 322,
      output: 5,
      calls: 1,
    })
    assert.equal(read({ ...reportedUsage, cacheReadInputTokenCount: 7 })?.cachedInput, 7)
    const both = { cacheWriteInputTokens: 30, cacheWriteInputTokenCount: 30 }
    assert.equal(read({ ...reportedUsage, ...both })?.cacheWrite, 30)
    const cacheDetails = [{ ttl: '1h', inputTokens: 20 }]
    assert.deepEqual(
      [
        read({ ...reportedUsage, ...both, cacheDetails })?.cacheWrite,
        read({ ...reportedUsage, ...both, cacheDetails })?.cacheWrite1h,
      ],
      [10, 20],
    )
  })

  it('end with the error that a frame reports, by its class', () => {
    const start = eventFrame('messageStart', { role: 'assistant' })
    const throttled = eventFrame('throttlingException', { message: 'Too fast' }, 'exception')
    const error = errorOf(streamed(bedrock, Buffer.concat([start, throttled])))
    assert.deepEqual([error.kind, error.message], ['rateLimit', 'Too fast'])
    const invalid = eventFrame('validationException', { message: 'input is too long' }, 'exception')
    assert.equal(errorOf(streamed(bedrock, invalid)).kind, 'context')
    const malformed = eventFrame('messageStop', { stopReason: 'malformed_tool_use' })
    assert.equal(errorOf(streamed(bedrock, malformed)).kind, 'server')
  })

  it('end with an error if a frame is invalid or truncated', () => {
    const frame = eventFrame('messageStart', { role: 'assistant' })
    const broken = Buffer.from(frame)
    broken.writeUInt8(broken.readUInt8(40) ^ 1, 40)
    assert.equal(errorOf(streamed(bedrock, broken)).kind, 'server')
    assert.equal(errorOf(streamed(bedrock, frame.subarray(0, 30))).kind, 'truncated')
    assert.equal(errorOf(streamed(bedrock, Buffer.alloc(16, 0xff))).kind, 'server')
  })

  it('recognize errors by the class in the header', () => {
    const kind = (type: string, status: number) =>
      bedrock.decodeError({
        status,
        body: { message: 'm' },
        header: name => (name === 'x-amzn-errortype' ? `${type}:http://internal.amazon.com/` : undefined),
      }).kind
    assert.equal(kind('UnrecognizedClientException', 403), 'auth')
    assert.equal(kind('AccessDeniedException', 403), 'permission')
    assert.equal(kind('ThrottlingException', 429), 'rateLimit')
    assert.equal(kind('ModelNotReadyException', 429), 'overloaded')
    assert.equal(kind('ModelErrorException', 424), 'server')
    assert.equal(kind('ValidationException', 400), 'invalid')
  })
})

describe('chats for Cohere', () => {
  it('support a tool loop: the reasoning before calls is their plan', () => {
    const { body, lost } = fields(cohere, { ...HELLO, messages: LOOP, tools: [WEATHER] })
    assert.deepEqual((body.messages as unknown[]).slice(2), [
      {
        role: 'assistant',
        tool_plan: 'Two calls.',
        tool_calls: [
          { id: 'call_a', type: 'function', function: { name: 'weather', arguments: '{"city":"Berlin"}' } },
          { id: 'call_b', type: 'function', function: { name: 'weather', arguments: '{"city":"Paris"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_a', content: '15 °C' },
      { role: 'tool', tool_call_id: 'call_b', content: '17 °C' },
    ])
    assert.deepEqual(lost, [])
  })

  it('offer only the tool that is named, and require it', () => {
    const other = { ...WEATHER, name: 'other' }
    const { body } = fields(cohere, {
      ...HELLO,
      tools: [WEATHER, other],
      toolChoice: { mode: 'required', only: ['other'] },
    })
    assert.equal(body.tool_choice, 'REQUIRED')
    assert.deepEqual(
      (body.tools as { function: { name: string } }[]).map(tool => tool.function.name),
      ['other'],
    )
  })

  it('send schemas, images, documents and settings in the vendor’s fields', () => {
    const { body, lost } = fields(cohere, {
      ...HELLO,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look.' },
            { type: 'media', kind: 'image', source: { data: PIXEL }, mediaType: 'image/png', detail: 'low' },
            { type: 'media', kind: 'file', source: { text: 'Ruby is red.' }, name: 'facts.txt' },
          ],
        },
      ],
      output: { type: 'schema', schema: WEATHER.parameters },
      topP: 0.5,
      topK: 3,
      seed: 0,
      stop: ['x'],
      reasoning: { effort: 'medium' },
      maxTokens: 1_000,
    })
    assert.deepEqual(body, {
      model: 'm',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look.' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}`, detail: 'low' } },
          ],
        },
      ],
      documents: [{ id: 'doc:0', data: { title: 'facts.txt', text: 'Ruby is red.' } }],
      stream: false,
      max_tokens: 1_000,
      p: 0.5,
      k: 3,
      seed: 0,
      stop_sequences: ['x'],
      response_format: { type: 'json_object', json_schema: WEATHER.parameters },
      thinking: { type: 'enabled', token_budget: 500 },
    })
    assert.deepEqual(lost, [])
  })

  it('are charged by the billed units, which are less than the reported tokens', () => {
    const usage = {
      billed_units: { input_tokens: 12, output_tokens: 7 },
      tokens: { input_tokens: 507, output_tokens: 10, reasoning_tokens: 3 },
      cached_tokens: 448,
    }
    assert.deepEqual(cohere.readUsage({ usage }), { ...EMPTY, input: 12, output: 4, reasoning: 3, calls: 1 })
    const { billed_units: _, ...unbilled } = usage
    assert.deepEqual(cohere.readUsage({ usage: unbilled }), {
      ...EMPTY,
      input: 59,
      cachedInput: 448,
      output: 7,
      reasoning: 3,
      calls: 1,
    })
  })

  it('convert arguments that are the text null to an empty object', () => {
    const call = { id: 'a', type: 'function', function: { name: 'now', arguments: 'null' } }
    const body = { id: 'x', finish_reason: 'TOOL_CALL', message: { tool_calls: [call] } }
    const answer = cohere.decodeAnswer(body, { idsAndClock })
    assert.ok(!('error' in answer))
    assert.deepEqual(answer.choices[0]?.parts, [{ type: 'toolCall', id: 'a', name: 'now', arguments: '{}' }])
  })

  it('end with an error if the vendor reports a failure, with the usage until then', () => {
    const usage = { billed_units: { input_tokens: 3, output_tokens: 1 } }
    const events = streamed(
      cohere,
      sse(
        { type: 'message-start', ...{ id: 'a', delta: { message: { role: 'assistant' } } } },
        { type: 'message-end', ...{ delta: { finish_reason: 'ERROR', error: 'broken', usage } } },
      ),
    )
    assert.equal(errorOf(events).message, 'broken')
    assert.ok(events.some(event => event.type === 'usage' && event.usage.input === 3))
  })
})

describe('chats for Ollama', () => {
  it('support a tool loop: arguments as objects, results by the names of their tools', () => {
    const { body, lost } = fields(ollama, { ...HELLO, messages: LOOP, tools: [WEATHER] })
    assert.deepEqual((body.messages as unknown[]).slice(2), [
      {
        role: 'assistant',
        content: '',
        thinking: 'Two calls.',
        tool_calls: [
          { id: 'call_a', function: { name: 'weather', arguments: { city: 'Berlin' } } },
          { id: 'call_b', function: { name: 'weather', arguments: { city: 'Paris' } } },
        ],
      },
      { role: 'tool', content: '15 °C', tool_name: 'weather', tool_call_id: 'call_a' },
      { role: 'tool', content: '17 °C', tool_name: 'weather', tool_call_id: 'call_b' },
    ])
    assert.equal(body.stream, false)
    assert.deepEqual(lost, [])
  })

  it('send schemas, images and settings in the server’s fields', () => {
    const { body, lost } = fields(ollama, {
      ...HELLO,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Look.' },
            { type: 'media', kind: 'image', source: { data: PIXEL }, mediaType: 'image/png' },
          ],
        },
      ],
      output: { type: 'schema', schema: WEATHER.parameters },
      maxTokens: 10,
      seed: 0,
      reasoning: { effort: 'none' },
    })
    assert.deepEqual(body, {
      model: 'm',
      messages: [{ role: 'user', content: 'Look.', images: [PIXEL] }],
      stream: false,
      format: WEATHER.parameters,
      think: false,
      options: { num_predict: 10, seed: 0 },
    })
    assert.deepEqual(lost, [])
  })

  it('request a larger context if the server would truncate the prompt silently', () => {
    const long = { role: 'user', content: [{ type: 'text', text: 'word '.repeat(10_000) }] } as const
    const { options } = ollama.encodeRequest({ ...HELLO, messages: [long] }).body as {
      options: { num_ctx: number }
    }
    assert.equal(options.num_ctx, 32_768)
    assert.equal(ollama.encodeRequest(HELLO).body.options, undefined)
  })

  it('warn that a tool cannot be required, nor the amount of reasoning set', () => {
    const { body, lost } = fields(ollama, {
      ...HELLO,
      tools: [WEATHER],
      toolChoice: { mode: 'required' },
      reasoning: { effort: 'low' },
    })
    assert.deepEqual(lost, ['tool_choice', 'reasoning'])
    assert.equal(body.think, true)
    assert.equal(
      ollama.encodeRequest({ ...HELLO, model: 'gpt-oss:20b', reasoning: { effort: 'low' } }).body.think,
      'low',
    )
  })

  it('add ids to calls and report that tools were called, although the server reports stop', () => {
    const call = { function: { name: 'weather', arguments: { city: 'Berlin' } } }
    const message = { role: 'assistant', content: '', thinking: 'Hm.' }
    const answer = wholeOf(
      streamed(
        ollama,
        lines(
          { model: 'm', created_at: '2024-05-24T20:26:46.294874Z', message, done: false },
          { model: 'm', message: { role: 'assistant', content: '', tool_calls: [call, call] }, done: false },
          {
            model: 'm',
            message: { role: 'assistant', content: '' },
            done: true,
            done_reason: 'stop',
            prompt_eval_count: 5,
            eval_count: 2,
          },
        ),
      ),
    )
    assert.equal(answer.createdS, 1_716_582_406)
    assert.deepEqual(answer.choices, [
      {
        parts: [
          { type: 'reasoning', text: 'Hm.' },
          { type: 'toolCall', id: 'call_1', name: 'weather', arguments: '{"city":"Berlin"}' },
          { type: 'toolCall', id: 'call_1', name: 'weather', arguments: '{"city":"Berlin"}' },
        ],
        stop: { reason: 'tools' },
      },
    ])
    assert.deepEqual(answer.usage, { ...EMPTY, input: 5, output: 2, calls: 1 })
  })

  it('have no usage if the server omits the prompt tokens, so that the gateway counts them', () => {
    assert.equal(ollama.readUsage({ eval_count: 5 }), undefined)
  })

  it('end with the error that a line reports, and are incomplete without a last line', () => {
    const line = { message: { role: 'assistant', content: 'Hi' }, done: false }
    assert.equal(errorOf(streamed(ollama, lines(line, { error: 'out of memory' }))).message, 'out of memory')
    assert.equal(errorOf(streamed(ollama, lines(line))).kind, 'truncated')
    assert.equal(ollama.decodeError({ status: 404, body: { error: 'model "x" not found' } }).kind, 'notFound')
  })
})

describe('chats for Mistral', () => {
  const { encoding } = mistral

  it('use the fields that it accepts, with nine letters or digits for the id of a call', () => {
    const { body, warnings } = openaiChat.encodeRequest(
      {
        ...HELLO,
        stream: true,
        messages: [{ role: 'developer', content: [{ type: 'text', text: 'Brief.' }] }, ...LOOP.slice(1)],
        tools: [WEATHER],
        toolChoice: { mode: 'required' },
        seed: 0,
        maxTokens: 5,
        user: 'me',
        logprobs: 0,
      },
      encoding,
    )
    const [system, , assistant, result] = body.messages as Record<string, unknown>[]
    assert.equal(system?.role, 'system')
    assert.deepEqual(assistant?.content, [
      { type: 'thinking', thinking: [{ type: 'text', text: 'Two calls.' }] },
    ])
    const [call] = (assistant?.tool_calls ?? []) as { id: string }[]
    assert.match(call?.id ?? '', /^[a-zA-Z0-9]{9}$/)
    assert.equal(result?.tool_call_id, call?.id)
    assert.deepEqual([body.random_seed, body.max_tokens, body.tool_choice], [0, 5, 'any'])
    for (const name of ['seed', 'max_completion_tokens', 'stream_options', 'user', 'logprobs'])
      assert.ok(!(name in body), name)
    assert.deepEqual(
      warnings.map(({ field }) => field),
      ['logprobs', 'user'],
    )
    assert.ok(isInDialect(body, encoding.dialect))
  })

  it('are distinguished from those that it would reject', () => {
    const messages = [{ role: 'user', content: 'Hi' }]
    assert.ok(isInDialect({ model: 'm', messages }, encoding.dialect))
    const called = { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } }
    for (const more of [
      { seed: 1 },
      { user: 'me' },
      { stream_options: {} },
      { tool_choice: 'required' },
      { functions: [{ name: 'f' }] },
      { function_call: 'auto' },
      { messages: [...messages, called] },
      { messages: [...messages, { role: 'function', name: 'f', content: 'x' }] },
    ])
      assert.ok(!isInDialect({ model: 'm', messages, ...more }, encoding.dialect), JSON.stringify(more))
  })
})
