import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import OpenAI from 'openai'
import { countTokens } from '../../simulator/tokens.ts'
import { retryingFetch } from '../support/client.ts'
import { INPUT_NANOS, PROVIDER_KEY, suiteRelay } from '../support/relay.ts'

const MODEL = 'gpt-4o-mini'
const user = (content: string) => [{ role: 'user' as const, content }]

const weather = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}
const clock = {
  type: 'function' as const,
  function: { name: 'get_time', parameters: { type: 'object', properties: { zone: { type: 'string' } } } },
}

describe('the openai SDK through the gateway', () => {
  const relay = suiteRelay('sqlite')
  before(async () => {
    await relay.addChannel({ models: [MODEL, 'text-embedding-3-small', 'gpt-3.5-turbo-instruct'] })
  })

  const sdkFor = (apiKey: string, maxRetries = 0) =>
    new OpenAI({ apiKey, baseURL: `${relay.gateway.url}/v1`, maxRetries, fetch: retryingFetch })
  async function open(fields = {}) {
    const { id, key } = await relay.newToken(fields)
    return { id, sdk: sdkFor(key) }
  }

  describe('gets', () => {
    it('a non-streamed response', async () => {
      const { sdk } = await open()
      const answer = await sdk.chat.completions.create({ model: MODEL, messages: user('How are you?') })
      assert.match(answer.choices[0]?.message.content ?? '', /How are you\?/)
      assert.equal(answer.choices[0]?.finish_reason, 'stop')
      assert.equal(answer.usage?.prompt_tokens, countTokens('How are you?'))
      assert.match(answer._request_id ?? '', /^req_/)
    })

    it('a stream with the text of the non-streamed response and no usage', async () => {
      const { sdk } = await open()
      const whole = await sdk.chat.completions.create({ model: MODEL, messages: user('Stream this') })
      let text = ''
      const stream = await sdk.chat.completions.create({
        model: MODEL,
        messages: user('Stream this'),
        stream: true,
      })
      for await (const chunk of stream) {
        assert.equal(chunk.usage ?? null, null)
        text += chunk.choices[0]?.delta.content ?? ''
      }
      assert.equal(text, whole.choices[0]?.message.content)
    })

    it('the usage of a stream if it requests it, and pays exactly that', async () => {
      const { model } = await relay.serve('sim-words-7')
      const { id, sdk } = await open()
      const stream = await sdk.chat.completions.create({
        model,
        messages: user('Hi'),
        stream: true,
        stream_options: { include_usage: true },
      })
      let usage: OpenAI.CompletionUsage | null | undefined
      for await (const chunk of stream) usage = chunk.usage ?? usage
      assert.equal(usage?.completion_tokens, 7)
      assert.equal((await relay.rowOf(id)).cost, countTokens('Hi') * 1_000 + 7 * 2_000)
    })

    it('a tool call, non-streamed and through the stream helper', async () => {
      const { sdk } = await open()
      const request = { model: MODEL, messages: user('Call get_weather'), tools: [weather] }
      const whole = await sdk.chat.completions.create(request)
      const call = whole.choices[0]?.message.tool_calls?.[0]
      assert.ok(call?.type === 'function')
      assert.equal(call.function.name, 'get_weather')
      assert.equal(typeof JSON.parse(call.function.arguments).city, 'string')
      assert.equal(whole.choices[0]?.finish_reason, 'tool_calls')
      const streamed = await sdk.chat.completions.stream(request).finalChatCompletion()
      assert.deepEqual(
        streamed.choices[0]?.message.tool_calls?.map(each => each.type),
        ['function'],
      )
    })

    it('parallel tool calls, and the response to their results', async () => {
      const { sdk } = await open()
      const tools = [weather, clock]
      const messages: OpenAI.ChatCompletionMessageParam[] = user('Use get_weather and get_time')
      const { choices } = await sdk.chat.completions.create({ model: MODEL, messages, tools })
      const message = choices[0]?.message
      const calls = message?.tool_calls ?? []
      assert.deepEqual(
        calls.map(call => call.type === 'function' && call.function.name),
        ['get_weather', 'get_time'],
      )
      assert.ok(message)
      const results = calls.map(call => ({
        role: 'tool' as const,
        tool_call_id: call.id,
        content: 'sunny',
      }))
      const last = await sdk.chat.completions.create({
        model: MODEL,
        messages: [...messages, message, ...results],
        tools,
      })
      assert.match(last.choices[0]?.message.content ?? '', /sunny/)
    })

    it('a value of a JSON schema', async () => {
      const { sdk } = await open()
      const answer = await sdk.chat.completions.parse({
        model: MODEL,
        messages: user('A person, please'),
        response_format: {
          type: 'json_schema',
          json_schema: {
            name: 'person',
            strict: true,
            schema: {
              type: 'object',
              properties: { name: { type: 'string' }, age: { type: 'integer' } },
              required: ['name', 'age'],
              additionalProperties: false,
            },
          },
        },
      })
      const value = JSON.parse(answer.choices[0]?.message.content ?? '')
      assert.equal(typeof value.name, 'string')
      assert.ok(Number.isInteger(value.age))
    })

    it('as many choices as it requests, streamed and not', async () => {
      const { sdk } = await open()
      const whole = await sdk.chat.completions.create({ model: MODEL, messages: user('Hi'), n: 3 })
      assert.deepEqual(
        whole.choices.map(({ index }) => index),
        [0, 1, 2],
      )
      const finished = new Set<number>()
      const stream = await sdk.chat.completions.create({
        model: MODEL,
        messages: user('Hi'),
        n: 3,
        stream: true,
      })
      for await (const { choices } of stream)
        for (const { index, finish_reason } of choices) if (finish_reason) finished.add(index)
      assert.deepEqual([...finished].sort(), [0, 1, 2])
    })

    it('embeddings as numbers, although it requests base64', async () => {
      const { sdk } = await open()
      const { data } = await sdk.embeddings.create({ model: 'text-embedding-3-small', input: ['a', 'b'] })
      assert.equal(data.length, 2)
      assert.equal(data[0]?.embedding.length, 1536)
      const length = Math.hypot(...(data[0]?.embedding ?? []))
      assert.ok(Math.abs(length - 1) < 1e-3, String(length))
    })

    it('the list of models, a single model, and completions', async () => {
      const { sdk } = await open()
      const names: string[] = []
      for await (const model of sdk.models.list()) names.push(model.id)
      assert.ok(names.includes(MODEL))
      assert.equal((await sdk.models.retrieve(MODEL)).id, MODEL)
      const request = { model: 'gpt-3.5-turbo-instruct', prompt: 'Once upon a time', max_tokens: 20 }
      const whole = await sdk.completions.create(request)
      let text = ''
      for await (const chunk of await sdk.completions.create({ ...request, stream: true }))
        text += chunk.choices[0]?.text ?? ''
      assert.ok(text.length > 0)
      assert.equal(text, whole.choices[0]?.text)
    })
  })

  it('disconnects in the middle of a stream and pays once for the generated output', async () => {
    const { model } = await relay.serve('sim-words-500-pace-5')
    const { id, sdk } = await open()
    const stream = await sdk.chat.completions.create({ model, messages: user('Tell me more'), stream: true })
    let chunks = 0
    for await (const _chunk of stream) if (++chunks === 10) break
    const row = await relay.rowOf(id)
    assert.ok(row.completion_tokens > 0)
    assert.ok(row.completion_tokens < 500)
    assert.equal(row.cost, row.prompt_tokens * 1_000 + row.completion_tokens * 2_000)
    assert.equal(await relay.usedBy(id), relay.units(row.cost))
  })

  describe('throws', () => {
    type Thrown = new (...given: never[]) => InstanceType<typeof OpenAI.APIError>
    async function throws(asking: Promise<unknown>, expected: Thrown, status: number, code: string) {
      await assert.rejects(asking, (error: unknown) => {
        assert.ok(error instanceof expected, String(error))
        assert.equal(error.status, status)
        assert.equal(error.code, code)
        assert.match(error.requestID ?? '', /^req_/)
        assert.ok(!error.message.includes(PROVIDER_KEY))
        return true
      })
    }
    const askFor = (sdk: OpenAI, model = MODEL, more = {}) =>
      sdk.chat.completions.create({ model, messages: user('Hi'), ...more })

    it('AuthenticationError for a token that is unknown, disabled, expired or deleted', async () => {
      await throws(askFor(sdkFor('sk-unknown')), OpenAI.AuthenticationError, 401, 'invalid_api_key')
      const { id, sdk } = await open()
      await relay.api('PUT', '/api/token/', { id, status: 2 })
      await throws(askFor(sdk), OpenAI.AuthenticationError, 401, 'invalid_api_key')
      const expired = await open()
      // The gateway has not read it yet.
      await relay.gateway.db
        .updateTable('tokens')
        .set({ expired_time: Math.floor(Date.now() / 1000) - 1 })
        .where('id', '=', expired.id)
        .execute()
      await throws(askFor(expired.sdk), OpenAI.AuthenticationError, 401, 'invalid_api_key')
      await relay.api('DELETE', `/api/token/${id}`)
      await throws(askFor(sdk), OpenAI.AuthenticationError, 401, 'invalid_api_key')
    })

    it('PermissionDeniedError for a disallowed address and a model that the token does not allow', async () => {
      const elsewhere = await open({ allow_ips: ['10.9.8.7'] })
      await throws(askFor(elsewhere.sdk), OpenAI.PermissionDeniedError, 403, 'ip_not_allowed')
      const limited = await open({ model_limits_enabled: true, models: ['gpt-4o'] })
      await throws(askFor(limited.sdk), OpenAI.PermissionDeniedError, 403, 'model_not_allowed')
    })

    it('NotFoundError for a model that no channel serves', async () => {
      const { sdk } = await open()
      await throws(askFor(sdk, 'nobody-has-it'), OpenAI.NotFoundError, 404, 'model_not_found')
      await throws(sdk.models.retrieve('nobody-has-it'), OpenAI.NotFoundError, 404, 'model_not_found')
    })

    it('BadRequestError that names the field', async () => {
      const { sdk } = await open()
      await throws(askFor(sdk, ''), OpenAI.BadRequestError, 400, 'missing_parameter')
      await throws(askFor(sdk, MODEL, { n: 0 }), OpenAI.BadRequestError, 400, 'invalid_parameter')
      await assert.rejects(askFor(sdk, MODEL, { messages: [] }), { status: 400, param: 'messages' })
    })

    it('RateLimitError for a rate limit, with the retry delay', async () => {
      const { sdk } = await open({ limits: { rpm: 1 } })
      await askFor(sdk)
      await assert.rejects(askFor(sdk), (error: unknown) => {
        assert.ok(error instanceof OpenAI.RateLimitError)
        assert.equal(error.code, 'rate_limit_exceeded')
        assert.ok(Number(error.headers.get('retry-after')) > 0)
        return true
      })
    })

    it('RateLimitError for insufficient quota, and does not retry', async () => {
      const { key } = await relay.newToken({ remain_quota: 1 })
      let requestCount = 0
      const sdk = new OpenAI({
        apiKey: key,
        baseURL: `${relay.gateway.url}/v1`,
        maxRetries: 2,
        fetch: (url, init) => {
          requestCount += 1
          return retryingFetch(url, init)
        },
      })
      const before = await relay.seenInAll()
      await throws(askFor(sdk), OpenAI.RateLimitError, 429, 'insufficient_quota')
      assert.equal(requestCount, 1)
      assert.equal(await relay.seenInAll(), before)
    })

    it('RateLimitError if every provider is at its rate limit', async () => {
      const { model } = await relay.serve('sim-status-429-retry-7')
      const { sdk } = await open()
      await throws(askFor(sdk, model), OpenAI.RateLimitError, 429, 'upstream_rate_limited')
      await throws(askFor(sdk, model), OpenAI.InternalServerError, 503, 'no_channel_available')
    })

    it('InternalServerError if providers fail or time out', async () => {
      const { sdk } = await open()
      const broken = await relay.serve('sim-status-500')
      await throws(askFor(sdk, broken.model), OpenAI.InternalServerError, 502, 'upstream_error')
      const refused = await relay.serve('sim-error-key')
      await throws(askFor(sdk, refused.model), OpenAI.InternalServerError, 502, 'upstream_error')
      const slow = await relay.serve('sim-hang', { setting: { timeouts: { first_byte_ms: 200 } } })
      await throws(askFor(sdk, slow.model), OpenAI.InternalServerError, 504, 'upstream_timeout')
    })

    it('a rejection by the provider, with the provider’s own message', async () => {
      const { sdk } = await open()
      const { model } = await relay.serve('sim-status-422')
      await assert.rejects(askFor(sdk, model), OpenAI.UnprocessableEntityError)
    })

    it('in the middle of a stream that breaks off, after the delivered events', async () => {
      const { model } = await relay.serve('sim-words-50-cut-5')
      const { id, sdk } = await open()
      const stream = await sdk.chat.completions.create({ model, messages: user('Hi'), stream: true })
      let text = ''
      await assert.rejects(
        async () => {
          for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? ''
        },
        (error: unknown) => error instanceof OpenAI.APIError && error.code === 'upstream_error',
      )
      assert.equal(countTokens(text), 5)
      assert.ok((await relay.rowOf(id)).cost > INPUT_NANOS)
    })
  })
})
