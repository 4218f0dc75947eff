import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Pool } from 'undici'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { createLocks } from '../../../src/workers/locks.ts'
import { retryingFetch, withRetries } from '../../support/client.ts'
import { runHere } from '../../support/command.ts'
import { oneEngine } from '../../support/gateway.ts'
import { createDatabase } from '../../support/postgres.ts'
import {
  childrenOf,
  isAlive,
  lookInto,
  newDirectory,
  type Server,
  settingsOf,
  startServer,
  until,
  verifyThroughSocket,
} from '../../support/process.ts'
import { createResources } from '../../support/relay.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const WORKERS = isCampaign ? 3 : 2
/** The requests of a burst that not all can be paid. */
const BURST = isCampaign ? 300 : 120
/** Concurrent clients of a token or channel that is changed meanwhile. */
const CLIENTS = isCampaign ? 48 : 16
const ask = (model: string, more: Readonly<Record<string, unknown>> = {}) =>
  JSON.stringify({ model, messages: [{ role: 'user', content: 'How are you today?' }], ...more })

/** Over many connections, so that every worker gets some. */
function openClient(url: string, connections = 64) {
  const pool = new Pool(url, { connections, allowH2: false })
  return {
    chat: (key: string, body: string): Promise<{ status: number; text: string }> =>
      withRetries(async () => {
        const response = await pool.request({
          method: 'POST',
          path: '/v1/chat/completions',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body,
        })
        return { status: response.statusCode, text: await response.body.text() }
      }),
    close: () => pool.close(),
  }
}

/** The number of each outcome; unexpected ones are reported in full. */
const countOf = (replies: readonly { status: number; text: string }[]) =>
  Object.fromEntries(
    [...Map.groupBy(replies, ({ status, text }) => (status === 500 ? text : status))].map(
      ([status, each]) => [status, each.length],
    ),
  )

for (const engine of oneEngine('sqlite')) {
  describe(`${WORKERS} workers on ${engine} (docs/reference/process.md: Workers)`, () => {
    let simulator: Simulator | undefined
    let server: Server
    let client: ReturnType<typeof openClient>
    let resources: ReturnType<typeof createResources>
    let options: { dataDir: string; databaseUrl: string | undefined; env: Record<string, string> }
    let drop: (() => Promise<void>) | undefined

    before(async () => {
      simulator = await startSimulator()
      const database = engine === 'postgres' ? await createDatabase() : undefined
      drop = database?.drop
      options = {
        dataDir: newDirectory(),
        databaseUrl: database?.url,
        env: { SLUICE_WORKERS: String(WORKERS), SLUICE_DRAIN_S: '2' },
      }
      server = await startServer(options)
      client = openClient(server.url)
      resources = createResources(server.api, simulator.url)
    })
    // Ends everything that was started, also if the setup failed midway.
    after(async () => {
      await client?.close()
      await server?.stop()
      await simulator?.close()
      await drop?.()
    })

    const newUser = async (quota: number) => {
      const { id } = await resources.must(
        server.api('POST', '/api/user/', { username: `payer-${quota}`, password: 'a long password', quota }),
      )
      const signedIn = await retryingFetch(`${server.url}/api/user/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ username: `payer-${quota}`, password: 'a long password' }),
      })
      const cookie = (signedIn.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
      const reply = await server.api(
        'POST',
        '/api/token/',
        { name: 'app', unlimited_quota: true },
        {
          token: null,
          headers: { cookie, 'sec-fetch-site': 'same-origin' },
        },
      )
      assert.equal(reply.status, 200, reply.text)
      return { id: id as number, key: reply.body.data.key as string }
    }
    /** The number of requests that the provider has received. */
    const seenInAll = async () => {
      const report = await (await retryingFetch(`${simulator?.url}/sim/requests`)).json()
      return (report as { total: number }).total
    }
    const userOf = (id: number) => resources.must(server.api('GET', `/api/user/${id}`))
    /** Retries until every worker responded in time: on a busy machine one may be late. */
    const tokenOf = (id: number) =>
      until('a fresh balance', async () => {
        const reply = await server.api('GET', `/api/token/${id}`)
        return reply.headers.has('x-sluice-stale') ? undefined : resources.must(Promise.resolve(reply))
      })
    const burst = (count: number, key: string, body: string) =>
      Promise.all(Array.from({ length: count }, () => client.chat(key, body)))

    it('has a process and a journal for each', () => {
      assert.equal(childrenOf(server.pid).length, WORKERS)
      assert.equal(readdirSync(join(options.dataDir, 'nodes')).length, WORKERS)
    })

    it(`accepts exactly as many of ${BURST} requests as the user can pay`, async () => {
      const { model } = await resources.serve('sim-words-4', {}, { per_call: 0.01 })
      const { id, key } = await newUser(57 * 5_000 + 4_999)
      assert.deepEqual(countOf(await burst(BURST, key, ask(model))), { 200: 57, 429: BURST - 57 })
      const { quota, used_quota, request_count } = await userOf(id)
      assert.deepEqual(
        { quota, used_quota, request_count },
        { quota: 4_999, used_quota: 57 * 5_000, request_count: 57 },
      )
    })

    it(`accepts exactly as many of ${BURST} requests as the token can pay, and the balance is 0`, async () => {
      const { model } = await resources.serve('sim-words-4', {}, { per_call: 0.01 })
      const { id, key } = await resources.newToken({ remain_quota: 41 * 5_000 })
      assert.deepEqual(countOf(await burst(BURST, key, ask(model))), { 200: 41, 429: BURST - 41 })
      const { remain_quota, used_quota, held_quota } = await tokenOf(id)
      assert.deepEqual(
        { remain_quota, used_quota, held_quota },
        { remain_quota: 0, used_quota: 41 * 5_000, held_quota: 0 },
      )
    })

    it('spends the last unit on any worker', async () => {
      const { model } = await resources.serve('sim-words-4', {}, { per_call: 0.01 })
      const { id, key } = await resources.newToken({ remain_quota: 8 * 5_000 })
      for (let i = 0; i < 8; i++) {
        const alone = openClient(server.url, 1)
        assert.equal((await alone.chat(key, ask(model))).status, 200)
        await alone.close()
      }
      assert.equal((await client.chat(key, ask(model))).status, 429)
      assert.equal((await tokenOf(id)).remain_quota, 0)
    })

    it('reports a balance that includes every completed request', async () => {
      const { model } = await resources.serve('sim-words-4', {}, { per_call: 0.01 })
      const { id, key } = await resources.newToken({ remain_quota: 500_000 })
      for (let round = 1; round <= 5; round++) {
        assert.deepEqual(countOf(await burst(8, key, ask(model))), { 200: 8 })
        assert.equal((await tokenOf(id)).used_quota, round * 8 * 5_000)
      }
    })

    it('counts limits for all of them together', async () => {
      const { model } = await resources.serve('sim-words-4')
      const { key } = await resources.newToken({ limits: { rpm: 23, tpm: null, concurrency: null } })
      assert.deepEqual(countOf(await burst(BURST, key, ask(model))), { 200: 23, 429: BURST - 23 })
      const narrow = await resources.newToken({ limits: { rpm: null, tpm: null, concurrency: 5 } })
      const { model: slow } = await resources.serve('sim-words-40-pace-50')
      assert.deepEqual(countOf(await burst(40, narrow.key, ask(slow, { stream: true }))), {
        200: 5,
        429: 35,
      })
      assert.deepEqual(countOf(await burst(5, narrow.key, ask(slow, { stream: true }))), { 200: 5 })
    })

    it('free the concurrency slot of a request before its last byte is sent', async () => {
      const limits = { rpm: null, tpm: null, concurrency: 1 }
      const { model } = await resources.serve('sim-words-2')
      const { key: limitedKey } = await resources.newToken({ unlimited_quota: true, limits })
      const { model: limitedModel } = await resources.serve('sim-words-2', { limits })
      const { key } = await resources.newToken({ unlimited_quota: true })
      for (const [token, requestedModel] of [
        [limitedKey, model],
        [key, limitedModel],
      ] as const)
        for (const stream of [false, true])
          for (let i = 0; i < 15; i++) {
            const { status, text } = await client.chat(token, ask(requestedModel, { stream }))
            assert.equal(status, 200, text)
          }
    })

    it('skips a channel that has reached its limit over all workers', async () => {
      const { model } = await resources.serve(['sim-words-3', 'sim-words-5'], {
        limits: { rpm: 10, tpm: null, concurrency: null },
      })
      const { key } = await resources.newToken()
      const replies = await burst(60, key, ask(model))
      assert.deepEqual(countOf(replies), { 200: 20, 503: 40 })
    })

    it('throttles password guessing for all of them together', async () => {
      const guess = async () => {
        const credentials = { username: 'root', password: 'wrong one' }
        const headers = { connection: 'close' }
        const reply = await server.api('POST', '/api/user/login', credentials, { token: null, headers })
        return reply.status
      }
      // All at once: on a slow machine, the wait after the fifth guess could be over before the next one.
      const statuses = await Promise.all(Array.from({ length: 16 }, guess))
      assert.ok(statuses.filter(status => status === 429).length >= 2, statuses.join())
    })

    for (const how of ['deleted', 'disabled'] as const)
      it(`refuses a token on every worker after it was ${how}`, async () => {
        const { model } = await resources.serve('sim-words-2')
        const { id, key } = await resources.newToken({ unlimited_quota: true })
        let isGone = false
        let late = 0
        let served = 0
        const randomWrites = Array.from({ length: CLIENTS }, async () => {
          for (let i = 0; i < 40; i++) {
            const isAfter = isGone
            const { status } = await client.chat(key, ask(model))
            if (status === 200) served += 1
            if (isAfter && status === 200) late += 1
            if (status === 401 && isAfter) return
          }
        })
        await until('some to be served', () => (served > 50 ? true : undefined))
        const reply =
          how === 'deleted'
            ? await server.api('DELETE', `/api/token/${id}`)
            : await server.api('PUT', '/api/token/?status_only=true', { id, status: 2 })
        assert.equal(reply.status, 200, reply.text)
        isGone = true
        await Promise.all(randomWrites)
        assert.equal(late, 0)
      })

    it('refuses a token on every worker after its quota was lowered to 0', async () => {
      const { model } = await resources.serve('sim-words-2')
      const { id, key } = await resources.newToken({ remain_quota: 50_000_000 })
      let isLowered = false
      let late = 0
      let served = 0
      const randomWrites = Array.from({ length: CLIENTS }, async () => {
        for (let i = 0; i < 40; i++) {
          const isAfter = isLowered
          const { status } = await client.chat(key, ask(model))
          if (status === 200) served += 1
          if (isAfter && status === 200) late += 1
          if (isAfter) return
        }
      })
      await until('some to be served', () => (served > 50 ? true : undefined))
      const reply = await server.api('PUT', '/api/token/', { id, remain_quota: 0 })
      isLowered = true
      assert.equal(reply.status, 200, reply.text)
      await Promise.all(randomWrites)
      assert.equal(late, 0)
    })

    it('sends nothing to a channel after it was disabled', async () => {
      const { model, channels } = await resources.serve('sim-words-2')
      const { key } = await resources.newToken({ unlimited_quota: true })
      let isGone = false
      let late = 0
      let served = 0
      const randomWrites = Array.from({ length: CLIENTS }, async () => {
        for (let i = 0; i < 40; i++) {
          const isAfter = isGone
          const { status } = await client.chat(key, ask(model))
          if (status === 200) served += 1
          if (isAfter && status === 200) late += 1
          if (isAfter) return
        }
      })
      await until('some to be served', () => (served > 50 ? true : undefined))
      const reply = await server.api('PUT', '/api/channel/', { id: channels[0], status: 2 })
      assert.equal(reply.status, 200, reply.text)
      isGone = true
      await Promise.all(randomWrites)
      assert.equal(late, 0)
    })

    it('replaces a worker that was killed, and settles its journal', async () => {
      const { model } = await resources.serve('sim-words-30-pace-10', {}, { per_call: 0.01 })
      const { id, key } = await resources.newToken({ remain_quota: 5_000_000 })
      const before = childrenOf(server.pid)
      const requestsBefore = await seenInAll()
      const volleyed = Promise.allSettled(
        Array.from({ length: 64 }, () => client.chat(key, ask(model, { stream: true }))),
      )
      // By then most requests are running, some on every worker.
      await until('the provider to be asked', async () =>
        (await seenInAll()) >= requestsBefore + 48 ? true : undefined,
      )
      process.kill(before[1] ?? 0, 'SIGKILL')
      const replies = await volleyed
      const whole = replies.filter(
        reply => reply.status === 'fulfilled' && reply.value.text.includes('[DONE]'),
      ).length
      assert.ok(whole > 0 && whole < 64, `${whole} of 64`)
      const now = await until('the worker to be replaced', () => {
        const children = childrenOf(server.pid)
        return children.length === WORKERS && !children.includes(before[1] ?? 0) ? children : undefined
      })
      assert.equal(now.filter(pid => before.includes(pid)).length, WORKERS - 1)
      const { used_quota, held_quota } = await until('no hold to be open', async () => {
        const token = await tokenOf(id)
        return token.held_quota === 0 ? token : undefined
      })
      assert.equal(held_quota, 0)
      // Requests that were cut off had been delivered in part, so they are charged too.
      assert.ok(used_quota >= whole * 5_000 && used_quota <= 64 * 5_000, `${used_quota} for ${whole}`)
      assert.equal((await verifyThroughSocket(options)).ok, true)
      assert.deepEqual(countOf(await burst(16, key, ask(model))), { 200: 16 })
    })

    it('serves at the same address with all workers after one was killed, and after all were', async () => {
      const { model } = await resources.serve('sim-words-2')
      const { id, key } = await resources.newToken({ unlimited_quota: true })
      const kill = async (pids: readonly number[]) => {
        for (const pid of pids) process.kill(pid, 'SIGKILL')
        await until('them to end', () => (pids.some(isAlive) ? undefined : true))
        // A balance is reported as exact only if every worker has responded.
        await until('every worker to answer', async () => {
          const reply = await server.api('GET', `/api/token/${id}`).catch(() => undefined)
          return reply?.status === 200 && !reply.headers.has('x-sluice-stale') ? true : undefined
        })
      }
      await kill(childrenOf(server.pid).slice(0, 1))
      await kill(childrenOf(server.pid))
      assert.equal((await client.chat(key, ask(model))).status, 200)
    })

    it('ends all workers with their supervisor, and restarts on the same journals with fewer', async () => {
      // Slow, so that the first stream still runs when the last has started.
      const { model } = await resources.serve('sim-words-500-pace-20')
      const { id, key } = await resources.newToken({ remain_quota: 5_000_000 })
      const before = await seenInAll()
      const volleyed = Promise.allSettled(
        Array.from({ length: 32 }, () => client.chat(key, ask(model, { stream: true }))),
      )
      await until('every stream to run', async () => ((await seenInAll()) >= before + 32 ? true : undefined))
      const workers = childrenOf(server.pid)
      await server.kill()
      await volleyed
      await until('the workers to end', () => (workers.some(isAlive) ? undefined : true))
      server = await startServer({ ...options, env: { ...options.env, SLUICE_WORKERS: '1' } })
      await client.close()
      client = openClient(server.url)
      const { held_quota } = await tokenOf(id)
      assert.equal(held_quota, 0)
      assert.equal((await verifyThroughSocket(options)).ok, true)
      const leased = await lookInto(options, ({ db }) =>
        db.selectFrom('leases').select('node_id').where('amount', '>', 0).execute(),
      )
      assert.deepEqual(leased, [])
      assert.equal((await client.chat(key, ask(model))).status, 200)
    })
  })
}

describe('a rotation of the master secret in the data directory', () => {
  it('reaches every worker: keys of before and of after it are readable, also after a restart', async () => {
    const simulator = await startSimulator()
    const env = { SLUICE_WORKERS: String(WORKERS), SLUICE_SECRET: '' }
    const options = { dataDir: newDirectory(), env }
    let server = await startServer(options)
    let client = openClient(server.url)
    try {
      const resources = createResources(server.api, simulator.url)
      const { key } = await resources.newToken({ unlimited_quota: true })
      const earlier = await resources.serve('sim-words-4')
      const chats = async (model: string) =>
        countOf(await Promise.all(Array.from({ length: CLIENTS }, () => client.chat(key, ask(model)))))
      assert.deepEqual(await chats(earlier.model), { 200: CLIENTS })

      const rotated = await runHere(['admin', 'rotate-secret'], { env: settingsOf(options) })
      assert.equal(rotated.code, 0, rotated.stderr)
      // Every worker reads the channels again.
      const later = await resources.serve('sim-words-9')
      assert.deepEqual(await chats(earlier.model), { 200: CLIENTS })
      assert.deepEqual(await chats(later.model), { 200: CLIENTS })

      await client.close()
      await server.stop()
      server = await startServer(options)
      client = openClient(server.url)
      assert.deepEqual(await chats(earlier.model), { 200: CLIENTS })
      assert.deepEqual(await chats(later.model), { 200: CLIENTS })
    } finally {
      await client.close()
      await server.stop()
      await simulator.close()
    }
  })
})

describe('locks between workers', () => {
  it('have one owner at a time, in order of arrival', async () => {
    const locks = createLocks()
    const [a, b, c] = [{}, {}, {}]
    const entered: string[] = []
    const enter = (name: string, owner: object) => locks.enter('x', owner).then(() => entered.push(name))
    await enter('a', a)
    const waiting = [enter('b', b), enter('c', c)]
    locks.leave('x', b)
    await setImmediate()
    assert.deepEqual(entered, ['a'])
    locks.leave('x', a)
    await waiting[0]
    locks.leave('x', b)
    await waiting[1]
    locks.leave('x', c)
    assert.deepEqual(entered, ['a', 'b', 'c'])
    assert.equal(locks.size(), 0)
  })

  it('are released when their owner has ended', async () => {
    const locks = createLocks()
    const [a, b, c] = [{}, {}, {}]
    await locks.enter('x', a)
    const second = locks.enter('x', b)
    const third = locks.enter('x', c)
    locks.releaseAll(b)
    locks.releaseAll(a)
    await third
    locks.releaseAll(c)
    assert.equal(locks.size(), 0)
    assert.ok(second)
  })
})
