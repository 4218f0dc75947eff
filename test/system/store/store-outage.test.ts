import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { startSimulator } from '../../../simulator/server.ts'
import { openDatabase } from '../../../src/host/sqlite-open.ts'
import { type RetryOptions, retryingFetch } from '../../support/client.ts'
import { startPostgres } from '../../support/postgres.ts'
import { childrenOf, newDirectory, startServer, until, verifyThroughSocket } from '../../support/process.ts'
import { startProxy } from '../../support/proxy.ts'
import { createResources } from '../../support/relay.ts'

const KNOWN_LEASE = 500_000
/** These requests show what the gateway answers during an outage. */
const OUTAGE: RetryOptions = { expectedRefusal: 'ledger_unavailable' }

describe('a gateway whose PostgreSQL is unavailable', () => {
  // Outside the tests' own directory, which PostgreSQL's user cannot read.
  const folder = join(tmpdir(), `sluice-outage-${randomUUID()}`)
  let postgres: Awaited<ReturnType<typeof startPostgres>>
  let proxy: Awaited<ReturnType<typeof startProxy>>
  let simulator: Awaited<ReturnType<typeof startSimulator>>
  let server: Awaited<ReturnType<typeof startServer>>
  let resources: ReturnType<typeof createResources>
  let dataDir: string
  let model: string
  let token: { id: number; key: string }
  let served = 0
  const closing: (() => Promise<void>)[] = []

  before(async () => {
    postgres = await startPostgres(folder)
    closing.push(async () => {
      await postgres.stop()
      rmSync(folder, { recursive: true, force: true })
    })
    const url = new URL(postgres.url)
    proxy = await startProxy(new URL(postgres.url))
    closing.push(async () => proxy.close())
    url.port = String(proxy.port)
    simulator = await startSimulator()
    closing.push(simulator.close)
    dataDir = join(newDirectory(), 'data')
    server = await startServer({ dataDir, databaseUrl: url.href })
    closing.push(async () => assert.equal((await server.stop()).code, 0))
    resources = createResources(server.api, simulator.url)
    model = (await resources.serve('sim-echo')).model
    token = await resources.newToken({ remain_quota: KNOWN_LEASE })
    // A busy machine may need several attempts for the first lease.
    await chat({})
  })
  after(async () => {
    for (const close of closing.reverse()) await close()
  })

  const ask = (key: string, name = model, options: RetryOptions = OUTAGE) =>
    server.api(
      'POST',
      '/v1/chat/completions',
      { model: name, messages: [{ role: 'user', content: 'hello' }], max_tokens: 5 },
      { token: key, ...options },
    )

  /** A request of a cached user whose lease covers it, which needs no store. */
  async function chat(options?: RetryOptions): Promise<void> {
    const { status, text } = await ask(token.key, model, options)
    assert.equal(status, 200, text)
    served += 1
  }

  /** Sends requests all the time, because the lease of an idle account is returned after some seconds. */
  function keepBusy() {
    let isOver = false
    const asking = (async () => {
      while (!isOver) {
        await chat()
        await delay(100)
      }
    })()
    return {
      end(): Promise<void> {
        isOver = true
        return asking
      },
    }
  }

  const readiness = async () => (await retryingFetch(`${server.origin}/readyz`)).status
  const becomes = (expectedStatus: number) =>
    until(`/readyz to say ${expectedStatus}`, async () =>
      (await readiness()) === expectedStatus ? true : undefined,
    )

  function mustTellOutage(
    { status, headers, body, text }: Awaited<ReturnType<typeof server.api>>,
    code: string,
  ) {
    assert.equal(status, 503, text)
    assert.equal(headers.get('retry-after'), '5')
    assert.equal(body.error?.code ?? body.code, code)
    assert.match(body.error?.message ?? body.message, /^The database (is unavailable|connection was lost)/)
    assert.doesNotMatch(text, /postgres|ECONN|127\.0\.0\.1|timeout|terminat/i)
  }

  /** Requests run before the store stops: the lease of an idle account would have been returned. */
  async function mustBeDown(stop: () => Promise<void> | void): Promise<void> {
    const busy = keepBusy()
    await chat()
    await stop()
    const [list, write, status, login, nowhere, pricing, stranger] = await Promise.all([
      server.api('GET', '/api/token/'),
      server.api('POST', '/api/token/', { name: 'not kept' }),
      server.api('GET', '/api/status', undefined, { token: null }),
      server.api('POST', '/api/user/login', { username: 'root', password: 'whatever it is' }),
      server.api('GET', '/api/no-such-path'),
      server.api('GET', '/api/pricing', undefined, OUTAGE),
      ask('sk-nobody-has-ever-seen-this-one'),
    ])
    for (const answer of [list, write, status, login]) {
      mustTellOutage(answer, 'store_unavailable')
      assert.deepEqual(Object.keys(answer.body), ['success', 'code', 'message'])
      assert.equal(answer.body.success, false)
    }
    for (const answer of [pricing, stranger]) mustTellOutage(answer, 'ledger_unavailable')
    assert.equal(nowhere.status, 404)
    assert.equal(await readiness(), 503)
    assert.equal((await retryingFetch(`${server.origin}/healthz`)).status, 200)
    await busy.end()
    const faults = server.lines().filter(({ level, err }) => level === 'error' && err)
    assert.ok(faults.some(({ msg }) => msg === 'The database does not respond.'))
    assert.ok(faults.some(({ request_id }) => request_id === stranger.headers.get('x-request-id')))
  }

  async function mustBeBack(): Promise<void> {
    await becomes(200)
    await until('management to answer', async () =>
      (await server.api('GET', '/api/token/')).status === 200 ? true : undefined,
    )
    await chat({})
    await until('every request to be in the books', async () => {
      const { body } = await server.api('GET', `/api/log/?token_name=app&type=2`)
      return body.data.total === served ? true : undefined
    })
    const { body } = await server.api('GET', '/api/token/')
    assert.equal(body.data.total, 1)
    assert.ok((await verifyThroughSocket({ dataDir })).ok)
  }

  it('reports it while it is stopped, serves requests, and recovers when it is started', async () => {
    await mustBeDown(() => postgres.stop())
    await postgres.start()
    await mustBeBack()
  })

  it('reports it while it hangs, serves requests, and recovers when it responds', async () => {
    const pid = postgres.pid()
    let all: readonly number[] = []
    try {
      await mustBeDown(() => {
        all = [pid, ...childrenOf(pid)]
        for (const each of all) process.kill(each, 'SIGSTOP')
      })
    } finally {
      for (const each of all) process.kill(each, 'SIGCONT')
    }
    await mustBeBack()
  })

  it('reports nothing else when its connections are cut during requests', async () => {
    const client = new pg.Client({ connectionString: postgres.url })
    await client.connect()
    let isOver = false
    const cutting = (async () => {
      while (!isOver) {
        await client.query(
          'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()',
        )
        await delay(5)
      }
    })()
    const statuses = new Set<number>()
    for (let round = 0; round < 40; round++)
      for (const { status, text } of await Promise.all([
        server.api('GET', '/api/token/'),
        server.api('GET', '/api/log/'),
        server.api('PUT', '/api/token/', { id: token.id, name: 'app' }),
      ])) {
        statuses.add(status)
        assert.ok(status === 200 || status === 503, text)
      }
    isOver = true
    await cutting
    await client.end()
    assert.ok(statuses.has(503), 'nothing was cut')
    await mustBeBack()
  })

  it('reports it when PostgreSQL gives up on a lock, as an operator may have set it', async () => {
    const client = new pg.Client({ connectionString: postgres.url })
    await client.connect()
    const endOthers = () =>
      client.query(
        'select pg_terminate_backend(pid, 5000) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()',
      )
    await client.query("alter database postgres set lock_timeout = '100ms'")
    await endOthers()
    await mustBeBack()
    const logged = server.lines().length
    await client.query('begin; lock table accounts')
    await chat()
    const change = await server.api('PUT', '/api/token/', { id: token.id, name: 'app' })
    const stranger = await server.api('POST', '/api/user/', {
      username: 'someone',
      password: 'a long password',
    })
    await client.query('commit; alter database postgres reset lock_timeout')
    await endOthers()
    await client.end()
    for (const refused of [change, stranger]) mustTellOutage(refused, 'store_unavailable')
    await mustBeBack()
    const messages = server
      .lines()
      .slice(logged)
      .map(({ msg }) => msg)
    assert.ok(!messages.some(message => /failed over/.test(String(message))), messages.join('\n'))
  })

  it('accepts the retry of a change whose commit was not acknowledged', async () => {
    const { model: other, channels } = await resources.serve('sim-echo')
    assert.equal((await ask(token.key, other)).status, 200)
    served += 1
    proxy.set('cut at commit')
    const answer = await server.api('POST', `/api/channel/${channels[0]}/status`, { status: 2 })
    proxy.set('pass')
    mustTellOutage(answer, 'store_unavailable')
    assert.match(answer.body.message, /Check whether the change was saved/)
    await until('the channel to be off', async () =>
      (await ask(token.key, other)).status === 404 ? true : undefined,
    )
    await mustBeBack()
  })
})

describe('a gateway whose SQLite database is locked by another process', () => {
  it('refuses changes, serves reads, and recovers when the lock is released', async () => {
    const ground = { dataDir: join(newDirectory(), 'data') }
    const server = await startServer(ground)
    const database = openDatabase(join(ground.dataDir, 'sluice.db'), { readOnly: false, timeoutMs: 1_000 })
    database.exec('BEGIN IMMEDIATE')
    const [refused, list] = await Promise.all([
      server.api('POST', '/api/token/', { name: 'not kept' }),
      server.api('GET', '/api/token/'),
    ])
    assert.equal(refused.status, 503, refused.text)
    assert.equal(refused.body.code, 'store_unavailable')
    assert.equal(refused.headers.get('retry-after'), '5')
    assert.doesNotMatch(refused.text, /locked|sqlite/i)
    assert.equal(list.body.data.total, 0)
    assert.ok(server.lines().some(({ err }) => /database is locked/.test(JSON.stringify(err ?? null))))
    database.exec('COMMIT')
    database.close()
    assert.equal((await server.api('POST', '/api/token/', { name: 'kept' })).status, 200)
    assert.equal((await server.stop()).code, 0)
  })
})
