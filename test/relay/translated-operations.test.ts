import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogle } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import { retryingFetch } from '../support/client.ts'
import { INPUT_NANOS, OUTPUT_NANOS, suiteRelay } from '../support/relay.ts'
import { type Seen, startReplay } from '../support/replay.ts'

const relay = suiteRelay('sqlite')

type Fields = Readonly<Record<string, unknown>>

const serveClaude = (sentModels: string | readonly string[] = 'sim-claude', fields: Fields = {}) =>
  relay.serve(sentModels, { type: 14, base_url: `${relay.upstream}/anthropic`, ...fields })
const serveGpt = (sentModels: string | readonly string[] = 'sim-small', fields: Fields = {}) =>
  relay.serve(sentModels, fields)

const serveAt = (path: string, fields: Fields, sentModel = 'sim-small') =>
  relay.serve(sentModel, { base_url: `${relay.upstream}${path}`, ...fields })

const ask = (
  path: string,
  key: string | null,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
) => relay.api('POST', path, body, { token: key, headers })

const say = (model: string, more: Fields = {}) => ({
  model,
  max_tokens: 300,
  messages: [{ role: 'user', content: 'hi' }],
  ...more,
})

describe('request content that a format does not support', () => {
  it('is named in a warning to the client and in the usage row, and adds no cost', async () => {
    const { model } = await serveClaude()
    const { id, key } = await relay.newToken()
    const lossy = say(model, { seed: 7, logprobs: true })
    const { status, headers } = await ask('/v1/chat/completions', key, lossy)
    assert.equal(status, 200)
    assert.match(headers.get('x-sluice-warnings') ?? '', /^seed: .*logprobs: /)
    const streamed = await ask('/v1/chat/completions', key, { ...lossy, stream: true })
    assert.match(streamed.headers.get('x-sluice-warnings') ?? '', /seed: /)
    const plain = await ask('/v1/chat/completions', key, say(model))
    assert.equal(plain.headers.get('x-sluice-warnings'), null)
    const rows = await relay.rowsOf(id, 3)
    assert.deepEqual(
      rows.map(({ other }) => other.warnings?.join('; ') ?? null),
      [headers, streamed.headers, plain.headers].map(each => each.get('x-sluice-warnings')),
    )
  })

  it('may be a tool name: it is renamed for the provider and restored for the client', async () => {
    const vendor = await startReplay()
    const { key } = await relay.newToken()
    const name = `mcp__${'long'.repeat(20)}.read`
    const { model } = await relay.serve('gpt-4.1', { type: 1, base_url: vendor.url })
    const answered = (providerRequest: Seen) => {
      const [tool] = providerRequest.body.tools
      const [, { tool_calls: calls }] = providerRequest.body.messages
      const sentName = tool.function.name as string
      assert.match(sentName, /^[\w-]{1,64}$/)
      assert.equal(calls[0].function.name, sentName)
      assert.deepEqual(providerRequest.body.tool_choice, { type: 'function', function: { name: sentName } })
      const call = { index: 0, id: 'c2', type: 'function', function: { name: sentName, arguments: '{}' } }
      const choice = { index: 0, finish_reason: 'tool_calls' }
      const completionFields = {
        id: 'a',
        created: 1,
        model: 'm',
        usage: { prompt_tokens: 9, completion_tokens: 3 },
      }
      return {
        body: {
          ...completionFields,
          choices: [{ ...choice, message: { role: 'assistant', tool_calls: [call] } }],
        },
      }
    }
    vendor.play([{ method: 'POST', path: '/v1/chat/completions', answer: answered }])
    try {
      const { status, body } = await ask('/v1/messages', key, {
        model,
        max_tokens: 50,
        messages: [
          { role: 'user', content: 'x' },
          { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name, input: {} }] },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'y' }] },
        ],
        tools: [{ name, input_schema: { type: 'object' } }],
        tool_choice: { type: 'tool', name },
      })
      assert.equal(status, 200)
      assert.deepEqual(body.content, [{ type: 'tool_use', id: 'c2', name, input: {} }])
    } finally {
      vendor.close()
    }
  })

  it('is rejected if the client is strict, and goes to a channel that supports it', async () => {
    const { key } = await relay.newToken()
    const { model } = await serveClaude()
    const strict = { 'x-sluice-strict': 'true' }
    const refused = await ask('/v1/chat/completions', key, say(model, { seed: 7 }), strict)
    assert.equal(refused.status, 400)
    assert.equal(refused.body.error.code, 'invalid_parameter')
    assert.match(refused.body.error.message, /^seed: .*x-sluice-strict/)
    assert.equal((await ask('/v1/chat/completions', key, say(model), strict)).status, 200)
    // The same model on another channel with lower priority.
    await relay.addChannel({
      name: 'other',
      models: [model],
      model_mapping: { [model]: 'sim-small' },
      priority: 1,
    })
    const carried = await ask('/v1/chat/completions', key, say(model, { seed: 7 }), strict)
    assert.equal(carried.status, 200, carried.text)
    assert.equal(carried.body.model, 'sim-small')
  })
})

describe('a service tier without a price', () => {
  it('reaches no provider in any format, streamed or not, while the rest is forwarded unchanged', async () => {
    const vendor = await startReplay()
    try {
      const { key } = await relay.newToken()
      const at = { base_url: vendor.url }
      const openai = (await relay.serve('gpt-4.1', { type: 1, ...at })).model
      const claude = (await relay.serve('claude-opus-4-6', { type: 14, ...at })).model
      const gemini = (await relay.serve('gemini-2.5-pro', { type: 24, ...at })).model
      const bedrock = (
        await relay.serve('us.amazon.nova-pro-v1:0', { type: 33, ...at, key: 'AKIAEXAMPLE|secret|us-east-1' })
      ).model
      const turns = { contents: [{ role: 'user', parts: [{ text: 'hi' }] }] }
      const generate = (model: string) => `/v1beta/models/${model}:generateContent`
      const stream = (model: string) => `/v1beta/models/${model}:streamGenerateContent?alt=sse`
      const chatFields = { messages: [{ role: 'user', content: 'hi' }], max_tokens: 9 }
      const fast = { speed: 'fast', inference_geo: 'us' }
      const cases: [path: string, body: Fields][] = [
        ...[openai, claude, gemini, bedrock].flatMap((model): [string, Fields][] => [
          ['/v1/chat/completions', { model, ...chatFields, service_tier: 'priority' }],
          ['/v1/chat/completions', { model, ...chatFields, service_tier: 'fast', stream: true }],
          ['/v1/responses', { model, input: 'hi', service_tier: 'priority' }],
          ['/v1/responses', { model, input: 'hi', service_tier: 'scale', stream: true }],
          ['/v1/messages', { model, ...chatFields, service_tier: 'priority', ...fast }],
          ['/v1/messages', { model, ...chatFields, ...fast, stream: true }],
          [generate(model), { ...turns, serviceTier: 'priority' }],
          [generate(model), { ...turns, service_tier: 'PRIORITY' }],
          [stream(model), { ...turns, serviceTier: 'priority' }],
        ]),
        [generate(gemini), { ...turns, serviceTier: 3 }],
        ['/v1/completions', { model: openai, prompt: 'hi', service_tier: 'priority' }],
      ]
      for (const [path, body] of cases) {
        const before = vendor.seen.length
        await ask(path, key, body)
        const providerRequests = vendor.seen.slice(before)
        const which = `${path} ${JSON.stringify(body)}`
        assert.ok(providerRequests.length > 0, which)
        const [first] = providerRequests
        const { model } = first?.body ?? {}
        if (path === '/v1/chat/completions' && model === 'gpt-4.1' && !body.stream)
          assert.equal(
            JSON.stringify(first?.body),
            JSON.stringify({ ...body, model, service_tier: undefined }),
          )
        for (const { body: sentBody } of providerRequests)
          for (const name of ['service_tier', 'serviceTier', 'speed', 'inference_geo'])
            assert.equal(Object.hasOwn(sentBody, name), false, `${which}: ${JSON.stringify(sentBody)}`)
      }
    } finally {
      vendor.close()
    }
  })

  it('is sent if the price lists it, as are tiers that cannot cost more', async () => {
    const vendor = await startReplay()
    try {
      const { key } = await relay.newToken()
      const variants = [
        { when: { service_tier: 'fast' }, input: 6 },
        { when: { service_tier: 'priority' }, input: 2 },
        { when: { service_tier: 'fast', inference_geo: 'us' }, input: 7 },
      ]
      const serve = async (sentModel: string, type: number) =>
        (await relay.serve(sentModel, { type, base_url: vendor.url }, { variants })).model
      const claude = await serve('claude-opus-4-6', 14)
      const openai = await serve('gpt-4.1', 1)
      const captureSentBody = async (path: string, body: Fields) => {
        const before = vendor.seen.length
        await ask(path, key, body)
        return vendor.seen[before]?.body
      }
      const fast = { speed: 'fast', inference_geo: 'us' }
      const both = await captureSentBody('/v1/messages', say(claude, fast))
      assert.deepEqual([both.speed, both.inference_geo], ['fast', 'us'])
      // Only this one has no price.
      assert.equal(
        (await captureSentBody('/v1/messages', say(claude, { inference_geo: 'us' }))).inference_geo,
        undefined,
      )
      const usual = { service_tier: 'standard_only', inference_geo: 'global', speed: 'standard' }
      const { service_tier, inference_geo, speed } = await captureSentBody('/v1/messages', say(claude, usual))
      assert.deepEqual({ service_tier, inference_geo, speed }, usual)
      for (const tier of ['flex', 'auto', 'default', 'priority', null]) {
        const chat = await captureSentBody('/v1/chat/completions', say(openai, { service_tier: tier }))
        assert.equal(chat.service_tier, tier)
      }
      const carried = await captureSentBody('/v1/messages', say(openai, { service_tier: 'priority' }))
      assert.equal(carried.service_tier, 'priority')
    } finally {
      vendor.close()
    }
  })

  it('is not reported as used in a translated response', async () => {
    const { model } = await serveClaude()
    const { key } = await relay.newToken()
    const body = { model, input: 'hi', service_tier: 'priority' }
    assert.equal((await ask('/v1/responses', key, body)).body.service_tier, 'default')
    // A format that cannot express it is not charged for it either.
    const variants = [{ when: { service_tier: 'priority' }, input: 10, output: 20 }]
    const dear = await relay.serve(
      'sim-claude',
      { type: 14, base_url: `${relay.upstream}/anthropic` },
      { variants },
    )
    const app = await relay.newToken()
    const answer = await ask('/v1/responses', app.key, { ...body, model: dear.model })
    assert.equal(answer.body.service_tier, 'default')
    const { usage } = answer.body
    const { cost, other } = await relay.rowOf(app.id)
    assert.equal(cost, usage.input_tokens * INPUT_NANOS + usage.output_tokens * OUTPUT_NANOS)
    assert.deepEqual(other.priced_for, {})
  })
})

describe('the same format for client and provider', () => {
  it('forwards a response of Anthropic’s format byte for byte', async () => {
    const { model } = await serveClaude()
    const { key } = await relay.newToken()
    const { text, headers } = await ask('/v1/messages', key, say(model), {
      'anthropic-version': '2023-06-01',
    })
    assert.match(text, /^\{"id":"msg_[^"]+","type":"message"/)
    assert.match(text, /"service_tier":"standard"/)
    assert.match(headers.get('request-id') ?? '', /^req_/)
    const streamed = await ask('/v1/messages', key, say(model, { stream: true }))
    assert.match(streamed.text, /event: ping\n/)
    assert.match(streamed.text, /event: message_stop\ndata: \{"type":"message_stop"\}\n\n$/)
  })

  it('is preferred if a provider supports several', async () => {
    const { model } = await serveGpt()
    const { key } = await relay.newToken()
    const { body } = await ask('/v1/responses', key, { model, input: 'hi' })
    assert.match(body.id, /^resp_/)
    assert.equal((await relay.seen('sim-small')).length > 0, true)
    const chat = await ask('/v1/chat/completions', key, say(model))
    assert.match(chat.body.id, /^chatcmpl-/)
  })

  it('does not send signatures of one vendor to another', async () => {
    const { model } = await serveClaude('sim-claude-opus-4-5')
    const { key } = await relay.newToken()
    const messages = [
      { role: 'user', content: 'hi' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm.', signature: 'sluice:gemini:abc' },
          { type: 'text', text: 'Hello' },
        ],
      },
      { role: 'user', content: 'and now?' },
    ]
    const { status, text } = await ask('/v1/messages', key, say(model, { messages }))
    assert.equal(status, 200, text)
  })
})

describe('chat completions hosts with fields of their own', () => {
  const history = [
    { role: 'user', content: 'hi' },
    { role: 'assistant', content: 'Hello', reasoning_content: 'They greet me.' },
    { role: 'user', content: 'and now?' },
  ]

  it('are sent no reasoning settings that they reject', async () => {
    const { model } = await serveGpt('sim-small', { type: 1001 })
    const { key } = await relay.newToken()
    const { status, headers } = await ask('/v1/chat/completions', key, say(model, { messages: history }))
    assert.equal(status, 200)
    assert.match(headers.get('x-sluice-warnings') ?? '', /^messages\.reasoning_content: /)
    const plain = await ask('/v1/chat/completions', key, say(model))
    assert.equal(plain.headers.get('x-sluice-warnings'), null)
  })

  it('are sent known settings under their own names, and their responses use the client’s names', async () => {
    const { model } = await serveAt('/mistral', { type: 42 })
    const { key } = await relay.newToken()
    const wishes = { messages: history, seed: 1, max_completion_tokens: 50, tool_choice: 'required' }
    const tools = [{ type: 'function', function: { name: 'get_time', parameters: { type: 'object' } } }]
    for (const stream of [false, true]) {
      const body = { model, ...wishes, tools, stream }
      const { status, text, headers } = await ask('/v1/chat/completions', key, body)
      assert.equal(status, 200, text)
      assert.match(text, /"name":"get_time"/)
      assert.equal(headers.get('x-sluice-warnings'), null)
    }
    const lost = await ask('/v1/chat/completions', key, say(model, { user: 'me' }))
    assert.match(lost.headers.get('x-sluice-warnings') ?? '', /^user: /)
  })
})

describe('a channel override', () => {
  it('changes the body in the provider’s own format, and the hold covers it', async () => {
    const { model } = await serveClaude('sim-words-400', { param_override: { max_tokens: 20 } })
    const { key, id } = await relay.newToken()
    await ask('/v1/chat/completions', key, say(model))
    assert.equal((await relay.rowOf(id)).completion_tokens, 20)
    const greedy = await serveClaude('sim-words-400', { param_override: { max_tokens: 900_000 } })
    const poor = await relay.newToken({ remain_quota: 400 })
    const { status, body } = await ask('/v1/chat/completions', poor.key, say(greedy.model, { max_tokens: 5 }))
    assert.equal(status, 429)
    assert.equal(body.error.code, 'insufficient_quota')
  })

  it('does not request more from Anthropic than the hold covers if the client sets no limit', async () => {
    const { model } = await serveClaude('sim-words-5000')
    const { key, id } = await relay.newToken({ remain_quota: 5_000_000 })
    await ask('/v1/chat/completions', key, { model, messages: [{ role: 'user', content: 'hi' }] })
    assert.equal((await relay.rowOf(id)).completion_tokens, 1_000)
  })
})

describe('errors in the client’s format', () => {
  it('on /v1/messages', async () => {
    const { model } = await serveClaude()
    const { key } = await relay.newToken()
    const nobody = await ask('/v1/messages', null, say(model), { 'x-api-key': 'sk-nobody' })
    assert.equal(nobody.status, 401)
    assert.equal(nobody.body.type, 'error')
    assert.equal(nobody.body.error.type, 'authentication_error')
    assert.equal(nobody.body.request_id, nobody.headers.get('request-id'))
    const validReply = await ask('/v1/messages', null, say(model), { 'x-api-key': key })
    assert.equal(validReply.status, 200)
    for (const [body, type, status] of [
      [say('nothing-like-it'), 'not_found_error', 404],
      [{ model, max_tokens: 5 }, 'invalid_request_error', 400],
      [say(model, { max_tokens: 'many' }), 'invalid_request_error', 400],
    ] as const) {
      const refused = await ask('/v1/messages', key, body)
      assert.equal(refused.status, status)
      assert.equal(refused.body.error.type, type)
    }
    const poor = await relay.newToken({ remain_quota: 0 })
    const { status, body, headers } = await ask('/v1/messages', poor.key, say(model))
    assert.equal(status, 429)
    assert.equal(body.error.type, 'billing_error')
    assert.equal(headers.get('x-should-retry'), 'false')
  })

  it('if a provider is overloaded in the middle of a stream', async () => {
    const { model } = await serveGpt('sim-error-in-stream')
    const { key } = await relay.newToken()
    const { text } = await ask('/v1/messages', key, say(model, { stream: true }))
    assert.match(text, /event: error\ndata: \{"type":"error","error":\{"type":"api_error"/)
    assert.doesNotMatch(text, /message_stop/)
    const responses = await ask('/v1/responses', key, { model, input: 'x', stream: true })
    assert.match(responses.text, /event: error\n/)
    assert.doesNotMatch(responses.text, /response\.completed/)
  })

  it('by the error class that Bedrock sends only in a header', async () => {
    const key = 'AKIAEXAMPLE|secret-canary-5512|eu-west-1'
    const { key: token } = await relay.newToken()
    for (const [sentModel, status, type] of [
      ['sim-status-424', 424, 'api_error'],
      ['sim-status-422', 422, 'invalid_request_error'],
      ['sim-status-404', 404, 'not_found_error'],
    ] as const) {
      const { model } = await serveAt('/bedrock', { type: 33, key }, sentModel)
      const answer = await ask('/v1/messages', token, say(model))
      assert.equal(answer.status, status)
      assert.equal(answer.body.error.type, type)
      assert.doesNotMatch(answer.text, /secret-canary|AKIA/)
    }
  })

  it('with the retry delay that a provider sends only in its body', async () => {
    const { model, channels } = await serveGpt('sim-status-429', { type: 24 })
    const { key } = await relay.newToken()
    const { status, headers } = await ask('/v1/chat/completions', key, say(model))
    assert.equal(status, 429)
    assert.equal(headers.get('retry-after'), '1')
    assert.equal(channels.length, 1)
  })

  it('never contain the key or the address of a provider', async () => {
    const { model } = await serveClaude('sim-error-key', { status_code_mapping: { 401: 400 } })
    const { key } = await relay.newToken()
    for (const path of ['/v1/messages', '/v1/chat/completions']) {
      const { status, text } = await ask(path, key, say(model))
      assert.equal(status, 400)
      assert.match(text, /Incorrect API key provided: \[redacted\]/)
    }
  })

  it('with the code that clients expect for a prompt that is too long, for every vendor', async () => {
    const vendor = await startReplay()
    const { key } = await relay.newToken()
    const message = 'prompt is too long: 250000 tokens > 200000 maximum'
    const claude = { type: 'error', error: { type: 'invalid_request_error', message } }
    const google = {
      error: { code: 400, status: 'INVALID_ARGUMENT', message: 'The input token count exceeds the maximum' },
    }
    try {
      for (const [type, path, body] of [
        [14, '/v1/messages', claude],
        [24, '/v1beta/models/gemini-2.5-pro:generateContent', google],
      ] as const) {
        const { model } = await relay.serve('gemini-2.5-pro', { type, base_url: vendor.url })
        vendor.play([{ method: 'POST', path, answer: () => ({ status: 400, body }) }])
        const answer = await ask('/v1/chat/completions', key, say(model))
        assert.equal(answer.status, 400)
        assert.equal(answer.body.error.code, 'context_length_exceeded')
        assert.equal(answer.body.error.message, body.error.message)
      }
    } finally {
      vendor.close()
    }
  })

  it('on Gemini’s routes', async () => {
    const { key } = await relay.newToken()
    const path = '/v1beta/models/nothing-like-it:generateContent'
    const { status, body } = await ask(
      path,
      null,
      { contents: [{ parts: [{ text: 'x' }] }] },
      { 'x-goog-api-key': key },
    )
    assert.equal(status, 404)
    assert.equal(body.error.status, 'NOT_FOUND')
    const bad = await ask(`${path}?key=${key}`, null, { contents: 5 })
    assert.equal(bad.status, 400)
    assert.match(bad.body.error.message, /contents/)
  })

  it('on Gemini’s routes with the seconds to wait in the body, which its clients read instead of the header', async () => {
    const { model } = await serveGpt()
    const { key } = await relay.newToken({ limits: { rpm: 1 } })
    const again = () =>
      ask(`/v1beta/models/${model}:generateContent`, key, { contents: [{ parts: [{ text: 'x' }] }] })
    await again()
    const { status, headers, body } = await again()
    assert.equal(status, 429)
    assert.deepEqual(body.error.details, [
      { '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${headers.get('retry-after')}s` },
    ])
  })

  it('if the client requests a list, or an unsupported operation', async () => {
    const { key } = await relay.newToken()
    const of = (path: string, headers: Readonly<Record<string, string>>, method = 'GET') =>
      relay.api(method, path, undefined, { token: null, headers })
    const google = { 'x-goog-api-key': key }
    const unknown = await of('/v1beta/models/nothing-like-it', google)
    assert.deepEqual([unknown.status, unknown.body.error.status], [404, 'NOT_FOUND'])
    const wrong = await of('/v1beta/models', { 'x-goog-api-key': 'sk-wrong' })
    assert.deepEqual([wrong.status, wrong.body.error.status], [401, 'UNAUTHENTICATED'])
    const method = await of('/v1beta/models/any:batchGenerateContent', google, 'POST')
    assert.deepEqual([method.status, method.body.error.status], [404, 'NOT_FOUND'])
    const claude = { 'x-api-key': key, 'anthropic-version': '2023-06-01' }
    for (const path of ['/v1/models/nothing-like-it', '/v1/messages/batches']) {
      const { status, body, headers } = await of(path, claude)
      assert.deepEqual([status, body.type, body.error.type], [404, 'error', 'not_found_error'])
      assert.equal(headers.get('request-id'), body.request_id)
    }
    const common = await of('/v1/models/nothing-like-it', { authorization: `Bearer ${key}` })
    assert.equal(common.body.error.code, 'model_not_found')
  })

  it('and Gemini’s own path lists models in its format, with any header for the token', async () => {
    const { model } = await serveGpt()
    const { key } = await relay.newToken()
    const { body } = await relay.api('GET', '/v1beta/models', undefined, { token: key })
    assert.ok(body.models.some(({ name }: { name: string }) => name === `models/${model}`))
  })
})

describe('requests for stored content', () => {
  it('are rejected with the field name, for every provider', async () => {
    const { model } = await serveGpt()
    const { key } = await relay.newToken()
    for (const field of ['previous_response_id', 'conversation', 'prompt', 'background']) {
      const { status, body } = await ask('/v1/responses', key, { model, input: 'hi', [field]: 'resp_1' })
      assert.equal(status, 400)
      assert.equal(body.error.param, field)
    }
    assert.equal((await ask('/v1/responses', key, { model })).body.error.code, 'missing_parameter')
  })
})

describe('token counts', () => {
  it('are free, and use the client’s format', async () => {
    const { model } = await serveGpt()
    const { key, id } = await relay.newToken()
    const { status, body } = await ask('/v1/messages/count_tokens', key, say(model))
    assert.equal(status, 200)
    assert.ok(body.input_tokens > 0 && body.input_tokens < 20, String(body.input_tokens))
    const contents = [{ role: 'user', parts: [{ text: 'hi there' }] }]
    const gemini = await ask(`/v1beta/models/${model}:countTokens`, key, { contents })
    assert.ok(gemini.body.totalTokens > 0 && gemini.body.totalTokens < 20, gemini.text)
    const wrapped = await ask(`/v1beta/models/${model}:countTokens`, key, {
      generateContentRequest: { contents },
    })
    assert.deepEqual(wrapped.body, gemini.body)
    assert.equal(await relay.usedBy(id), 0)
  })
})

describe('Gemini’s stream without SSE', () => {
  it('is one list that a JSON parser accepts', async () => {
    const { model } = await serveClaude()
    const { key } = await relay.newToken()
    const contents = [{ role: 'user', parts: [{ text: 'hi' }] }]
    const { body, headers } = await ask(`/v1beta/models/${model}:streamGenerateContent`, key, { contents })
    assert.match(headers.get('content-type') ?? '', /^application\/json/)
    assert.ok(Array.isArray(body))
    assert.equal(body.at(-1).candidates[0].finishReason, 'STOP')
  })
})

describe('a channel of type Anthropic', () => {
  it('is tested with a model it serves', async () => {
    const { model, channels } = await serveClaude()
    for (const stream of ['', '&stream=true']) {
      const { body } = await relay.api('GET', `/api/channel/test/${channels[0]}?model=${model}${stream}`)
      assert.equal(body.success, true, JSON.stringify(body))
    }
  })

  it('lists its models', async () => {
    const { channels } = await serveClaude()
    const { body } = await relay.api('GET', `/api/channel/fetch_models/${channels[0]}`)
    assert.deepEqual(body.data, ['sim-claude', 'sim-small'])
  })

  it('may be limited to some formats of its vendor, and to no others', async () => {
    const channel = { name: 'x', type: 1, key: 'k', models: ['m'], setting: { chat_formats: ['gemini'] } }
    const { status, body } = await relay.api('POST', '/api/channel/', { mode: 'single', channel })
    assert.equal(status, 400)
    assert.match(body.message, /chat_formats.*openai-chat, responses/)
  })
})

describe('the AI SDK', () => {
  const city = jsonSchema<{ city: string }>({ type: 'object', properties: { city: { type: 'string' } } })
  const tools = {
    get_weather: tool({ description: 'weather', inputSchema: city, execute: async () => 'sunny' }),
    get_time: tool({ description: 'time', inputSchema: city, execute: async () => 'noon' }),
  }
  const fetch = retryingFetch as typeof globalThis.fetch
  const LANGUAGES = {
    chat: (key: string, model: string) =>
      createOpenAI({ apiKey: key, baseURL: `${relay.gateway.url}/v1`, fetch }).chat(model),
    responses: (key: string, model: string) =>
      createOpenAI({ apiKey: key, baseURL: `${relay.gateway.url}/v1`, fetch }).responses(model),
    messages: (key: string, model: string) =>
      createAnthropic({ apiKey: key, baseURL: `${relay.gateway.url}/v1`, fetch })(model),
    'Gemini’s format': (key: string, model: string) =>
      createGoogle({ apiKey: key, baseURL: `${relay.gateway.url}/v1beta`, fetch })(model),
  }
  const PROVIDERS = {
    'OpenAI chat': () => serveGpt('sim-small', { setting: { chat_formats: ['openai-chat'] } }),
    'OpenAI Responses': () => serveGpt('sim-small', { setting: { chat_formats: ['responses'] } }),
    Anthropic: () => serveClaude(),
    Gemini: () => serveGpt('sim-small', { type: 24 }),
    Bedrock: () => serveAt('/bedrock', { type: 33, key: 'AKIAEXAMPLE|secret-canary|eu-west-1' }),
    Cohere: () => serveAt('/cohere', { type: 34, setting: { chat_formats: ['cohere'] } }),
    Ollama: () => serveAt('/ollama', { type: 4, setting: { chat_formats: ['ollama'] } }),
    Mistral: () => serveAt('/mistral', { type: 42 }),
  }
  for (const [language, open] of Object.entries(LANGUAGES))
    for (const [provider, serve] of Object.entries(PROVIDERS))
      it(`completes a tool loop in ${language} with ${provider}, streamed and not`, async () => {
        const { model } = await serve()
        const { key } = await relay.newToken()
        const providerOptions = { openai: { store: false } }
        const options = {
          model: open(key, model),
          prompt: 'use the tools',
          tools,
          stopWhen: stepCountIs(3),
          maxOutputTokens: 500,
          maxRetries: 0,
          providerOptions,
        }
        const whole = await generateText(options)
        assert.match(whole.text, /The tool answered/)
        assert.equal(whole.steps[0]?.toolCalls.length, 2)
        const streamed = streamText(options)
        assert.match(await streamed.text, /The tool answered/)
        assert.ok(((await streamed.totalUsage).outputTokens ?? 0) > 0)
      })
})
