import assert from 'node:assert/strict'
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { startSimulator } from '../../../simulator/server.ts'
import { openDatabase } from '../../../src/host/sqlite-open.ts'
import { retryingFetch } from '../../support/client.ts'
import { runHere } from '../../support/command.ts'
import { type Api, ENGINES, type EngineName } from '../../support/gateway.ts'
import { commitOf, editJournal } from '../../support/journal-text.ts'
import { createDatabase } from '../../support/postgres.ts'
import {
  lookInto,
  newDirectory,
  run,
  type Server,
  type ServerOptions,
  settingsOf,
  startGatewayOn,
  startServer,
  until,
} from '../../support/process.ts'

const CLIENTS = 6
/** Between two requests of a client, so that the backup gets processor time. */
const PAUSE_MS = 15
/**
 * Each worker has its own journal; the restored gateway has one worker, and settles the journals of all of
 * them.
 */
const WORKERS = { sqlite: 2, postgres: 1 } as const
const BACKUPS = process.env.SLUICE_CAMPAIGN === undefined ? 2 : 6
/** How many more responses arrive between two backups. */
const ANSWERS_BETWEEN = 60
const MODEL = 'small'
const STALLING = 'stalling'

async function newGround(engine: EngineName): Promise<ServerOptions> {
  const dataDir = join(newDirectory(), 'data')
  return engine === 'sqlite' ? { dataDir } : { dataDir, databaseUrl: (await createDatabase()).url }
}

async function must(reply: ReturnType<Api>) {
  const { status, body, text } = await reply
  assert.equal(status, 200, text)
  return body.data
}

/** Two models of the simulated provider: one that responds, one whose stream never ends. */
async function addContent({ api }: Pick<Server, 'api'>, upstream: string): Promise<void> {
  const channel = { name: 'simulated', type: 1, key: 'provider-key', base_url: upstream }
  for (const [model, sentModel] of Object.entries({
    [MODEL]: 'sim-words-4',
    [STALLING]: 'sim-words-9-stall-3',
  })) {
    const fields = { ...channel, name: model, models: [model], model_mapping: { [model]: sentModel } }
    await must(api('POST', '/api/channel/', { mode: 'single', channel: fields }))
    await must(api('POST', '/api/price/', { model, input: 1, output: 2, max_output_tokens: 100 }))
  }
}

const newToken = async ({ api }: Pick<Server, 'api'>): Promise<string> =>
  (await must(api('POST', '/api/token/', { name: 'app', remain_quota: 500_000 }))).key

const ask = ({ url }: Pick<Server, 'url'>, key: string, fields: object, signal?: AbortSignal) =>
  retryingFetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hello' }], ...fields }),
    ...(signal ? { signal } : {}),
  })

/** Clients that send one request after another, streamed and not, some with tokens that were just created. */
function createTraffic(server: Server, key: string) {
  const answered: string[] = []
  let isOver = false
  async function client(index: number): Promise<void> {
    for (let turn = 0; !isOver; turn++) {
      const own = index === 0 ? await newToken(server) : key
      const response = await ask(server, own, { stream: turn % 2 === 1 })
      const text = await response.text()
      // On a busy machine a lease may time out; nothing was sent then.
      if (text.includes('ledger_unavailable')) continue
      assert.equal(response.status, 200, text)
      answered.push(response.headers.get('x-request-id') ?? '')
      await setTimeout(PAUSE_MS)
    }
  }
  const clients = Promise.all(Array.from({ length: CLIENTS }, (_, index) => client(index)))
  return {
    answered,
    async end(): Promise<void> {
      isOver = true
      await clients
    },
  }
}

/** The ledger of a store, read with a separate connection. */
const booksOf = (ground: ServerOptions) =>
  lookInto(ground, async ({ db }) => {
    const entries = await db.selectFrom('entries').selectAll().where('kind', '=', 'settle').execute()
    const accounts = await db.selectFrom('accounts').selectAll().execute()
    const recovered = await db
      .selectFrom('logs')
      .select(['request_id', 'cost'])
      .where('content', 'like', 'Recovered%')
      .execute()
    const leases = await db.selectFrom('leases').selectAll().where('amount', '>', 0).execute()
    return { entries, accounts, recovered, leases, ids: entries.map(entry => entry.request_id ?? '') }
  })

/** No open request, no duplicate, and every balance is the credit minus the entries. */
async function mustBeExact(ground: ServerOptions) {
  const books = await booksOf(ground)
  assert.equal(new Set(books.ids).size, books.ids.length, 'a request has two entries')
  assert.deepEqual(books.leases, [])
  for (const account of books.accounts) {
    assert.equal(account.held, 0)
    const own = books.entries.filter(entry =>
      account.kind === 'user' ? entry.user_id === account.owner_id : entry.token_id === account.owner_id,
    )
    assert.equal(
      account.posted,
      own.reduce((sum, { amount }) => sum + amount, 0),
      `${account.kind}:${account.owner_id}`,
    )
    assert.equal(account.request_count, own.length)
  }
  return books
}

function edit(path: string, statement: string): void {
  const db = openDatabase(path, { readOnly: false, timeoutMs: 10_000 })
  db.exec(statement)
  db.close()
}

/** Settings for a directory that has the same secret as another. */
async function placeBeside(engine: EngineName, { dataDir }: ServerOptions): Promise<ServerOptions> {
  const ground = await newGround(engine)
  mkdirSync(ground.dataDir, { mode: 0o700 })
  copyFileSync(join(dataDir, 'secret'), join(ground.dataDir, 'secret'))
  return ground
}

for (const engine of ENGINES) {
  describe(`a backup on ${engine}`, () => {
    let simulator: Awaited<ReturnType<typeof startSimulator>>
    before(async () => {
      simulator = await startSimulator()
    })
    after(() => simulator.close())

    it('taken under load restores to an exact ledger with everything that was acknowledged before', async t => {
      const ground = await newGround(engine)
      const workers = WORKERS[engine]
      const server = await startServer({ ...ground, env: { SLUICE_WORKERS: String(workers) } })
      await addContent(server, simulator.url)
      const key = await newToken(server)
      const hangUp = new AbortController()
      const stalled = await ask(server, key, { model: STALLING, stream: true }, hangUp.signal)
      const stalledId = stalled.headers.get('x-request-id') ?? ''
      await stalled.body?.getReader().read()

      const traffic = createTraffic(server, key)
      const backups: { file: string; answered: string[] }[] = []
      for (let round = 1; round <= BACKUPS; round++) {
        await until('answers', () => (traffic.answered.length >= round * ANSWERS_BETWEEN ? true : undefined))
        const file = join(newDirectory(), 'sluice.backup')
        const answered = [...traffic.answered]
        const backUp = round === 1 ? run : runHere
        const { code, stdout, stderr } = await backUp(['backup', file], { env: settingsOf(ground) })
        assert.equal(code, 0, stderr)
        assert.match(stdout, new RegExp(`journal records of ${workers} nodes`))
        assert.match(stdout, /does not contain the master secret/)
        assert.equal(statSync(file).mode & 0o777, 0o600)
        backups.push({ file, answered })
      }
      await traffic.end()
      hangUp.abort()
      await stalled.text().catch(() => {})
      await server.stop()
      assert.equal(new Set(traffic.answered).size, traffic.answered.length)

      for (const [index, { file, answered }] of backups.entries()) {
        const place = await placeBeside(engine, ground)
        const restored = await (index === 0 ? run : runHere)(['restore', file], { env: settingsOf(place) })
        assert.equal(restored.code, 0, restored.stderr)
        const again = await startGatewayOn(place)
        const verdict = await again.operations.verify({})
        assert.ok(verdict.ok, verdict.lines.join('\n'))
        const books = await mustBeExact(place)
        const inBooks = new Set(books.ids)
        assert.deepEqual(
          answered.filter(id => !inBooks.has(id)),
          [],
        )
        // Requests open at that time ended as after a crash, and delivered output is charged.
        const open = books.recovered.find(({ request_id }) => request_id === stalledId)
        assert.ok(open && open.cost > 0)
        assert.equal(books.ids.filter(id => id === stalledId).length, 1)
        // The restored gateway serves requests, with its existing tokens.
        const reply = await ask(again, key, {})
        assert.equal(reply.status, 200, await reply.text())
        await again.close()
        t.diagnostic(`${answered.length} answered before, ${books.ids.length} entries restored`)
      }
    })

    it('of a stopped gateway contains no secret, and may be restored on the other engine', async () => {
      const ground = await newGround(engine)
      const server = await startServer(ground)
      await addContent(server, simulator.url)
      const key = await newToken(server)
      assert.equal((await ask(server, key, {})).status, 200)
      await server.kill()
      const file = join(newDirectory(), 'sluice.backup')
      assert.equal((await runHere(['backup', file], { env: settingsOf(ground) })).code, 0)
      const bytes = readFileSync(file)
      for (const secret of [
        readFileSync(join(ground.dataDir, 'secret'), 'utf8').trim(),
        key,
        key.slice(3),
        'provider-key',
      ])
        assert.equal(bytes.includes(secret), false)

      const place = await placeBeside(engine === 'sqlite' ? 'postgres' : 'sqlite', ground)
      const restored = await runHere(['restore', file], { env: settingsOf(place) })
      assert.equal(restored.code, 0, restored.stderr)
      const again = await startGatewayOn(place)
      assert.equal((await mustBeExact(place)).ids.length, 1)
      assert.equal((await ask(again, key, {})).status, 200)
      // Ids continue where they were: none is reused.
      const existingTokens = await lookInto(ground, ({ db }) =>
        db.selectFrom('tokens').select('id').execute(),
      )
      const createdToken = await must(again.api('POST', '/api/token/', { name: 'next', remain_quota: 1 }))
      assert.ok(existingTokens.every(({ id }) => id < createdToken.id))
      const verdict = await again.operations.verify({})
      assert.ok(verdict.ok, verdict.lines.join('\n'))
      await again.close()
    })

    it('is refused if a file or a gateway exists at the target, and if it is damaged', async () => {
      const ground = await newGround(engine)
      const server = await startServer(ground)
      const dir = newDirectory()
      const file = join(dir, 'sluice.backup')
      const env = settingsOf(ground)
      assert.equal((await runHere(['backup', file], { env })).code, 0)
      const whole = readFileSync(file)
      const twice = await runHere(['backup', file], { env })
      assert.equal(twice.code, 1)
      assert.match(twice.stderr, /sluice\.backup already exists/)
      assert.deepEqual(readFileSync(file), whole)
      assert.match(
        (await runHere(['backup', join(dir, 'no/where')], { env })).stderr,
        /no is not a directory/,
      )
      assert.deepEqual(readdirSync(dir), ['sluice.backup'])

      const running = await runHere(['restore', file], { env })
      assert.equal(running.code, 1)
      assert.match(running.stderr, /already contains a gateway/)
      await server.stop()

      const place = await newGround(engine)
      const spoiled = join(dir, 'spoiled.backup')
      const torn = whole.subarray(0, whole.length / 2)
      const overwritten = Buffer.from(whole)
      overwritten.fill(0x5a, 4096 * 3, 4096 * 12)
      for (const bytes of [torn, overwritten, Buffer.from('no backup'), Buffer.alloc(0)]) {
        writeFileSync(spoiled, bytes)
        const { code, stderr } = await runHere(['restore', spoiled], { env: settingsOf(place) })
        assert.equal(code, 1)
        assert.match(stderr, /spoiled\.backup cannot be restored: /)
        assert.equal(existsSync(place.dataDir), false)
      }
      assert.equal((await runHere(['restore', file], { env: settingsOf(place) })).code, 0)
      const secretless = await runHere(['verify'], { env: settingsOf(place) })
      assert.equal(secretless.code, 78)
      assert.match(secretless.stderr, /SLUICE_SECRET is not set and .*secret is missing/)
    })
  })
}

describe('a restore after the files of a killed gateway were deleted', () => {
  it('is refused while its write-ahead log is left, which SQLite would apply to the restored database', async () => {
    const ground = await newGround('sqlite')
    const env = settingsOf(ground)
    const server = await startServer(ground)
    const file = join(newDirectory(), 'sluice.backup')
    assert.equal((await runHere(['backup', file], { env })).code, 0)
    await must(server.api('POST', '/api/user/', { username: 'later', password: 'a long password' }))
    await server.kill()
    rmSync(join(ground.dataDir, 'sluice.db'))
    rmSync(join(ground.dataDir, 'nodes'), { recursive: true })

    const log = readFileSync(join(ground.dataDir, 'sluice.db-wal'))
    const refused = await runHere(['restore', file], { env })
    assert.equal(refused.code, 1)
    assert.match(
      refused.stderr,
      /already contains a gateway \(sluice\.db-wal\); restore into an empty directory/,
    )
    assert.deepEqual(readFileSync(join(ground.dataDir, 'sluice.db-wal')), log)

    for (const suffix of ['-wal', '-shm']) rmSync(join(ground.dataDir, `sluice.db${suffix}`))
    assert.equal((await runHere(['restore', file], { env })).code, 0)
    assert.equal((await runHere(['admin', 'reset-password'], { env })).code, 0)
  })
})

for (const engine of ENGINES) {
  describe(`a restore into ${engine} that was killed`, () => {
    const filesOf = (dir: string) =>
      readdirSync(dir, { recursive: true, encoding: 'utf8' })
        .filter(name => name !== 'sluice.lock')
        .toSorted()

    it('is named by the next start, which creates nothing, and can be run again', async () => {
      const source = await newGround('sqlite')
      const server = await startServer(source)
      const file = join(newDirectory(), 'sluice.backup')
      assert.equal((await runHere(['backup', file], { env: settingsOf(source) })).code, 0)
      await server.stop()

      // The state between its last two steps: the journals are in place, the store is not.
      const ground = await placeBeside(engine, source)
      const halfway = await newGround('sqlite')
      assert.equal((await runHere(['restore', file], { env: settingsOf(halfway) })).code, 0)
      cpSync(join(halfway.dataDir, 'nodes'), join(ground.dataDir, 'nodes'), { recursive: true })
      cpSync(join(halfway.dataDir, 'sluice.db'), join(ground.dataDir, 'sluice.db.part'))
      const before = filesOf(ground.dataDir)

      for (const command of [['start'], ['verify']]) {
        const { code, stdout, stderr } = await run(command, { env: settingsOf(ground) })
        assert.equal(code, 78, stderr)
        assert.equal(stdout, '')
        assert.match(
          stderr,
          /^sluice: SLUICE_DATA has a restore that was interrupted .*run "sluice restore FILE" again.*\n$/,
        )
        assert.deepEqual(filesOf(ground.dataDir), before)
      }
      const again = await runHere(['restore', file], { env: settingsOf(ground) })
      assert.equal(again.code, 0, again.stderr)
      assert.ok(!filesOf(ground.dataDir).includes('sluice.db.part'))
      const { code, stdout, stderr } = await runHere(['verify'], { env: settingsOf(ground) })
      assert.equal(code, 0, stdout + stderr)
    })
  })
}

describe('an older copy of the store under newer journals', () => {
  it('is brought up to date from the files the node has kept, each entry once, and refused if those have a gap', async () => {
    const simulator = await startSimulator()
    const ground = await newGround('sqlite')
    const store = join(ground.dataDir, 'sluice.db')
    const old = join(newDirectory(), 'old.db')
    const server = await startServer(ground)
    await addContent(server, simulator.url)
    const key = await newToken(server)
    for (let count = 0; count < 5; count++) assert.equal((await ask(server, key, {})).status, 200)
    const db = openDatabase(store, { readOnly: true, timeoutMs: 10_000 })
    db.prepare('VACUUM INTO ?').run(old)
    db.close()
    for (let count = 0; count < 20; count++) assert.equal((await ask(server, key, {})).status, 200)
    // They are taken again by the next request.
    await until('the leases to be returned', async () => {
      const { data } = (await server.api('GET', '/api/node/')).body
      return data.every(({ leased }: { leased: string }) => Number(leased) === 0) ? true : undefined
    })
    assert.equal((await ask(server, key, {})).status, 200)
    await server.kill()
    const before = await booksOf(ground)

    for (const suffix of ['-wal', '-shm']) rmSync(`${store}${suffix}`, { force: true })
    copyFileSync(old, store)
    const again = await startGatewayOn(ground)
    const verdict = await again.operations.verify({})
    assert.ok(verdict.ok, verdict.lines.join('\n'))
    const caughtUp = await mustBeExact(ground)
    assert.equal(caughtUp.ids.length, 26)
    // The same links as before, not only the same sums; the newest may not have been in the store at the
    // kill.
    assert.deepEqual(
      caughtUp.entries.slice(0, before.entries.length).map(({ hash }) => hash),
      before.entries.map(({ hash }) => hash),
    )
    await again.close()
    await simulator.close()

    const [node = ''] = readdirSync(join(ground.dataDir, 'nodes'))
    const journal = readdirSync(join(ground.dataDir, 'nodes', node)).find(name => name.endsWith('.log')) ?? ''
    editJournal(join(ground.dataDir, 'nodes', node, journal), text => text.replace(commitOf(3), ''))
    const checked = await runHere(['verify'], { env: settingsOf(ground) })
    assert.equal(checked.code, 0)
    assert.match(checked.stdout, /record 3 is missing in .*0001\.log, but already in the ledger/)
    edit(store, 'UPDATE nodes SET applied_lsn = 2, oldest_open_lsn = 3')
    const broken = await runHere(['verify'], { env: settingsOf(ground) })
    assert.equal(broken.code, 65)
    assert.match(broken.stdout, /BROKEN: record 3 is missing in .*0001\.log/)
    const refused = await run(['start'], { env: settingsOf(ground) })
    assert.equal(refused.code, 65)
    assert.match(
      refused.stderr,
      /^sluice: a journal is damaged: record 3 is missing in [^\n]*0001\.log[^\n]*\n$/,
    )
  })
})
