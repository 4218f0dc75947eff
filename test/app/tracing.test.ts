import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../support/otlp-receiver.ts'
import { until } from '../support/process.ts'
import { openRelay, PROVIDER_KEY, type Relay } from '../support/relay.ts'

const SERVER = 2
const CLIENT = 3
const ERROR = 2
const CLIENT_TRACE = '0af7651916cd43dd8448eb211c80319c'
const CLIENT_SPAN = 'b7ad6b7169203331'
const PROMPT = 'a canary prompt 5512'
const SAMPLED = { traceparent: `00-${CLIENT_TRACE}-${CLIENT_SPAN}-01` }

const bodyFor = (model: string, more: Readonly<Record<string, unknown>> = {}) => ({
  model,
  messages: [{ role: 'user', content: PROMPT }],
  ...more,
})

type Setup = { receiver: OtlpReceiver; relay: Relay }

/** A gateway that exports to a receiver. */
function traced(env: Readonly<Record<string, string>> = {}) {
  const setup = {} as Setup
  before(async () => {
    setup.receiver = await startOtlpReceiver()
    const endpoint = `${setup.receiver.url}/otel/`
    setup.relay = await openRelay('sqlite', { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, ...env })
  })
  after(async () => {
    await setup.relay?.gateway.close()
    await setup.receiver?.close()
    assert.deepEqual(setup.receiver?.faults, [])
  })
  return {
    setup,
    /** The spans of a request, its attempts in order, once they have arrived. */
    async spansOf(requestId: string | null) {
      const { receiver } = setup
      const request = await until('the span of the request', () =>
        receiver.spans().find(({ attributes }) => attributes['sluice.request.id'] === requestId),
      )
      const attempts = receiver.spans().filter(({ parentSpanId }) => parentSpanId === request.spanId)
      return { request, attempts }
    },
  }
}

const idOf = ({ headers }: { readonly headers: Headers }) => headers.get('x-request-id')
const parentSent = (headers: Readonly<Record<string, string>> | undefined) => headers?.traceparent

function assertWithin(inner: ReceivedSpan, outer: ReceivedSpan): void {
  assert.ok(inner.startNs >= outer.startNs && inner.endNs <= outer.endNs && inner.startNs <= inner.endNs)
}

for (const protocol of ['http/protobuf', 'http/json'])
  describe(`a traced request by ${protocol} (docs/reference/tracing.md: Spans)`, () => {
    const { setup, spansOf } = traced({
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20Y2FuYXJ5,x-team=one',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test%20one',
      OTEL_METRICS_EXPORTER: 'none',
    })

    it('has a span with the GenAI attributes, and one for its attempt', async () => {
      const { relay, receiver } = setup
      const { model, channels } = await relay.serve('sim-words-4', {}, { per_call: 0.01 })
      const { id, key } = await relay.newToken()
      const reply = await relay.chat(key, bodyFor(model))
      assert.equal(reply.status, 200)
      const { request, attempts } = await spansOf(idOf(reply))
      const {
        'sluice.request.id': requestId,
        'gen_ai.usage.input_tokens': input,
        ...rest
      } = request.attributes
      assert.deepEqual(rest, {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'openai',
        'gen_ai.request.model': model,
        'gen_ai.request.stream': false,
        'gen_ai.usage.output_tokens': 4,
        'http.request.method': 'POST',
        'http.response.status_code': 200,
        'url.path': '/v1/chat/completions',
        'user.id': '1',
        'sluice.token.id': id,
        'sluice.channel.id': channels[0],
        'sluice.attempts': 1,
        'sluice.cost_usd': 0.01,
      })
      assert.equal(requestId, idOf(reply))
      assert.ok(input > 0)
      assert.deepEqual(
        [request.name, request.kind, request.parentSpanId],
        [`chat ${model}`, SERVER, undefined],
      )
      assert.equal(request.status, undefined)
      const { 'host.name': host, 'service.instance.id': instance, ...resource } = request.resource
      assert.ok(host && instance)
      assert.deepEqual(
        { ...resource, 'service.version': '' },
        { 'service.name': 'sluice', 'service.version': '', 'deployment.environment.name': 'test one' },
      )
      const [attempt, ...others] = attempts
      assert.ok(attempt && others.length === 0)
      assert.deepEqual(
        [attempt.name, attempt.kind, attempt.traceId],
        ['chat sim-words-4', CLIENT, request.traceId],
      )
      assert.deepEqual(attempt.attributes, {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'openai',
        'gen_ai.request.model': 'sim-words-4',
        'http.response.status_code': 200,
        'server.address': '127.0.0.1',
        'server.port': Number(new URL(relay.upstream).port),
        'sluice.channel.id': channels[0],
      })
      assertWithin(attempt, request)
      const [post] = receiver.posts
      assert.equal(post?.path, '/otel/v1/traces')
      assert.equal(post?.headers.authorization, 'Basic Y2FuYXJ5')
      assert.equal(post?.headers['x-team'], 'one')
    })

    it('has a span for every attempt of a failover, with the error of each', async () => {
      const { relay } = setup
      const { model, channels } = await relay.serve(['sim-status-429', 'sim-reset', 'sim-words-4'])
      const { key } = await relay.newToken()
      const reply = await relay.chat(key, bodyFor(model))
      assert.equal(reply.status, 200)
      const { request, attempts } = await spansOf(idOf(reply))
      assert.deepEqual(
        attempts.map(({ attributes, status }) => [
          attributes['sluice.channel.id'],
          attributes['http.response.status_code'],
          attributes['error.type'],
          attributes['http.request.resend_count'],
          status?.code,
        ]),
        [
          [channels[0], 429, '429', undefined, ERROR],
          [channels[1], undefined, 'cut', 1, ERROR],
          [channels[2], 200, undefined, 2, undefined],
        ],
      )
      assert.equal(attempts[0]?.attributes['sluice.provider.error_code'], 'rate_limit_exceeded')
      assert.deepEqual(
        [request.attributes['sluice.attempts'], request.attributes['sluice.channel.id'], request.status],
        [3, channels[2], undefined],
      )
      for (const attempt of attempts) assertWithin(attempt, request)
    })

    it('tells the time to the first chunk of a stream, whose attempt ends with the request', async () => {
      const { relay } = setup
      const { model } = await relay.serve('sim-words-8-pace-20')
      const { key } = await relay.newToken()
      const reply = await relay.chat(key, bodyFor(model, { stream: true }))
      const { request, attempts } = await spansOf(idOf(reply))
      assert.equal(request.attributes['gen_ai.request.stream'], true)
      const firstS = request.attributes['gen_ai.response.time_to_first_chunk']
      assert.ok(firstS >= 0 && firstS * 1e9 < Number(request.endNs - request.startNs))
      assert.equal(attempts[0]?.endNs, request.endNs)
    })

    it('has the messages of a chat whose bodies are kept, masked, and of no other one', async () => {
      const { relay } = setup
      const { model } = await relay.serve('sim-words-4')
      const { key } = await relay.newToken({ unlimited_quota: true, log_bodies: 'all' })
      const { key: plain } = await relay.newToken({ unlimited_quota: true })
      const tools = [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }]
      const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
      const content = [{ type: 'text', text: 'Call a tool for ada@example.com' }, picture]
      for (const stream of [false, true]) {
        const reply = await relay.chat(key, { model, tools, stream, messages: [{ role: 'user', content }] })
        assert.equal(reply.status, 200, reply.text)
        const { request } = await spansOf(idOf(reply))
        assert.deepEqual(JSON.parse(request.attributes['gen_ai.input.messages']), [
          { role: 'user', parts: [{ type: 'text', content: 'Call a tool for [masked]' }, { type: 'image' }] },
        ])
        const [answer] = JSON.parse(request.attributes['gen_ai.output.messages'])
        assert.deepEqual([answer.role, answer.finish_reason], ['assistant', 'tool_call'])
        assert.equal(answer.parts[0].type, 'tool_call')
        assert.equal(answer.parts[0].name, 'get_weather')
      }
      const other = await relay.chat(plain, bodyFor(model, { tools }))
      const { request } = await spansOf(idOf(other))
      assert.equal(request.attributes['gen_ai.input.messages'], undefined)
      assert.equal(request.attributes['gen_ai.output.messages'], undefined)
    })

    it('has the error of a failed request, and the code of a rejected one', async () => {
      const { relay } = setup
      const { model } = await relay.serve('sim-status-500')
      const { key } = await relay.newToken()
      const failed = await relay.chat(key, bodyFor(model))
      assert.equal(failed.status, 502)
      const { request } = await spansOf(idOf(failed))
      assert.deepEqual([request.attributes['error.type'], request.status?.code], ['upstream_error', ERROR])
      const rejected = await relay.chat(key, bodyFor('no-such-model'))
      const { request: other, attempts } = await spansOf(idOf(rejected))
      assert.deepEqual([other.attributes['error.type'], other.status], ['model_not_found', undefined])
      assert.deepEqual([other.name, attempts.length], ['chat', 0])
      const unknown = await relay.chat(`sk-${'0'.repeat(48)}`, bodyFor(model))
      const { request: third } = await spansOf(idOf(unknown))
      assert.deepEqual(
        [third.attributes['error.type'], third.attributes['user.id']],
        ['invalid_api_key', undefined],
      )
    })

    it('has a span for the submission of a video job, and for each attempt', async () => {
      const { relay } = setup
      const { model } = await relay.serve(['sim-status-429', 'sim-video'], {}, { per_call: 0.5 })
      const { key } = await relay.newToken({ unlimited_quota: true })
      const reply = await relay.api('POST', '/v1/videos', { model, prompt: PROMPT }, { token: key })
      assert.equal(reply.status, 200)
      const { request, attempts } = await spansOf(idOf(reply))
      assert.deepEqual([request.name, request.attributes['sluice.cost_usd']], [`videos ${model}`, 0.5])
      assert.deepEqual(
        attempts.map(({ name, attributes }) => [name, attributes['http.response.status_code']]),
        [
          ['videos sim-status-429', 429],
          ['videos sim-video', 200],
        ],
      )
    })

    it('has no GenAI attributes if no model is called', async () => {
      const { relay } = setup
      const { key } = await relay.newToken()
      const { request } = await spansOf(idOf(await relay.api('GET', '/v1/models', undefined, { token: key })))
      assert.equal(request.name, 'models')
      assert.deepEqual(
        Object.keys(request.attributes).filter(name => name.startsWith('gen_ai.')),
        [],
      )
    })

    it('contains no prompt, no answer and no credential', () => {
      const text = JSON.stringify(setup.receiver.posts.map(({ message }) => message))
      for (const secret of [PROMPT, PROVIDER_KEY, 'Bearer', 'sk-']) assert.ok(!text.includes(secret), secret)
    })
  })

describe('the trace context (docs/reference/tracing.md: Trace context)', () => {
  const { setup, spansOf } = traced({ OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip', OTEL_METRICS_EXPORTER: 'none' })
  let model: string
  let key: string
  before(async () => {
    ;({ model } = await setup.relay.serve('sim-words-2-trace', { header_override: { '*': '' } }))
    ;({ key } = await setup.relay.newToken())
  })
  const lastSent = async () => (await setup.relay.seen('sim-words-2-trace')).at(-1)?.headers

  it('continues the trace of the client, and the provider gets the span of the attempt', async () => {
    const state = 'rojo=00f067aa0ba902b7, congo=t61rcWkgMzE'
    const reply = await setup.relay.chat(key, bodyFor(model), { ...SAMPLED, tracestate: state })
    const { request, attempts } = await spansOf(idOf(reply))
    assert.deepEqual([request.traceId, request.parentSpanId], [CLIENT_TRACE, CLIENT_SPAN])
    assert.equal(request.traceState, state)
    const sentHeaders = await lastSent()
    assert.equal(parentSent(sentHeaders), `00-${CLIENT_TRACE}-${attempts[0]?.spanId}-01`)
    assert.equal(sentHeaders?.tracestate, state)
  })

  it('starts a new trace if the header is invalid, and does not pass on its tracestate', async () => {
    for (const traceparent of [
      'no',
      `00-${CLIENT_TRACE.toUpperCase()}-${CLIENT_SPAN}-01`,
      `00-${'0'.repeat(32)}-${CLIENT_SPAN}-01`,
      `00-${CLIENT_TRACE}-${'0'.repeat(16)}-01`,
      `ff-${CLIENT_TRACE}-${CLIENT_SPAN}-01`,
      `00-${CLIENT_TRACE}-${CLIENT_SPAN}-01-more`,
    ]) {
      const reply = await setup.relay.chat(key, bodyFor(model), { traceparent, tracestate: 'a=b' })
      const { request } = await spansOf(idOf(reply))
      assert.notEqual(request.traceId, CLIENT_TRACE, traceparent)
      assert.equal(request.parentSpanId, undefined)
      const sentHeaders = await lastSent()
      assert.match(parentSent(sentHeaders) ?? '', new RegExp(`^00-${request.traceId}-[0-9a-f]{16}-01$`))
      assert.equal(sentHeaders?.tracestate, undefined)
    }
  })

  it('drops a tracestate that is too long', async () => {
    const tracestate = `a=${'x'.repeat(600)}`
    const reply = await setup.relay.chat(key, bodyFor(model), { ...SAMPLED, tracestate })
    const { request } = await spansOf(idOf(reply))
    assert.equal(request.traceState, undefined)
    assert.equal((await lastSent())?.tracestate, undefined)
  })

  it('exports nothing of a trace that the client does not sample, and tells the provider so', async () => {
    const unsampled = await setup.relay.chat(key, bodyFor(model), {
      traceparent: `00-${CLIENT_TRACE}-${CLIENT_SPAN}-00`,
    })
    assert.equal(unsampled.status, 200)
    assert.match(parentSent(await lastSent()) ?? '', new RegExp(`^00-${CLIENT_TRACE}-[0-9a-f]{16}-00$`))
    const later = await setup.relay.chat(key, bodyFor(model))
    await spansOf(idOf(later))
    const ids = setup.receiver.spans().map(({ attributes }) => attributes['sluice.request.id'])
    assert.ok(!ids.includes(idOf(unsampled)))
  })
})

describe('a gateway that samples no trace of its own', () => {
  const { setup, spansOf } = traced({ OTEL_TRACES_SAMPLER_ARG: '0', OTEL_METRICS_EXPORTER: 'none' })

  it('exports only the traces that clients sample', async () => {
    const { relay, receiver } = setup
    const { model } = await relay.serve('sim-words-2')
    const { key } = await relay.newToken()
    assert.equal((await relay.chat(key, bodyFor(model))).status, 200)
    const sampled = await relay.chat(key, bodyFor(model), SAMPLED)
    await spansOf(idOf(sampled))
    assert.deepEqual(
      receiver.spans().map(({ traceId }) => traceId),
      [CLIENT_TRACE, CLIENT_TRACE],
    )
  })
})

describe('a gateway without a receiver', () => {
  let relay: Relay
  before(async () => {
    relay = await openRelay('sqlite')
  })
  after(() => relay?.gateway.close())

  it('sends no trace headers to providers, unless the channel forwards those of the client', async () => {
    const { key } = await relay.newToken()
    const { model } = await relay.serve('sim-words-2')
    await relay.chat(key, bodyFor(model), SAMPLED)
    const [plain] = await relay.seen('sim-words-2')
    assert.equal(plain && parentSent(plain.headers), undefined)
    const forwarding = await relay.serve('sim-words-3', { header_override: { '*': '' } })
    await relay.chat(key, bodyFor(forwarding.model), SAMPLED)
    const [forwarded] = await relay.seen('sim-words-3')
    assert.equal(forwarded && parentSent(forwarded.headers), SAMPLED.traceparent)
  })
})

describe('a receiver that does not respond (docs/reference/tracing.md: Delivery)', () => {
  const { setup, spansOf } = traced({ OTEL_METRICS_EXPORTER: 'none' })

  it('gets the spans when it responds again', async () => {
    const { relay, receiver } = setup
    const { model } = await relay.serve('sim-words-2')
    const { key } = await relay.newToken()
    receiver.answer({ status: 503, headers: { 'retry-after': '0' } })
    const reply = await relay.chat(key, bodyFor(model))
    assert.equal(reply.status, 200)
    await until('a retry', () => (receiver.requests() >= 2 ? true : undefined))
    assert.equal(receiver.spans().length, 0)
    receiver.answer({ status: 200 })
    const { attempts } = await spansOf(idOf(reply))
    assert.equal(attempts.length, 1)
  })

  it('loses a batch that it refuses, and the metrics count its spans', async () => {
    const { relay, receiver } = setup
    const { key } = await relay.newToken()
    receiver.answer({ status: 400 })
    const before = receiver.requests()
    assert.equal((await relay.chat(key, bodyFor('no-such-model'))).status, 404)
    await until('the refusal', () => (receiver.requests() > before ? true : undefined))
    receiver.answer({ status: 200 })
    const line = /^sluice_telemetry_dropped_total\{signal="traces",reason="refused"\} 1$/m
    await until('the count', async () =>
      line.test((await relay.api('GET', '/metrics')).text) ? true : undefined,
    )
  })
})
