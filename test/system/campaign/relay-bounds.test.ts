import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { Pool } from 'undici'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { NO_CHANNEL } from '../../../src/domain/rejection.ts'
import { oneEngine } from '../../support/gateway.ts'
import {
  lookInto,
  newGround,
  type Server,
  type ServerOptions,
  startServer,
  until,
} from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const MANY = isCampaign ? 10_000 : 300
const MOST = 100
/** The gateway responds 503 to this many connections above the limit. */
const TOLD = MOST / 5

const ask = (model: string, more: Readonly<Record<string, unknown>> = {}) =>
  JSON.stringify({ model, messages: [{ role: 'user', content: 'How are you today?' }], ...more })

function openClient(url: string, connections: number) {
  const pool = new Pool(url, { connections, allowH2: false })
  async function begin(key: string, body: string) {
    const answer = await pool.request({
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body,
    })
    return { status: answer.statusCode, headers: answer.headers, text: answer.body.text() }
  }
  return {
    /** Resolves when the response has started. */
    begin,
    async chat(key: string, body: string) {
      const { text, ...head } = await begin(key, body)
      return { ...head, text: await text }
    },
    get: async (path: string, headers: Readonly<Record<string, string>> = {}) => {
      const response = await pool.request({ method: 'GET', path, headers })
      return { status: response.statusCode, headers: response.headers, text: await response.body.text() }
    },
    close: () => pool.close(),
  }
}

const countOf = (replies: readonly { status: number }[]) =>
  Object.fromEntries(
    [...Map.groupBy(replies, ({ status }) => status)].map(([status, each]) => [status, each.length]),
  )

/** A port without a listener. */
async function deadPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

for (const engine of oneEngine('sqlite')) {
  describe(`one worker on ${engine}`, () => {
    let simulator: Simulator
    let server: Server
    let ground: ServerOptions
    let resources: ReturnType<typeof createResources>

    before(async () => {
      simulator = await startSimulator()
      ground = await newGround(engine)
      server = await startServer({ ...ground, isMeasured: true })
      resources = createResources(server.api, simulator.url)
    })
    after(async () => {
      await server.kill()
      await simulator.close()
    })

    it('admits exactly as many of 400 requests as the token can pay, and the balance is 0', async () => {
      const { model } = await resources.serve('sim-words-4', {}, { per_call: 0.01 })
      const { id, key } = await resources.newToken({ remain_quota: 137 * 5_000 })
      const client = openClient(server.url, 64)
      const replies = await Promise.all(Array.from({ length: 400 }, () => client.chat(key, ask(model))))
      await client.close()
      assert.deepEqual(countOf(replies), { 200: 137, 429: 263 })
      const { remain_quota, used_quota, held_quota } = await resources.must(
        server.api('GET', `/api/token/${id}`),
      )
      assert.deepEqual(
        { remain_quota, used_quota, held_quota },
        { remain_quota: 0, used_quota: 137 * 5_000, held_quota: 0 },
      )
    })

    it(`serves ${MANY} requests with one of three channels down, and few of them with a retry`, async () => {
      const dead = `http://127.0.0.1:${await deadPort()}`
      const { model } = await resources.serve(['sim-words-3', 'sim-words-4'], { priority: 1, weight: 1 })
      await resources.addChannel({ name: 'dead', models: [model], base_url: dead, priority: 1, weight: 1 })
      const { id, key } = await resources.newToken({ unlimited_quota: true })
      const client = openClient(server.url, 16)
      let remainingRequests = MANY
      const statuses: { status: number }[] = []
      const hand = async () => {
        while (remainingRequests-- > 0) statuses.push(await client.chat(key, ask(model)))
      }
      await Promise.all(Array.from({ length: 16 }, hand))
      await client.close()
      const served = countOf(statuses)[200] ?? 0
      assert.ok(
        served >= MANY * 0.999,
        `${served} of ${MANY} were served: ${JSON.stringify(countOf(statuses))}`,
      )
      const rows = await until('every usage row', async () => {
        const logRows = await lookInto(ground, ({ db }) =>
          db
            .selectFrom('logs')
            .select('other')
            .where('token_id', '=', id)
            .where('type', 'in', [2, 5])
            .where('channel_id', '<>', NO_CHANNEL)
            .execute(),
        )
        return logRows.length >= served ? logRows : undefined
      })
      // A request that succeeded at once keeps no record of its one attempt.
      const attempts = rows.map(({ other }) => (JSON.parse(other).trace?.attempts ?? [1]).length as number)
      const inAll = attempts.reduce((sum, each) => sum + each, 0)
      assert.ok(inAll > rows.length, 'the dead channel was never tried')
      assert.ok(inAll <= rows.length * 1.2, `${inAll} attempts for ${rows.length} requests`)
    })
  })
}

for (const engine of oneEngine('sqlite')) {
  describe(`overload on ${engine} (docs/reference/process.md: Overload)`, () => {
    let simulator: Simulator
    let server: Server
    let resources: ReturnType<typeof createResources>
    let key: string

    before(async () => {
      simulator = await startSimulator()
      const preload = new URL('../../support/stall.ts', import.meta.url).href
      server = await startServer({
        ...(await newGround(engine)),
        env: { SLUICE_MAX_CONNECTIONS: String(MOST), NODE_OPTIONS: `--import=${preload}` },
      })
      resources = createResources(server.api, simulator.url)
      key = (await resources.newToken({ unlimited_quota: true })).key
    })
    after(async () => {
      await server.kill()
      await simulator.close()
    })

    /** Idle connections, as many as are allowed. */
    async function fill(count: number): Promise<{ close(): void }> {
      const sockets: Socket[] = []
      for (let i = 0; i < count; i++) {
        const socket = connect(server.port, '127.0.0.1')
        socket.on('error', () => {}) // Those above every limit are reset.
        await once(socket, 'connect')
        sockets.push(socket)
      }
      return {
        close() {
          for (const socket of sockets) socket.destroy()
        },
      }
    }

    const whenServed = (model: string) =>
      until('somebody to be served again', async () => {
        const client = openClient(server.url, 1)
        try {
          return (await client.chat(key, ask(model))).status === 200 ? true : undefined
        } catch {
          // Dropped: there are still too many.
          return undefined
        } finally {
          await client.close()
        }
      })

    it('with too many connections responds 503 overloaded to new ones, and lets the others finish', async () => {
      const { model } = await resources.serve('sim-words-40-pace-25')
      const { model: quick } = await resources.serve('sim-words-2')
      await whenServed(quick)
      const early = openClient(server.url, 2)
      const running = [
        await early.begin(key, ask(model, { stream: true })),
        await early.begin(key, ask(model, { stream: true })),
      ]
      // Those of `server.api` are kept alive too, so this is at least the limit.
      const crowd = await fill(MOST)
      const late = openClient(server.url, 1)
      let refused = 0
      for (let i = 0; i < 300; i++) {
        const reply = await late.chat(key, ask(quick)).catch(() => undefined)
        if (!reply) continue
        refused += 1
        assert.equal(reply.status, 503, reply.text)
        assert.equal(JSON.parse(reply.text).error.code, 'overloaded')
        assert.equal(reply.headers['retry-after'], '1')
        assert.equal(reply.headers.connection, 'close')
        assert.match(String(reply.headers['x-request-id']), /^req_/)
      }
      assert.ok(refused > 0)
      const managed = await late.get('/api/status')
      assert.equal(managed.status, 503)
      assert.equal(JSON.parse(managed.text).code, 'overloaded')
      assert.equal(managed.headers['retry-after'], '1')
      assert.equal((await late.get('/healthz')).status, 200)
      for (const { text } of running) assert.ok((await text).endsWith('data: [DONE]\n\n'))
      crowd.close()
      await early.close()
      await late.close()
      await whenServed(quick)
    })

    it('above the limit for 503 responses drops connections, and recovers', async () => {
      const { model } = await resources.serve('sim-words-2')
      await whenServed(model)
      const crowd = await fill(MOST + TOLD)
      const late = connect(server.port, '127.0.0.1')
      let receivedText = ''
      late.on('data', bytes => {
        receivedText += bytes
      })
      late.on('error', () => {}) // It may be reset instead of closed; either way it ends.
      late.write('GET /healthz HTTP/1.1\r\nhost: sluice\r\n\r\n')
      await new Promise(resolve => late.once('close', resolve))
      assert.equal(receivedText, '')
      crowd.close()
      await whenServed(model)
    })

    it('with a blocked event loop responds 503 overloaded to new requests and lets the others finish', async () => {
      const { model } = await resources.serve('sim-words-40-pace-25')
      const { model: quick } = await resources.serve('sim-words-2')
      await whenServed(quick)
      const early = openClient(server.url, 1)
      const { text } = await early.begin(key, ask(model, { stream: true }))
      const client = openClient(server.url, 1)
      const replies: Awaited<ReturnType<typeof client.chat>>[] = []
      // The gateway refuses requests after three samples with a lag; a slow client may come when the stalls are over.
      const overloaded = await until('a refusal', async () => {
        await client.get('/healthz', { 'x-stall': '7' })
        for (let i = 0; i < 12; i++) replies.push(await client.chat(key, ask(quick)))
        const refused = replies.filter(({ status }) => status === 503)
        return refused.length > 0 ? refused : undefined
      })
      for (const reply of overloaded) {
        assert.equal(JSON.parse(reply.text).error.code, 'overloaded')
        assert.equal(reply.headers['retry-after'], '1')
      }
      assert.deepEqual(
        replies.filter(({ status }) => status !== 200 && status !== 503),
        [],
      )
      assert.ok((await text).endsWith('data: [DONE]\n\n'))
      await client.close()
      await early.close()
      await whenServed(quick)
    })
  })
}
