import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../simulator/server.ts'
import { MANAGEMENT_STATUS, RELAY_STATUS } from '../../src/domain/errors.ts'
import { freePort } from '../support/free-port.ts'
import { createDatabase } from '../support/postgres.ts'
import {
  logLines,
  lookInto,
  newDirectory,
  type Server,
  type ServerOptions,
  startServer,
  until,
} from '../support/process.ts'
import { startProxy } from '../support/proxy.ts'
import { createFurnisher } from '../support/relay.ts'

type Furnisher = ReturnType<typeof createFurnisher>
type Sent = {
  readonly path?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
}
type Expectation = {
  readonly status: number
  readonly code: string
  readonly rule: string
  /** The action that an administrator, who owns the token, is offered. */
  readonly action?: string | undefined
  /** The type of the log row: 5 for an error that cost nothing. */
  readonly type?: 2 | 5 | undefined
  /** False if the row has other words than the client got. */
  readonly isFoundByText?: boolean | undefined
}
type Case = Omit<Expectation, 'code'> & {
  /** The name of the case by default. */
  readonly code?: string
  /** Prepares the gateway; returns the token and the request. */
  prepare(furnisher: Furnisher): Promise<{ readonly key: string; readonly sent: Sent }>
}

const MESSAGES = [{ role: 'user', content: 'Hello' }]
const chat = (model: string, more: Readonly<Record<string, unknown>> = {}): Sent => ({
  body: { model, messages: MESSAGES, ...more },
})
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
let options: ServerOptions

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

/** A video job of a simulated model, and a request about it. */
const ofVideo =
  (sim: string, sentOf: (id: string, key: string) => Sent | Promise<Sent>): Case['prepare'] =>
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
    const sent = { path, headers, body: { model, ...fields } }
    const reply = await send(key, sent)
    assert.equal(reply.status, status, reply.text)
    // An error text finds the newest row with it: that of the replay is to be written after this one.
    await until('the row of the first request', async () => {
      const found = await api('GET', `/api/log/request/${reply.requestId}`)
      return found.status === 200 ? true : undefined
    })
    return { key, sent }
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
      const sent = { path: '/v1/videos', headers, body: { model, prompt: 'a lake' } }
      assert.equal((await send(key, sent)).status, 200)
      return { key, sent: { ...sent, body: { model, prompt: 'a sea' } } }
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
    prepare: async furnisher => {
      const path = '/v1/images/generations'
      const prepared = await replayed(422, path, 'sim-status-422', { prompt: 'a dog' })(furnisher)
      // A damaged row of the store.
      await lookInto(options, ({ db }) =>
        db.updateTable('idempotency').set({ answer_sealed: 'damaged' }).execute(),
      )
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

/** Checks that a request is found by its id everywhere, with the rule that decided. */
async function mustBeFound(
  { must }: Pick<Furnisher, 'must'>,
  reply: { readonly requestId: string; readonly text?: string },
  { status, code, rule, action, type = 5, isFoundByText = true }: Expectation,
): Promise<void> {
  const { requestId, text = '' } = reply
  // The row of a video job that the gateway searches for is written when the search ends.
  const row = await until(`the row of ${requestId}`, async () => {
    const { status: found, body } = await api('GET', `/api/log/request/${requestId}`)
    return found === 200 ? body.data.rows[0] : undefined
  })
  assert.equal(JSON.parse(row.other).error_code, code)
  const { items } = await must(api('GET', `/api/log/?request_id=${requestId}`))
  assert.deepEqual([items.length, items[0]?.type], [1, type])

  const byId = await must(api('GET', `/api/log/explain?q=${requestId}`))
  assert.deepEqual([byId.rule, byId.action?.kind], [rule, action], JSON.stringify(byId))
  assert.equal(byId.request.request_id, requestId)
  assert.ok(byId.sentences[0].includes(code) && byId.sentences.length >= 2, JSON.stringify(byId.sentences))
  if (isFoundByText) {
    // A developer pastes what the client printed.
    const pasted = encodeURIComponent(`Error code: ${status} - ${text}`)
    const byText = await must(api('GET', `/api/log/explain?q=${pasted}`))
    assert.deepEqual([byText.rule, byText.request?.request_id], [rule, requestId])
  }
  await mustBeLogged(reply, { status, code })
}

const metricsText = async () => (await fetch(metricsUrl)).text()

/** The line of a request, and its count. */
async function mustBeLogged(
  { requestId }: { readonly requestId: string },
  { status, code }: Pick<Expectation, 'status' | 'code'>,
  metric = 'sluice_requests_total',
) {
  const line = await until('the log line', () =>
    logLines(server.stdout()).find(each => each.request_id === requestId && each.status !== undefined),
  )
  assert.deepEqual([line.status, line.code], [status, code])
  assert.match(
    await metricsText(),
    new RegExp(`^${metric}\\{.*status="${status}",code="${code}"\\} [1-9]`, 'm'),
  )
  return line
}

async function start(more: Readonly<Record<string, string>> = {}, databaseUrl?: string): Promise<void> {
  const port = await freePort()
  metricsUrl = `http://127.0.0.1:${port}/metrics`
  const env = { ...ENV, SLUICE_METRICS_PORT: String(port), ...more }
  options = { dataDir: newDirectory(), databaseUrl, env }
  server = await startServer(options)
}

/** Writes a part of a request on a connection of its own, and returns the response as far as it is received. */
async function openRaw(head: string) {
  const socket = connect(server.port, '127.0.0.1')
  let received = ''
  socket.setEncoding('utf8').on('data', text => {
    received += text
  })
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(head)
  return {
    socket,
    answer: () =>
      until(
        'the answer',
        () => {
          const requestId = /x-request-id: (\S+)/i.exec(received)?.[1]
          return requestId === undefined ? undefined : { requestId, status: Number(received.split(' ')[1]) }
        },
        120_000,
      ),
  }
}

const headOf = (key: string, path = '/v1/chat/completions') =>
  `POST ${path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n`

describe('a request that ends with an error (docs/reference/errors.md: Relay errors)', () => {
  let furnisher: Furnisher
  let slow: Awaited<ReturnType<typeof openRaw>>

  before(async () => {
    simulator = await startSimulator()
    await start()
    furnisher = createFurnisher(server.api, simulator.url)
    // Its body never arrives: the timeout passes while the other cases run.
    slow = await openRaw(`${headOf((await furnisher.newToken()).key)}\r\n{"model":`)
  })
  after(async () => {
    await server?.stop()
    await simulator?.close()
  })

  for (const [name, { prepare, code = name, ...expected }] of Object.entries(CASES))
    it(`is found and explained: ${name}`, async () => {
      const { key, sent } = await prepare(furnisher)
      const reply = await send(key, sent)
      assert.equal(reply.status, expected.status, reply.text)
      await mustBeFound(furnisher, reply, { ...expected, code })
    })

  it('is found and explained: request_timeout', async () => {
    const { status, requestId } = await slow.answer()
    const expected = { status: 408, code: 'request_timeout', rule: 'client', isFoundByText: false }
    assert.equal(status, expected.status)
    await mustBeFound(furnisher, { requestId }, expected)
  })

  it('is recorded if the client leaves before its request is complete, with the status 499 in the log', async () => {
    const { id, key } = await furnisher.newToken()
    const { socket } = await openRaw(`${headOf(key)}\r\n{"model":`)
    // The slow request has ended in the test before.
    await until(
      'the request',
      async () => /^sluice_in_flight_requests 1$/m.test(await metricsText()) || undefined,
    )
    socket.destroy()
    const { request_id: requestId } = await until('the row', async () => {
      const { rows } = await furnisher.must(api('GET', `/api/log/walk?token_id=${id}&limit=1`))
      return rows[0]
    })
    const expected = { status: 499, code: 'request_timeout', rule: 'client', isFoundByText: false }
    await mustBeFound(furnisher, { requestId }, expected)
  })

  it('is provoked here for every code of the table', () => {
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
  let furnisher: Furnisher

  before(async () => {
    simulator = await startSimulator()
    await start({ SLUICE_MAX_CONNECTIONS: String(MAX_CONNECTIONS) })
    furnisher = createFurnisher(server.api, simulator.url)
  })
  after(async () => {
    await server?.stop()
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
    const { key } = await furnisher.newToken()
    const [relayed, managed] = await whileFull(() =>
      Promise.all(
        [headOf(key), headOf('sat-unknown', '/api/status')].map(async head => {
          const { answer, socket } = await openRaw(`${head}Connection: close\r\n\r\n`)
          const found = await answer()
          socket.destroy()
          return found
        }),
      ),
    )
    const expected = { status: 503, code: 'overloaded', rule: 'gateway', isFoundByText: false }
    assert.deepEqual([relayed?.status, managed?.status], [503, 503])
    await mustBeFound(furnisher, { requestId: relayed?.requestId ?? '' }, expected)
    await mustBeLogged({ requestId: managed?.requestId ?? '' }, expected, 'sluice_management_requests_total')
  })

  it('is found and explained when the gateway has started again: shutting_down', async () => {
    const { key } = await furnisher.newToken()
    const { socket, answer } = await openRaw(headOf(key))
    // The gateway has read what was sent before: it answers a later request.
    await furnisher.must(api('GET', '/api/status'))
    server.signal('SIGTERM')
    await until('the stop', () =>
      logLines(server.stdout()).find(({ msg }) => /^Shutting down/.test(String(msg))),
    )
    socket.write('\r\n')
    const { status, requestId } = await answer()
    assert.equal(status, 503)
    socket.destroy()
    await server.ended
    const line = logLines(server.stdout()).find(each => each.request_id === requestId)
    assert.deepEqual([line?.status, line?.code], [503, 'shutting_down'])
    server = await startServer(options)
    const { rows } = await furnisher.must(api('GET', `/api/log/request/${requestId}`))
    assert.equal(JSON.parse(rows[0].other).error_code, 'shutting_down')
    const { rule } = await furnisher.must(api('GET', `/api/log/explain?q=${requestId}`))
    assert.equal(rule, 'gateway')
  })
})

describe('a request while the store is unavailable', () => {
  let furnisher: Furnisher
  let proxy: Awaited<ReturnType<typeof startProxy>>
  let drop: () => Promise<void>

  before(async () => {
    simulator = await startSimulator()
    const database = await createDatabase()
    drop = database.drop
    proxy = await startProxy(new URL(database.url))
    const url = new URL(database.url)
    url.port = String(proxy.port)
    await start({}, url.href)
    furnisher = createFurnisher((...call) => server.api(...call), simulator.url)
  })
  after(async () => {
    await server?.stop()
    proxy?.close()
    await drop?.()
    await simulator?.close()
  })

  it('is found and explained when the store is back: ledger_unavailable', async () => {
    const { model } = await furnisher.serve('sim-small')
    const { key } = await furnisher.newToken()
    // The gateway knows the token from now on, and has leased nothing for it.
    assert.equal((await send(key, chat('no-such-model'))).status, 404)
    proxy.set('refuse')
    const reply = await send(key, chat(model))
    const managed = await api('GET', '/api/token/')
    assert.deepEqual([reply.status, managed.status], [503, 503])
    const expected = { status: 503, code: 'store_unavailable' }
    const requestId = managed.headers.get('x-request-id') ?? ''
    await mustBeLogged({ requestId }, expected, 'sluice_management_requests_total')
    proxy.set('pass')
    await mustBeFound(furnisher, reply, { ...expected, code: 'ledger_unavailable', rule: 'gateway' })
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
    const furnisher = createFurnisher(server.api, '')
    const user = { username: 'somebody', password: 'long enough' }
    await furnisher.must(api('POST', '/api/user/', user))
    const { headers } = await api('POST', '/api/user/login', user, { token: null })
    const cookie = headers.get('set-cookie')?.split(';')[0] ?? ''
    userToken = (
      await furnisher.must(
        api('POST', '/api/user/access_token/', { name: 'test' }, { token: null, headers: { cookie } }),
      )
    ).token
  })
  after(() => server?.stop())

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
    const requestId = await lookInto(options, async ({ db }) => {
      const head = db.selectFrom('chains').select('seq').where('name', '=', 'audit')
      const { seq } = await head.executeTakeFirstOrThrow()
      const setSeq = (value: number) =>
        db.updateTable('chains').set({ seq: value }).where('name', '=', 'audit').execute()
      // The next audit record has the number of an older one.
      await setSeq(0)
      const reply = await api('POST', '/api/token/', { name: 'x' })
      await setSeq(seq)
      return reply.headers.get('x-request-id') ?? ''
    })
    const expected = { status: 500, code: 'internal_error' }
    await mustBeLogged({ requestId }, expected, 'sluice_management_requests_total')
  })

  it('is provoked here for every code of the table', () => {
    const provoked = [...Object.keys(MANAGEMENT), ...NOT_HERE].toSorted()
    assert.deepEqual(provoked, Object.keys(MANAGEMENT_STATUS).toSorted())
  })
})
