import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { freePort } from '../support/postgres.ts'
import { logLines, newDirectory, type Server, startServer, until } from '../support/process.ts'
import { createFurnisher } from '../support/relay.ts'

type Furnisher = ReturnType<typeof createFurnisher>
type Sent = {
  readonly path?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}
type Case = {
  readonly status: number
  readonly rule: string
  /** The action that an administrator, who owns the token, is offered. */
  readonly action?: string
  /** Prepares the gateway; returns the token and the request. */
  prepare(furnisher: Furnisher): Promise<{ readonly key: string; readonly sent: Sent }>
}

const MESSAGES = [{ role: 'user', content: 'Hello' }]
const chat = (model: string, more: Readonly<Record<string, unknown>> = {}): Sent => ({
  body: { model, messages: MESSAGES, ...more },
})
const MAX_BODY = 2 * 1024 * 1024

/** A request with a token of its own. */
const withToken =
  (sent: Sent, fields: Readonly<Record<string, unknown>> = { unlimited_quota: true }): Case['prepare'] =>
  async ({ newToken }) => ({ key: (await newToken(fields)).key, sent })

/** A request for a model that the simulator serves in this way. */
const served =
  (
    sim: string,
    fields: Readonly<Record<string, unknown>> = {},
    token: Readonly<Record<string, unknown>> = { unlimited_quota: true },
  ): Case['prepare'] =>
  async ({ serve, newToken }) => {
    const { model } = await serve(sim, fields)
    return { key: (await newToken(token)).key, sent: chat(model) }
  }

let simulator: Simulator | undefined
let server: Server
let metricsUrl: string

const api: Server['api'] = (...call) => server.api(...call)

const send = (key: string, { path = '/v1/chat/completions', method = 'POST', headers, body }: Sent) =>
  fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  }).then(async response => ({
    status: response.status,
    text: await response.text(),
    requestId: response.headers.get('x-request-id') ?? '',
  }))

/** The rows of the relay's error table that a client can provoke, by their code in the log. */
const CASES: Readonly<Record<string, Case>> = {
  invalid_api_key: {
    status: 401,
    rule: 'authentication',
    action: 'enable_token',
    prepare: async ({ newToken, must }) => {
      const { id, key } = await newToken()
      await must(api('PUT', '/api/token/', { id, status: 2 }))
      return { key, sent: chat('any') }
    },
  },
  cross_site_refused: {
    status: 403,
    rule: 'authentication',
    prepare: withToken({
      ...chat('any'),
      headers: { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' },
    }),
  },
  ip_not_allowed: {
    status: 403,
    rule: 'token_limit',
    action: 'allow_address',
    prepare: withToken(chat('any'), { allow_ips: '10.9.8.7' }),
  },
  model_not_allowed: {
    status: 403,
    rule: 'token_limit',
    action: 'allow_model',
    prepare: withToken(chat('other'), { model_limits_enabled: true, models: ['one'] }),
  },
  model_not_found: {
    status: 404,
    rule: 'routing',
    action: 'add_channel',
    prepare: withToken(chat('no-such-model')),
  },
  model_not_priced: {
    status: 400,
    rule: 'price',
    action: 'set_price',
    prepare: async ({ addChannel, newToken }) => {
      await addChannel({ models: ['unpriced-model'] })
      return { key: (await newToken()).key, sent: chat('unpriced-model') }
    },
  },
  no_channel_available: {
    status: 503,
    rule: 'routing',
    prepare: async furnisher => {
      const prepared = await served('sim-words-1', { limits: { rpm: 1 } })(furnisher)
      assert.equal((await send(prepared.key, prepared.sent)).status, 200)
      return prepared
    },
  },
  invalid_json: { status: 400, rule: 'request', prepare: withToken({ body: '{"model":' }) },
  missing_parameter: { status: 400, rule: 'request', prepare: withToken({ body: { messages: MESSAGES } }) },
  invalid_parameter: {
    status: 400,
    rule: 'request',
    prepare: withToken(chat('any', { max_tokens: 'many' })),
  },
  unsupported_content: {
    status: 400,
    rule: 'request',
    prepare: async ({ serve, newToken }) => {
      const { model } = await serve('sim-claude', { type: 14, base_url: `${simulator?.url}/anthropic` })
      const content = [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }]
      const { key } = await newToken({ unlimited_quota: true })
      return { key, sent: chat(model, { messages: [{ role: 'user', content }] }) }
    },
  },
  request_too_large: {
    status: 413,
    rule: 'request',
    prepare: withToken({ body: JSON.stringify({ model: 'any', text: 'x'.repeat(MAX_BODY) }) }),
  },
  unsupported_media_type: {
    status: 415,
    rule: 'request',
    prepare: withToken({ ...chat('any'), headers: { 'content-encoding': 'unknown' } }),
  },
  method_not_allowed: { status: 405, rule: 'request', prepare: withToken({ method: 'GET' }) },
  not_found: { status: 404, rule: 'request', prepare: withToken({ path: '/v1/nothing', body: {} }) },
  thread_not_found: {
    status: 404,
    rule: 'request',
    prepare: withToken({
      path: '/v1/messages',
      body: { model: 'any', max_tokens: 9, messages: MESSAGES, thread: { type: 'continue', id: 'a' } },
    }),
  },
  video_not_found: {
    status: 404,
    rule: 'request',
    prepare: withToken({ path: '/v1/videos/video_unknown', method: 'GET' }),
  },
  insufficient_quota: {
    status: 429,
    rule: 'quota',
    action: 'raise_token_quota',
    prepare: served('sim-small', {}, { remain_quota: 0 }),
  },
  rate_limit_exceeded: {
    status: 429,
    rule: 'rate_limit',
    action: 'raise_token_limit',
    prepare: async furnisher => {
      const prepared = await served(
        'sim-words-1',
        {},
        { unlimited_quota: true, limits: { rpm: 1 } },
      )(furnisher)
      assert.equal((await send(prepared.key, prepared.sent)).status, 200)
      return prepared
    },
  },
  upstream_422: { status: 422, rule: 'provider', prepare: served('sim-status-422') },
  upstream_rate_limited: { status: 429, rule: 'provider', prepare: served('sim-status-429-retry-1') },
  upstream_error: {
    status: 502,
    rule: 'provider',
    action: 'replace_key',
    prepare: served('sim-status-401'),
  },
  upstream_timeout: {
    status: 504,
    rule: 'provider',
    prepare: served('sim-hang', { setting: { timeouts: { first_byte_ms: 200 } } }),
  },
}

describe('a request that ends with an error (docs/reference/errors.md: Relay errors)', () => {
  let furnisher: Furnisher

  before(async () => {
    simulator = await startSimulator()
    const port = await freePort()
    metricsUrl = `http://127.0.0.1:${port}/metrics`
    server = await startServer({
      dataDir: newDirectory(),
      env: { SLUICE_LOG: 'info', SLUICE_METRICS_PORT: String(port), SLUICE_MAX_BODY_MB: '1' },
    })
    furnisher = createFurnisher(server.api, simulator.url)
  })
  after(async () => {
    await server?.stop()
    await simulator?.close()
  })

  for (const [code, { status, rule, action, prepare }] of Object.entries(CASES))
    it(`is found and explained: ${code}`, async () => {
      const { key, sent } = await prepare(furnisher)
      const reply = await send(key, sent)
      assert.equal(reply.status, status, reply.text)
      const { requestId } = reply
      const { rows } = await furnisher.must(api('GET', `/api/log/request/${requestId}`))
      assert.equal(JSON.parse(rows[0].other).error_code, code)
      const { items } = await furnisher.must(api('GET', `/api/log/?request_id=${requestId}`))
      assert.deepEqual([items.length, items[0]?.type], [1, 5])

      const byId = await furnisher.must(api('GET', `/api/log/explain?q=${requestId}`))
      assert.deepEqual([byId.rule, byId.action?.kind], [rule, action], JSON.stringify(byId))
      assert.equal(byId.request.request_id, requestId)
      assert.ok(
        byId.sentences[0].includes(code) && byId.sentences.length >= 2,
        JSON.stringify(byId.sentences),
      )
      // A developer pastes what the client printed.
      const pasted = encodeURIComponent(`Error code: ${status} - ${reply.text}`)
      const byText = await furnisher.must(api('GET', `/api/log/explain?q=${pasted}`))
      assert.deepEqual([byText.rule, byText.request?.request_id], [rule, requestId])

      const line = await until('the log line', () =>
        logLines(server.stdout()).find(each => each.request_id === requestId),
      )
      assert.deepEqual([line.status, line.code], [status, code])
      const metrics = await (await fetch(metricsUrl)).text()
      assert.match(
        metrics,
        new RegExp(`^sluice_requests_total\\{.*status="${status}",code="${code}"\\} [1-9]`, 'm'),
      )
    })
})
