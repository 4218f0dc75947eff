import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { MANAGEMENT_STATUS, RELAY_STATUS } from '../../src/domain/errors.ts'
import {
  chat,
  createErrorReports,
  type Expectation,
  headOf,
  MESSAGES,
  type RelayRequest,
  type Resources,
} from '../support/error-reports.ts'
import { freePort } from '../support/free-port.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { collectLog, type LogLines } from '../support/log-lines.ts'
import { until } from '../support/process.ts'
import { createResources } from '../support/relay.ts'

type Case = Omit<Expectation, 'code'> & {
  /** The name of the case by default. */
  readonly code?: string
  /** Prepares the gateway; returns the token and the request. */
  prepare(resources: Resources): Promise<{ readonly key: string; readonly sent: RelayRequest }>
}

const MEGABYTE = 1024 * 1024
const MAX_BODY_MB = 4
const ENV = {
  SLUICE_LOG: 'info',
  SLUICE_MAX_BODY_MB: String(MAX_BODY_MB),
  SLUICE_MAX_MEMORY_MB: '1',
  SLUICE_VIDEO_DOUBT_S: '1',
}
const bodyOf = (megabytes: number) => JSON.stringify({ model: 'any', text: 'x'.repeat(megabytes * MEGABYTE) })

/** A request with a token of its own. */
const withToken =
  (
    request: RelayRequest,
    fields: Readonly<Record<string, unknown>> = { unlimited_quota: true },
  ): Case['prepare'] =>
  async ({ newToken }) => ({ key: (await newToken(fields)).key, sent: request })

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
let gateway: Gateway
let metricsUrl: string
let log: LogLines

const { api, send, mustBeFound, mustBeLogged, openRaw } = createErrorReports(() => ({
  url: gateway.url,
  api: gateway.api,
  metricsUrl,
  lines: log.lines,
}))

/** A video job of a simulated model, and a request about it. */
const ofVideo =
  (sim: string, sentOf: (id: string, key: string) => RelayRequest | Promise<RelayRequest>): Case['prepare'] =>
  async ({ serve, newToken }) => {
    const { model } = await serve(sim, {}, { per_call: 0.01 })
    const { key } = await newToken({ unlimited_quota: true })
    const reply = await send(key, { path: '/v1/videos', body: { model, prompt: 'a lake' } })
    assert.equal(reply.status, 200, reply.text)
    return { key, sent: await sentOf(JSON.parse(reply.text).id, key) }
  }

/** A request that was already answered with this status, under the same `Idempotency-Key`. */
const replayed =
  (status: number, path: string, sim: string, fields: Readonly<Record<string, unknown>>): Case['prepare'] =>
  async ({ serve, newToken }) => {
    const { model } = await serve(sim, {}, { per_call: 0.01 })
    const { key } = await newToken({ unlimited_quota: true })
    const headers = { 'idempotency-key': `key-of-${model}` }
    const request = { path, headers, body: { model, ...fields } }
    const reply = await send(key, request)
    assert.equal(reply.status, status, reply.text)
    // An error text finds the newest row with it: that of the replay is to be written after this one.
    await until('the row of the first request', async () => {
      const response = await api('GET', `/api/log/request/${reply.requestId}`)
      return response.status === 200 ? true : undefined
    })
    return { key, sent: request }
  }

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
    prepare: async resources => {
      const prepared = await served('sim-words-1', { limits: { rpm: 1 } })(resources)
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
    prepare: withToken({ body: bodyOf(MAX_BODY_MB + 1) }),
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
    prepare: async resources => {
      const prepared = await served(
        'sim-words-1',
        {},
        { unlimited_quota: true, limits: { rpm: 1 } },
      )(resources)
      assert.equal((await send(prepared.key, prepared.sent)).status, 200)
      return prepared
    },
  },
  video_not_ready: {
    status: 409,
    rule: 'request',
    prepare: ofVideo('sim-video-never', id => ({ path: `/v1/videos/${id}/content`, method: 'GET' })),
  },
  video_expired: {
    status: 410,
    rule: 'provider',
    prepare: ofVideo('sim-video-expires', async (id, key) => {
      await until('the end of the video', async () => {
        const { text } = await send(key, { path: `/v1/videos/${id}`, method: 'GET' })
        const { status, expires_at } = JSON.parse(text)
        return (status === 'completed' && Date.now() >= expires_at * 1000) || undefined
      })
      return { path: `/v1/videos/${id}/content`, method: 'GET' }
    }),
  },
  idempotency_conflict: {
    status: 409,
    rule: 'request',
    prepare: async ({ serve, newToken }) => {
      const { model } = await serve('sim-video', {}, { per_call: 0.01 })
      const { key } = await newToken({ unlimited_quota: true })
      const headers = { 'idempotency-key': 'used-twice' }
      const request = { path: '/v1/videos', headers, body: { model, prompt: 'a lake' } }
      assert.equal((await send(key, request)).status, 200)
      return { key, sent: { ...request, body: { model, prompt: 'a sea' } } }
    },
  },
  'upstream_timeout of a video job that the gateway searches for': {
    status: 504,
    code: 'upstream_timeout',
    rule: 'provider',
    isFoundByText: false,
    prepare: async ({ serve, newToken }) => {
      const { model } = await serve('sim-video-status-500', {}, { per_call: 0.01 })
      const { key } = await newToken({ unlimited_quota: true })
      return { key, sent: { path: '/v1/videos', body: { model, prompt: 'lost' } } }
    },
  },
  'upstream_timeout that is replayed for a video job': {
    status: 504,
    code: 'upstream_timeout',
    rule: 'provider',
    prepare: replayed(504, '/v1/videos', 'sim-video-status-500', { prompt: 'lost again' }),
  },
  'upstream_422 that is replayed for an image': {
    status: 422,
    code: 'upstream_422',
    rule: 'provider',
    prepare: replayed(422, '/v1/images/generations', 'sim-status-422', { prompt: 'a cat' }),
  },
  internal_error: {
    status: 500,
    rule: 'gateway',
    prepare: async resources => {
      const path = '/v1/images/generations'
      const prepared = await replayed(422, path, 'sim-status-422', { prompt: 'a dog' })(resources)
      // A damaged row of the store.
      await gateway.db.updateTable('idempotency').set({ answer_sealed: 'damaged' }).execute()
      return prepared
    },
  },
  overloaded: { status: 503, rule: 'gateway', prepare: withToken({ body: bodyOf(2) }) },
  'upstream_error of a stream that breaks off': {
    status: 200,
    code: 'upstream_error',
    rule: 'provider',
    type: 2,
    isFoundByText: false,
    prepare: async ({ serve, newToken }) => {
      const { model } = await serve('sim-words-20-cut-5')
      const { key } = await newToken({ unlimited_quota: true })
      return { key, sent: chat(model, { stream: true }) }
    },
  },
  upstream_422: { status: 422, rule: 'provider', prepare: served('sim-status-422') },
  upstream_rate_limited: {
    status: 429,
    rule: 'provider',
    action: 'open_channel',
    prepare: served('sim-status-429-retry-1'),
  },
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

async function start(more: Readonly<Record<string, string>> = {}): Promise<void> {
  const port = await freePort()
  metricsUrl = `http://127.0.0.1:${port}/metrics`
  log = collectLog('info')
  const env = { ...ENV, SLUICE_METRICS_PORT: String(port), ...more }
  gateway = await startGateway({ engine: 'sqlite', env, log: log.log })
}

describe('a request that ends with an error (docs/reference/errors.md: Relay errors)', () => {
  let resources: Resources

  before(async () => {
    simulator = await startSimulator()
    await start()
    resources = createResources(gateway.api, simulator.url)
  })
  after(async () => {
    await gateway?.close()
    await simulator?.close()
  })

  for (const [name, { prepare, code = name, ...expected }] of Object.entries(CASES))
    it(`is found and explained: ${name}`, async () => {
      const { key, sent: request } = await prepare(resources)
      const reply = await send(key, request)
      assert.equal(reply.status, expected.status, reply.text)
      await mustBeFound(resources, reply, { ...expected, code })
    })

  it('is provoked here for every code of the table', () => {
    // In test/system/app/error-table.test.ts.
    const elsewhere = ['request_timeout', 'shutting_down', 'ledger_unavailable']
    const provoked = new Set([...Object.entries(CASES).map(([name, { code = name }]) => code), ...elsewhere])
    assert.deepEqual(
      Object.keys(RELAY_STATUS).filter(code => !provoked.has(code)),
      [],
    )
  })

  it('is logged and counted if its token is unknown', async () => {
    const reply = await send(`sk-${'0'.repeat(48)}`, chat('any'))
    assert.equal(reply.status, 401)
    const line = await mustBeLogged(reply, { status: 401, code: 'invalid_api_key' })
    assert.equal(line.token_id, undefined)
    assert.equal((await api('GET', `/api/log/request/${reply.requestId}`)).status, 404)
  })
})

/** Connections of a gateway that is at its limit; a fifth more get a 503. */
const MAX_CONNECTIONS = 50

describe('a request that a busy gateway refuses', () => {
  let resources: Resources

  before(async () => {
    simulator = await startSimulator()
    await start({ SLUICE_MAX_CONNECTIONS: String(MAX_CONNECTIONS) })
    resources = createResources(gateway.api, simulator.url)
  })
  after(async () => {
    await gateway?.close()
    await simulator?.close()
  })

  /** Fills the gateway with connections while the work runs. */
  async function whileFull<T>(work: () => Promise<T>): Promise<T> {
    const sockets: Socket[] = []
    for (let i = 0; i < MAX_CONNECTIONS; i++) sockets.push((await openRaw('POST /')).socket)
    try {
      return await work()
    } finally {
      for (const socket of sockets) socket.destroy()
    }
  }

  it('is found and explained: overloaded, also if its token was never used before', async () => {
    const { key } = await resources.newToken()
    const [relayed, managed] = await whileFull(() =>
      Promise.all(
        [headOf(key), headOf('sat-unknown', '/api/status')].map(async head => {
          const { answer, socket } = await openRaw(`${head}Connection: close\r\n\r\n`)
          const response = await answer()
          socket.destroy()
          return response
        }),
      ),
    )
    const expected = { status: 503, code: 'overloaded', rule: 'gateway', isFoundByText: false }
    assert.deepEqual([relayed?.status, managed?.status], [503, 503])
    await mustBeFound(resources, { requestId: relayed?.requestId ?? '' }, expected)
    await mustBeLogged({ requestId: managed?.requestId ?? '' }, expected, 'sluice_management_requests_total')
  })
})

type ManagementRequest = {
  readonly method?: string
  readonly path: string
  readonly body?: unknown
  readonly token?: string | null
  readonly headers?: Readonly<Record<string, string>>
}

/** How each error of the management API is provoked: the last request gets it. */
const MANAGEMENT: Readonly<Record<string, readonly ManagementRequest[]>> = {
  invalid_request: [{ method: 'POST', path: '/api/token/', body: { name: 7 } }],
  unauthorized: [{ path: '/api/token/', token: null }],
  wrong_credentials: [
    {
      method: 'POST',
      path: '/api/user/login',
      token: null,
      body: { username: 'root', password: 'wrong one' },
    },
  ],
  cross_site_refused: [
    {
      method: 'POST',
      path: '/api/user/login',
      token: null,
      headers: { 'sec-fetch-site': 'cross-site' },
      body: { username: 'root', password: 'any' },
    },
  ],
  forbidden: [{ path: '/api/channel/', token: 'user' }],
  wrong_password: [
    {
      method: 'PUT',
      path: '/api/user/self',
      token: 'user',
      body: { password: 'a longer one', original_password: 'wrong one' },
    },
  ],
  not_found: [{ path: '/api/token/999999' }],
  method_not_allowed: [{ method: 'PATCH', path: '/api/token/' }],
  conflict: ['first', 'second'].map(() => ({
    method: 'POST',
    path: '/api/user/',
    body: { username: 'twice', password: 'long enough' },
  })),
  idempotency_conflict: ['first', 'second'].map(name => ({
    method: 'POST',
    path: '/api/token/',
    headers: { 'idempotency-key': 'used-twice' },
    body: { name },
  })),
  too_large: [{ method: 'POST', path: '/api/token/', body: { name: 'x'.repeat(5 * MEGABYTE) } }],
  upstream_error: [
    {
      method: 'POST',
      path: '/api/channel/fetch_models',
      body: { type: 1, key: 'any', base_url: 'http://127.0.0.1:9' },
    },
  ],
  rate_limited: Array.from({ length: 12 }, () => ({
    method: 'POST',
    path: '/api/user/login',
    token: null,
    body: { username: 'guessed', password: 'wrong one' },
  })),
}
/** The others: three are provoked above, one below, and two need minutes. */
const NOT_HERE = [
  'overloaded',
  'shutting_down',
  'store_unavailable',
  'fresh_sign_in_required',
  'password_change_required',
  'request_timeout',
  'internal_error',
]

describe('an error of the management API (docs/reference/errors.md: Management errors)', () => {
  let userToken: string

  before(async () => {
    await start({ SLUICE_MAX_MEMORY_MB: '64' })
    const resources = createResources(gateway.api, '')
    const user = { username: 'somebody', password: 'long enough' }
    await resources.must(api('POST', '/api/user/', user))
    const { headers } = await api('POST', '/api/user/login', user, { token: null })
    const cookie = headers.get('set-cookie')?.split(';')[0] ?? ''
    userToken = (
      await resources.must(
        api('POST', '/api/user/access_token/', { name: 'test' }, { token: null, headers: { cookie } }),
      )
    ).token
  })
  after(() => gateway?.close())

  for (const [code, requests] of Object.entries(MANAGEMENT))
    it(`is logged and counted with its code: ${code}`, async () => {
      const replies = []
      for (const { method = 'GET', path, body, token, headers = {} } of requests)
        replies.push(
          await api(method, path, body, {
            headers,
            ...(token !== undefined && { token: token === 'user' ? userToken : token }),
          }),
        )
      const last = replies.at(-1)
      const status = MANAGEMENT_STATUS[code as keyof typeof MANAGEMENT_STATUS]
      assert.deepEqual([last?.status, last?.body.code], [status, code], last?.text ?? '')
      const requestId = last?.headers.get('x-request-id') ?? ''
      await mustBeLogged({ requestId }, { status, code }, 'sluice_management_requests_total')
    })

  it('is logged and counted with its code: internal_error', async () => {
    const { db } = gateway
    const head = db.selectFrom('chains').select('seq').where('name', '=', 'audit')
    const { seq } = await head.executeTakeFirstOrThrow()
    const setSeq = (value: number) =>
      db.updateTable('chains').set({ seq: value }).where('name', '=', 'audit').execute()
    // The next audit record has the number of an older one.
    await setSeq(0)
    const reply = await api('POST', '/api/token/', { name: 'x' })
    await setSeq(seq)
    const requestId = reply.headers.get('x-request-id') ?? ''
    const expected = { status: 500, code: 'internal_error' }
    await mustBeLogged({ requestId }, expected, 'sluice_management_requests_total')
  })

  it('is provoked here for every code of the table', () => {
    const provoked = [...Object.keys(MANAGEMENT), ...NOT_HERE].toSorted()
    assert.deepEqual(provoked, Object.keys(MANAGEMENT_STATUS).toSorted())
  })
})
