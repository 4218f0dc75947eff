import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { startSimulator } from '../../simulator/server.ts'
import { readConfig } from '../../src/app/config.ts'
import { describeOverServers, ROOT_TOKEN, startGateway } from '../support/gateway.ts'
import { openClient } from '../support/http1.ts'
import {
  lookInto,
  newGround,
  type Server,
  startServer,
  until,
  verifyThroughSocket,
} from '../support/process.ts'
import { createFurnisher } from '../support/relay.ts'

const post = (key: string, body: object, headers = '') => {
  const text = JSON.stringify(body)
  return `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n${headers}Content-Length: ${text.length}\r\n\r\n${text}`
}
const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ROOT_TOKEN}\r\n\r\n`
const question = (model: string, more = {}) => ({
  model,
  max_tokens: 20,
  messages: [{ role: 'user', content: 'Hi' }],
  ...more,
})

/** Sends a request on a connection of its own, and reads until the server closes it. */
async function askOnce(port: number, bytes: string): Promise<string> {
  const { socket, text, closed } = await openClient(port)
  socket.write(bytes)
  await closed
  return text()
}

const CLOSES = /^HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*connection: close\r\n/i

describeOverServers('a gateway that drains', http => {
  it('is not ready, and serves requests on open and new connections, which it then closes', async () => {
    const gateway = await startGateway({ engine: 'sqlite', http })
    const { url } = await gateway.simulator()
    const furnisher = createFurnisher(gateway.api, url)
    const { model } = await furnisher.serve('sim-words-2')
    const { key } = await furnisher.newToken()
    const port = Number(new URL(gateway.url).port)
    const open = await openClient(port)
    open.socket.write(post(key, question(model)))
    await until('an answer', () => (open.text().endsWith('}') ? true : undefined))
    assert.match(open.text(), /connection: keep-alive/i)
    const first = open.text().length
    gateway.startDraining()
    assert.match(await askOnce(port, get('/readyz')), /^HTTP\/1\.1 503 (?:.+\r\n)*connection: close\r\n/i)
    assert.match(await askOnce(port, post(key, question(model))), CLOSES)
    assert.match(await askOnce(port, post(key, question(model, { stream: true }))), CLOSES)
    assert.match(
      await askOnce(port, post(key, question(model), 'Expect: 100-continue\r\n')),
      /^(?:HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*connection: close\r\n/i,
    )
    for (const path of ['/v1/models', '/api/token/', '/healthz', '/api/status'])
      assert.match(await askOnce(port, get(path)), /^HTTP\/1\.1 \d+ (?:.+\r\n)*connection: close\r\n/i, path)
    assert.ok(!open.isClosed())
    open.socket.write(post(key, question(model)))
    await open.closed
    assert.match(open.text().slice(first), CLOSES)
    await gateway.close()
  })
})

/** Waits until this many answers in a row report that the gateway is not ready: every worker answers some of them. */
const untilNotReady = (server: Server, times: number) =>
  until('/readyz to be 503', async () => {
    for (let turn = 0; turn < times; turn++)
      if ((await fetch(`${server.origin}/readyz`, { headers: { connection: 'close' } })).status !== 503)
        return undefined
    return true
  })

const untilSaid = (server: Server, message: RegExp) =>
  until(String(message), () =>
    server.lines().some(({ msg }) => message.test(String(msg))) ? true : undefined,
  )

for (const [engine, workers] of [
  ['sqlite', 1],
  ['postgres', 2],
] as const)
  describe(`SIGTERM on ${engine} with ${workers} worker(s) and a drain delay`, () => {
    it('serves new requests until a second signal, then finishes streams, returns leases and exits 0', async test => {
      const simulator = await startSimulator()
      test.after(simulator.close)
      const ground = await newGround(engine, { SLUICE_WORKERS: String(workers), SLUICE_DRAIN_DELAY_S: '300' })
      const server = await startServer(ground)
      const furnisher = createFurnisher(server.api, simulator.url)
      const { model } = await furnisher.serve(['sim-words-2'])
      const { model: slow } = await furnisher.serve(['sim-words-40-pace-100'])
      const { key } = await furnisher.newToken()
      const stream = await openClient(server.port)
      stream.socket.write(post(key, question(slow, { stream: true, max_tokens: 100 })))
      await until('an event', () => (stream.text().includes('data: ') ? true : undefined))

      server.signal('SIGTERM')
      await untilSaid(server, /^Draining/)
      await untilNotReady(server, 8 * workers)
      for (let turn = 0; turn < 4 * workers; turn++)
        assert.match(await askOnce(server.port, post(key, question(model))), CLOSES)
      assert.ok((await verifyThroughSocket(ground)).ok)
      assert.ok(!stream.isClosed())

      server.signal('SIGTERM')
      await untilSaid(server, /^Shutting down/)
      await until('the port to be closed', () =>
        openClient(server.port).then(
          ({ socket }) => void socket.destroy(),
          () => true,
        ),
      )
      await stream.closed
      assert.match(stream.text(), /data: \[DONE\]\n\n\r\n0\r\n\r\n$/)
      assert.equal((await server.ended).code, 0)
      const leased = await lookInto(ground, ({ db }) =>
        db.selectFrom('accounts').select(['kind', 'held']).where('held', '<>', 0).execute(),
      )
      assert.deepEqual(leased, [])
    })
  })

describe('SLUICE_DRAIN_DELAY_S', () => {
  it('is 0 on SQLite, 5 with DATABASE_URL, and can be set', () => {
    const delayOf = (env: Record<string, string>) => readConfig(env).drainDelayS
    assert.equal(delayOf({}), 0)
    assert.equal(delayOf({ DATABASE_URL: 'postgres://h/d' }), 5)
    assert.equal(delayOf({ DATABASE_URL: 'postgres://h/d', SLUICE_DRAIN_DELAY_S: '0' }), 0)
    assert.equal(delayOf({ SLUICE_DRAIN_DELAY_S: '7' }), 7)
  })
})
