import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { chat, createErrorReports, headOf, type Resources } from '../../support/error-reports.ts'
import { freePort } from '../../support/free-port.ts'
import { createDatabase } from '../../support/postgres.ts'
import { newDirectory, type Server, type ServerOptions, startServer, until } from '../../support/process.ts'
import { startProxy } from '../../support/proxy.ts'
import { createResources } from '../../support/relay.ts'

let simulator: Simulator | undefined
let server: Server
let metricsUrl: string
let options: ServerOptions

const { api, send, mustBeFound, mustBeLogged, metricsText, openRaw } = createErrorReports(() => ({
  url: server.url,
  api: server.api,
  metricsUrl,
  lines: server.lines,
}))

async function start(databaseUrl?: string): Promise<void> {
  const port = await freePort()
  metricsUrl = `http://127.0.0.1:${port}/metrics`
  const env = { SLUICE_LOG: 'info', SLUICE_METRICS_PORT: String(port) }
  options = { dataDir: newDirectory(), databaseUrl, env }
  server = await startServer(options)
}

describe('a request that ends with an error (docs/reference/errors.md: Relay errors)', () => {
  let resources: Resources
  let slow: Awaited<ReturnType<typeof openRaw>>

  before(async () => {
    simulator = await startSimulator()
    await start()
    resources = createResources(server.api, simulator.url)
    slow = await openRaw(`${headOf((await resources.newToken()).key)}\r\n{"model":`)
  })
  after(async () => {
    await server?.stop()
    await simulator?.close()
  })

  it('is found and explained: request_timeout', async () => {
    const { status, requestId } = await slow.answer()
    const expected = { status: 408, code: 'request_timeout', rule: 'client', isFoundByText: false }
    assert.equal(status, expected.status)
    await mustBeFound(resources, { requestId }, expected)
  })

  it('is recorded if the client leaves before its request is complete, with the status 499 in the log', async () => {
    const { id, key } = await resources.newToken()
    const { socket } = await openRaw(`${headOf(key)}\r\n{"model":`)
    // The slow request has ended in the test before.
    await until(
      'the request',
      async () => /^sluice_in_flight_requests 1$/m.test(await metricsText()) || undefined,
    )
    socket.destroy()
    const { request_id: requestId } = await until('the row', async () => {
      const { rows } = await resources.must(api('GET', `/api/log/walk?token_id=${id}&limit=1`))
      return rows[0]
    })
    const expected = { status: 499, code: 'request_timeout', rule: 'client', isFoundByText: false }
    await mustBeFound(resources, { requestId }, expected)
  })

  it('is found and explained when the gateway has started again: shutting_down', async () => {
    const { key } = await resources.newToken()
    const { socket, answer } = await openRaw(headOf(key))
    // The gateway has read what was sent before: it answers a later request.
    await resources.must(api('GET', '/api/status'))
    server.signal('SIGTERM')
    await until('the stop', () => server.lines().find(({ msg }) => /^Shutting down/.test(String(msg))))
    socket.write('\r\n')
    const { status, requestId } = await answer()
    assert.equal(status, 503)
    socket.destroy()
    await server.ended
    const line = server.lines().find(each => each.request_id === requestId)
    assert.deepEqual([line?.status, line?.code], [503, 'shutting_down'])
    server = await startServer(options)
    const { rows } = await resources.must(api('GET', `/api/log/request/${requestId}`))
    assert.equal(JSON.parse(rows[0].other).error_code, 'shutting_down')
    const { rule } = await resources.must(api('GET', `/api/log/explain?q=${requestId}`))
    assert.equal(rule, 'gateway')
  })
})

describe('a request while the store is unavailable', () => {
  let resources: Resources
  let proxy: Awaited<ReturnType<typeof startProxy>>
  let drop: () => Promise<void>

  before(async () => {
    simulator = await startSimulator()
    const database = await createDatabase()
    drop = database.drop
    proxy = await startProxy(new URL(database.url))
    const url = new URL(database.url)
    url.port = String(proxy.port)
    await start(url.href)
    resources = createResources((...call) => server.api(...call), simulator.url)
  })
  after(async () => {
    await server?.stop()
    proxy?.close()
    await drop?.()
    await simulator?.close()
  })

  it('is found and explained when the store is back: ledger_unavailable', async () => {
    const { model } = await resources.serve('sim-small')
    const { key } = await resources.newToken()
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
    await mustBeFound(resources, reply, { ...expected, code: 'ledger_unavailable', rule: 'gateway' })
  })
})
