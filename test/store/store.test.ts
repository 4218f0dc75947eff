import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, it, type TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Worker } from 'node:worker_threads'
import { sql } from 'kysely'
import { readConfig } from '../../src/app/config.ts'
import { openStoreAndKeys } from '../../src/app/store-and-keys.ts'
import { createChainKey } from '../../src/domain/chain.ts'
import { UnreachableError } from '../../src/domain/errors.ts'
import { MAX_UNITS, nanosOf } from '../../src/domain/money.ts'
import type { Settled } from '../../src/domain/settled.ts'
import { verifyChain } from '../../src/ledger/verify.ts'
import { entriesAfter, entryFields, findAccount, openAccount, post } from '../../src/store/books/accounts.ts'
import { createBooks } from '../../src/store/books/books.ts'
import { setChainKey } from '../../src/store/books/chain-key.ts'
import { CHAIN_KEYED } from '../../src/store/books/chain-upgrade.ts'
import { AUDIT_CHAIN, findChain, STORE_CHAIN, startChain } from '../../src/store/books/chains.ts'
import { boundedCount } from '../../src/store/engine/page.ts'
import { pipelineOf } from '../../src/store/engine/postgres.ts'
import type { AuditRow, EntryRow } from '../../src/store/engine/schema.ts'
import { endSpareThreads } from '../../src/store/engine/sqlite-threads.ts'
import {
  isUniqueViolation,
  openStore,
  type Store,
  type StoreOptions,
  type Trx,
  transact,
} from '../../src/store/engine/store.ts'
import { tokenNames } from '../../src/store/migrations/0005-token-names.ts'
import { appendAudit, auditAfter, auditFields, unkeyedAuditFields } from '../../src/store/records/audit.ts'
import {
  deleteTokens,
  findToken,
  insertToken,
  listTokens,
  updateToken,
} from '../../src/store/records/tokens.ts'
import { insertUser } from '../../src/store/records/users.ts'
import { insertLog } from '../../src/store/usage/logs.ts'
import { ENGINES, type EngineName } from '../support/gateway.ts'
import { createDatabase, stopOwnPostgres } from '../support/postgres.ts'
import { until } from '../support/process.ts'
import { USAGE } from '../support/usage.ts'

const CHAIN_KEY = createChainKey(Buffer.alloc(32, 7))

/** A location for a separate store, and the stores that were opened there. */
async function createPlace(engine: EngineName) {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-store-'))
  const database = engine === 'postgres' ? await createDatabase() : undefined
  const options: StoreOptions = database
    ? { engine: 'postgres', url: database.url, maxConnections: 8 }
    : { engine: 'sqlite', path: join(directory, 'sluice.db'), fullSync: false }
  const opened: Store[] = []
  return {
    open(): Store {
      const store = openStore(options)
      setChainKey(store.db, CHAIN_KEY)
      opened.push(store)
      return store
    },
    async remove(): Promise<void> {
      await Promise.all(opened.map(store => store.close()))
      await database?.drop()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

type Place = Awaited<ReturnType<typeof createPlace>>

const times = <T>(count: number, make: (index: number) => Promise<T>) =>
  Promise.all(Array.from({ length: count }, (_, index) => make(index)))

let names = 0
const newName = () => `name-${++names}`

async function makeUser(trx: Trx, username = newName()): Promise<number> {
  const id = await insertUser(trx, { username, displayName: username, passwordHash: 'x', role: 1, time: 1 })
  await openAccount(trx, { kind: 'user', ownerId: id }, false)
  return id
}

async function makeToken(trx: Trx, userId: number, name = newName()): Promise<number> {
  const id = await insertToken(trx, {
    user_id: userId,
    name,
    key_digest: newName(),
    key_sealed: '',
    key_hint: '',
    status: 1,
    created_time: 1,
    expired_time: -1,
    model_limits_enabled: 0,
    models: '[]',
    allow_ips: '[]',
    token_group: 'default',
    limits: '{}',
  })
  await openAccount(trx, { kind: 'token', ownerId: id }, false)
  return id
}

const grant = (trx: Trx, userId: number, amount: number) =>
  post(trx, { kind: 'grant', userId, amount, actor: 'test', reason: 'test', time: 1 })

const note = (trx: Trx, target: string) =>
  appendAudit(trx, {
    time: 1,
    actor_id: 0,
    actor_name: '',
    via: 'test',
    address: '',
    request_id: '',
    action: 'test',
    target,
    before: null,
    after: null,
  })

/** A migrated store with its two chains and one user. */
async function addContent({ db, migrate }: Store): Promise<number> {
  await migrate()
  return db.transaction().execute(async trx => {
    await startChain(trx, STORE_CHAIN)
    await startChain(trx, AUDIT_CHAIN)
    return makeUser(trx)
  })
}

const verifyEntries = ({ db }: Store) =>
  verifyChain<EntryRow>(
    {
      name: STORE_CHAIN,
      head: () => findChain(db, STORE_CHAIN),
      after: (seq, limit) => entriesAfter(db, STORE_CHAIN, seq, limit),
      fieldsOf: entryFields,
      unkeyedFieldsOf: entryFields,
      isFirstKeyed: ({ kind }) => kind === 'keyed',
    },
    CHAIN_KEY,
  )

const verifyAudit = ({ db }: Store) =>
  verifyChain<AuditRow>(
    {
      name: AUDIT_CHAIN,
      head: () => findChain(db, AUDIT_CHAIN),
      after: (seq, limit) => auditAfter(db, seq, limit),
      fieldsOf: auditFields,
      unkeyedFieldsOf: unkeyedAuditFields,
      isFirstKeyed: ({ action }) => action === CHAIN_KEYED,
    },
    CHAIN_KEY,
  )

after(stopOwnPostgres)

for (const engine of ENGINES) {
  describe(`an empty store on ${engine}`, () => {
    let place: Place
    beforeEach(async () => {
      place = await createPlace(engine)
    })
    afterEach(() => place.remove())

    it('is reported as empty until it is migrated', async () => {
      const store = place.open()
      assert.equal(await store.isInitialised(), false)
      await store.migrate()
      assert.equal(await store.isInitialised(), true)
    })

    it('is migrated once: a second migration changes nothing', async () => {
      const store = place.open()
      const userId = await addContent(store)
      const ran = () =>
        sql<{ name: string; timestamp: string }>`select name, timestamp from kysely_migration`.execute(
          store.db,
        )
      const before = await ran()
      await store.migrate()
      await place.open().migrate()
      assert.deepEqual((await ran()).rows, before.rows)
      assert.ok(await findAccount(store.db, { kind: 'user', ownerId: userId }))
    })

    it('fills the names of tokens from usage rows that are older than the table', async () => {
      const store = place.open()
      const userId = await addContent(store)
      const tokenId = await store.db.transaction().execute(trx => makeToken(trx, userId, 'now'))
      await sql`drop table token_names`.execute(store.db)
      await sql`create index logs_token_name on logs (token_name)`.execute(store.db)
      for (const [token_id, token_name] of [
        [tokenId, 'now'],
        [tokenId, 'before'],
        [990, 'deleted since'],
        [0, 'playground'],
      ] as const)
        await insertLog(store.db, { created_time: 1, type: 2, user_id: userId, token_id, token_name })
      await tokenNames(store.db as never, engine)
      const names = await store.db
        .selectFrom('token_names')
        .select(['token_id', 'name', 'user_id'])
        .orderBy('name')
        .execute()
      assert.deepEqual(
        names.map(row => ({ ...row })),
        [
          { token_id: tokenId, name: 'before', user_id: userId },
          { token_id: 990, name: 'deleted since', user_id: userId },
          { token_id: tokenId, name: 'now', user_id: userId },
        ],
      )
    })

    it('is migrated once by six concurrent openers', async () => {
      const stores = await times(6, async () => place.open())
      await Promise.all(stores.map(store => store.migrate()))
      for (const store of stores) await store.ping()
      const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(
        (stores[0] as Store).db,
      )
      assert.equal(new Set(rows.map(row => row.name)).size, rows.length)
    })
  })

  describe(`the store on ${engine}`, () => {
    let place: Place
    let store: Store
    let other: Store
    let userId: number
    before(async () => {
      place = await createPlace(engine)
      store = place.open()
      other = place.open()
      userId = await addContent(store)
    })
    after(() => place.remove())

    const inTransaction = <T>(work: (trx: Trx) => Promise<T>, from = store) =>
      from.db.transaction().execute(work)

    it('rolls a transaction back completely', async () => {
      const createdIds: number[] = []
      const failing = inTransaction(async trx => {
        const id = await makeUser(trx, 'never-there')
        createdIds.push(id, await makeToken(trx, id))
        await grant(trx, id, 1_000)
        await note(trx, 'never')
        throw new Error('changed my mind')
      })
      await assert.rejects(failing, /changed my mind/)
      const [user = 0, token = 0] = createdIds
      assert.ok(token > 0)
      const users = await store.db.selectFrom('users').select('id').where('id', '=', user).execute()
      assert.deepEqual(users, [])
      assert.equal(await findToken(store.db, user, token), undefined)
      await assert.rejects(findAccount(store.db, { kind: 'user', ownerId: user }))
      const entries = await store.db.selectFrom('entries').select('seq').where('user_id', '=', user).execute()
      assert.deepEqual(entries, [])
      const notes = await store.db.selectFrom('audit').select('seq').where('target', '=', 'never').execute()
      assert.deepEqual(notes, [])
      assert.equal((await verifyEntries(store)).fault, undefined)
      assert.equal((await verifyAudit(store)).fault, undefined)
    })

    it('can be written after failed transactions, whether the gateway’s code or the engine failed', async () => {
      const broken = await Promise.allSettled([
        inTransaction(async () => {
          throw new Error('ours')
        }),
        inTransaction(trx => sql`select nonsense from nowhere`.execute(trx)),
        inTransaction(trx => makeToken(trx, 999_999_999)),
      ])
      assert.deepEqual(
        broken.map(each => each.status),
        ['rejected', 'rejected', 'rejected'],
      )
      const id = await inTransaction(trx => makeToken(trx, userId))
      assert.ok(await findToken(other.db, userId, id))
    })

    it('shows committed changes to every later read, on any connection', async () => {
      for (let round = 0; round < 20; round++) {
        const id = await inTransaction(trx => makeToken(trx, userId))
        const tokens = await Promise.all([
          ...(await times(4, () => findToken(store.db, userId, id))),
          findToken(other.db, userId, id),
        ])
        assert.deepEqual(
          tokens.map(token => token?.id),
          [id, id, id, id, id],
        )
      }
    })

    it('serves reads during an open transaction, without its changes', async () => {
      const reads = await inTransaction(async trx => {
        const id = await makeToken(trx, userId)
        const inside = await findToken(trx, userId, id)
        // Would wait forever if a read had to wait for the transaction.
        const outside = await Promise.race([
          findToken(store.db, userId, id),
          setTimeout(60_000, 'still waiting', { ref: false }),
        ])
        return { inside: inside?.id === id, outside }
      })
      assert.deepEqual(reads, { inside: true, outside: undefined })
    })

    it('executes 200 concurrent writes of two openers', async () => {
      const owner = await inTransaction(trx => makeUser(trx))
      const ids = await times(200, index =>
        inTransaction(trx => makeToken(trx, owner), index % 2 === 0 ? store : other),
      )
      assert.equal(new Set(ids).size, 200)
      const { items, total } = await listTokens(store.db, owner, {}, { page: 1, pageSize: 500 })
      assert.equal(total, 200)
      assert.deepEqual(
        items.map(token => token.id),
        ids.toSorted((a, b) => b - a),
      )
    })

    it('distinguishes a unique violation from every other error', async () => {
      const name = newName()
      await inTransaction(trx => makeUser(trx, name))
      const faultOf = (work: Promise<unknown>) =>
        work.then(
          () => assert.fail('it was taken'),
          (error: unknown) => error,
        )
      assert.equal(isUniqueViolation(await faultOf(inTransaction(trx => makeUser(trx, name)))), true)
      const keys = { key: 'registration', value: 'true', updated_time: 1, author_id: 1 }
      await store.db.insertInto('settings').values(keys).execute()
      assert.equal(
        isUniqueViolation(await faultOf(store.db.insertInto('settings').values(keys).execute())),
        true,
      )
      assert.equal(isUniqueViolation(await faultOf(inTransaction(trx => makeToken(trx, 999_999_999)))), false)
      assert.equal(isUniqueViolation(new Error('UNIQUE constraint failed')), false)
    })

    it('gives a name to one of two concurrent inserts, and reports a unique violation to the other', async () => {
      const name = newName()
      const outcomes = await Promise.allSettled([
        inTransaction(trx => makeUser(trx, name)),
        inTransaction(trx => makeUser(trx, name), other),
      ])
      const [lost, ...more] = outcomes.filter(each => each.status === 'rejected')
      assert.equal(more.length, 0)
      assert.equal(isUniqueViolation(lost?.reason), true)
    })

    it('never reuses an id, not even the highest', async () => {
      const first = await inTransaction(trx => makeToken(trx, userId))
      await inTransaction(trx => deleteTokens(trx, userId, [first]))
      const second = await inTransaction(trx => makeToken(trx, userId))
      assert.ok(second > first, `${second} after ${first}`)
      const rolledBack: number[] = []
      await assert.rejects(
        inTransaction(async trx => {
          rolledBack.push(await makeToken(trx, userId))
          throw new Error('no')
        }),
      )
      await inTransaction(trx => deleteTokens(trx, userId, [second]))
      assert.ok((await inTransaction(trx => makeToken(trx, userId))) > second)
    })

    it('refuses rows that reference missing rows', async () => {
      const orphan = inTransaction(trx => makeToken(trx, 999_999_999))
      await assert.rejects(orphan, /foreign key/i)
      await assert.rejects(
        store.db.insertInto('channel_models').values({ channel_id: 999_999_999, model: 'm' }).execute(),
        /foreign key/i,
      )
      // And a row that others reference cannot be deleted.
      const owner = await inTransaction(trx => makeUser(trx))
      await inTransaction(trx => makeToken(trx, owner))
      await assert.rejects(store.db.deleteFrom('users').where('id', '=', owner).execute(), /foreign key/i)
    })

    it('stores integers up to 8e15 exactly', async () => {
      const most = nanosOf(MAX_UNITS)
      assert.equal(most, 8_000_000_000_000_000)
      const owner = await inTransaction(trx => makeUser(trx))
      const account = { kind: 'user', ownerId: owner } as const
      for (const [amount, sum] of [
        [most - 1, most - 1],
        [1, most],
        [-3, most - 3],
      ] as const) {
        assert.equal(await inTransaction(trx => grant(trx, owner, amount)), true)
        assert.equal((await findAccount(store.db, account)).credited, sum)
      }
      const entries = await store.db
        .selectFrom('entries')
        .select('amount')
        .where('user_id', '=', owner)
        .orderBy('seq')
        .execute()
      assert.deepEqual(
        entries.map(entry => entry.amount),
        [most - 1, 1, -3],
      )
      const { total } = await store.db
        .selectFrom('entries')
        .where('user_id', '=', owner)
        .select(row => row.fn.sum<number>('amount').as('total'))
        .executeTakeFirstOrThrow()
      assert.equal(total, most - 3)
    })

    it('limits an account to the largest quota', async () => {
      const owner = await inTransaction(trx => makeUser(trx))
      assert.equal(await inTransaction(trx => grant(trx, owner, nanosOf(MAX_UNITS))), true)
      assert.equal(await inTransaction(trx => grant(trx, owner, 1)), false)
      assert.equal(
        (await findAccount(store.db, { kind: 'user', ownerId: owner })).credited,
        nanosOf(MAX_UNITS),
      )
    })

    it('pages through a list without gaps or repeats, in one order', async () => {
      const owner = await inTransaction(trx => makeUser(trx))
      const ids = await inTransaction(async trx => {
        const tokenIds: number[] = []
        for (let index = 0; index < 47; index++) tokenIds.push(await makeToken(trx, owner, 'the same name'))
        return tokenIds
      })
      const walked: number[] = []
      for (let page = 1; page <= 6; page++) {
        const { items, total } = await listTokens(store.db, owner, {}, { page, pageSize: 10 })
        assert.equal(total, 47)
        assert.equal(items.length, page < 5 ? 10 : page === 5 ? 7 : 0)
        walked.push(...items.map(token => token.id))
      }
      assert.deepEqual(walked, ids.toReversed())
    })

    it('stops counting at a million rows', async () => {
      const rows = await inTransaction(async trx => {
        await trx
          .insertInto('channels')
          .values({
            name: 'counted',
            type: 1,
            base_url: '',
            models: '[]',
            model_mapping: '{}',
            priority: 0,
            weight: 0,
            status: 1,
            status_reason: '',
            tag: null,
            channel_group: 'default',
            search: '',
            created_time: 1,
            test_time: 0,
            response_time: 0,
            used: 0,
            auto_ban: 1,
            test_model: '',
            param_override: '{}',
            header_override: '{}',
            status_code_mapping: '{}',
            setting: '{}',
            openai_organization: '',
            other: '',
            remark: '',
            limits: '{}',
            is_multi: 0,
          })
          .execute()
        const { id } = await trx.selectFrom('channels').select('id').executeTakeFirstOrThrow()
        const models = Array.from({ length: 101 }, (_, index) => ({ channel_id: id, model: `m${index}` }))
        await trx.insertInto('channel_models').values(models).execute()
        return models.length
      })
      const cubed = store.db
        .selectFrom(['channel_models as a', 'channel_models as b', 'channel_models as c'])
        .select('a.model')
      const squared = store.db.selectFrom(['channel_models as a', 'channel_models as b']).select('a.model')
      assert.equal(await boundedCount(store.db, squared), rows ** 2)
      assert.ok(rows ** 3 > 1_000_000)
      assert.equal(await boundedCount(store.db, cubed), 1_000_000)
    })

    it('treats %, _ and \\ in a search as literal characters', async () => {
      const owner = await inTransaction(trx => makeUser(trx))
      const called = ['100%', '100x', 'a_b', 'axb', 'back\\slash', 'backslash', '\\%_', "it's"]
      await inTransaction(async trx => {
        for (const name of called) await makeToken(trx, owner, name)
      })
      const searchTokenNames = async (keyword: string) => {
        const { items, total } = await listTokens(store.db, owner, { keyword }, { page: 1, pageSize: 50 })
        assert.equal(total, items.length)
        return items.map(token => token.name).toSorted()
      }
      assert.deepEqual(await searchTokenNames('%'), ['100%', '\\%_'])
      assert.deepEqual(await searchTokenNames('_'), ['\\%_', 'a_b'])
      assert.deepEqual(await searchTokenNames('\\'), ['\\%_', 'back\\slash'])
      assert.deepEqual(await searchTokenNames('a_b'), ['a_b'])
      assert.deepEqual(await searchTokenNames('\\%_'), ['\\%_'])
      assert.deepEqual(await searchTokenNames("'"), ["it's"])
      assert.deepEqual(await searchTokenNames('%%%'), [])
      assert.deepEqual(await searchTokenNames("' or '1'='1"), [])
    })

    it('never takes an account below zero under concurrent subtractions', async () => {
      const owner = await inTransaction(trx => makeUser(trx))
      await inTransaction(trx => grant(trx, owner, 300))
      const grantResults = await times(100, index =>
        inTransaction(trx => grant(trx, owner, -7), index % 2 === 0 ? store : other),
      )
      assert.equal(grantResults.filter(Boolean).length, Math.floor(300 / 7))
      const { credited, posted } = await findAccount(store.db, { kind: 'user', ownerId: owner })
      assert.equal(credited - posted, 300 % 7)
      const { count } = await store.db
        .selectFrom('entries')
        .where('user_id', '=', owner)
        .select(row => row.fn.countAll<number>().as('count'))
        .executeTakeFirstOrThrow()
      // Refused subtractions leave no entry.
      assert.equal(Number(count), 1 + Math.floor(300 / 7))
    })

    it('refuses a negative hold, even from code that does not check', async () => {
      const owner = await inTransaction(trx => makeUser(trx))
      const careless = store.db
        .updateTable('accounts')
        .set({ held: -1 })
        .where('kind', '=', 'user')
        .where('owner_id', '=', owner)
      await assert.rejects(careless.execute(), /check/i)
    })

    it('keeps both chains intact under concurrent writers of two openers', async () => {
      const owner = await inTransaction(trx => makeUser(trx))
      const before = { entries: await verifyEntries(store), audit: await verifyAudit(store) }
      const outcomes = await Promise.allSettled(
        Array.from({ length: 120 }, (_, index) =>
          inTransaction(
            async trx => {
              await grant(trx, owner, 1 + index)
              await note(trx, `user:${owner}`)
              // Some fail after taking a sequence number: the next writer must get it.
              if (index % 5 === 0) throw new Error('given up')
            },
            index % 2 === 0 ? store : other,
          ),
        ),
      )
      const landed = outcomes.filter(each => each.status === 'fulfilled').length
      assert.equal(landed, 96)
      const entries = await verifyEntries(store)
      const audit = await verifyAudit(other)
      assert.deepEqual([entries.fault, audit.fault], [undefined, undefined])
      assert.equal(entries.links, before.entries.links + landed)
      assert.equal(audit.links, before.audit.links + landed)
    })

    it('rejects queries once it is closed, instead of hanging', async () => {
      const closed = place.open()
      await closed.ping()
      await closed.close()
      await assert.rejects(closed.ping())
    })
  })
}

describe('the SQLite store', () => {
  let place: Place
  let store: Store
  let userId: number
  before(async () => {
    place = await createPlace('sqlite')
    store = place.open()
    userId = await addContent(store)
  })
  after(() => place.remove())

  const pragma = async ({ db }: Store, name: string) =>
    Object.values((await sql<Record<string, unknown>>`pragma ${sql.raw(name)}`.execute(db)).rows[0] ?? {})[0]

  it('reads with the writer’s thread if no file descriptor is free for another thread', async () => {
    const program = join(import.meta.dirname, '../support/busy-writer.ts')
    const command = ['-c', 'ulimit -n 200; exec "$0" "$1"', process.execPath, program]
    const { stdout } = await promisify(execFile)('sh', command)
    assert.deepEqual(JSON.parse(stdout), { count: 2 })
  })

  it('is opened in separate threads, never on the main thread', () => {
    const sources = globSync('src/**/*.ts').map(file => ({ file, text: readFileSync(file, 'utf8') }))
    const using = (pattern: RegExp) =>
      sources.filter(({ text }) => pattern.test(text)).map(({ file }) => file.replaceAll('\\', '/'))
    const loadsSqlite =
      /from 'node:sqlite'|import\('node:sqlite'\)|getBuiltinModule\((?!'node:(?:crypto|ffi|vm)'\))/
    assert.deepEqual(using(loadsSqlite), ['src/host/sqlite-open.ts'])
    // Other code opens other files, such as the lock; only the thread opens the store's.
    for (const file of using(/from '\.[^']*sqlite-open\.ts'/).filter(
      each => !each.endsWith('sqlite-thread.ts'),
    ))
      assert.doesNotMatch(readFileSync(file, 'utf8'), /sluice\.db/, file)
    assert.deepEqual(using(/from '\.[^']*sqlite-thread\.ts'/), ['src/store/engine/sqlite.ts'])
    const importsThreadAsType = sources.find(({ file }) => file.endsWith('store/engine/sqlite.ts'))
    assert.match(importsThreadAsType?.text ?? '', /import type [^\n]* from '\.\/sqlite-thread\.ts'/)
  })

  it('uses a write-ahead log, so that readers and the writer do not block each other', async () => {
    assert.equal(await pragma(store, 'journal_mode'), 'wal')
  })

  for (const [durability, synchronous] of [
    ['normal', 1],
    ['full', 2],
  ] as const) {
    it(`syncs according to SLUICE_DURABILITY=${durability}`, async () => {
      const dataDir = mkdtempSync(join(tmpdir(), 'sluice-store-'))
      const ground = await openStoreAndKeys(
        readConfig({
          SLUICE_DATA: dataDir,
          SLUICE_DURABILITY: durability,
          SLUICE_ROOT_PASSWORD: 'a password here',
        }),
      )
      try {
        assert.equal(await pragma(ground.store, 'synchronous'), synchronous)
        assert.equal(await pragma(ground.store, 'journal_mode'), 'wal')
        assert.equal(await pragma(ground.store, 'foreign_keys'), 1)
      } finally {
        await ground.close()
        rmSync(dataDir, { recursive: true, force: true })
      }
    })
  }

  it('leaves other transactions intact when a commit fails', async () => {
    const failing = () =>
      store.db.transaction().execute(async trx => {
        // A deferred foreign key makes the commit fail instead of the insert.
        await sql`pragma defer_foreign_keys = on`.execute(trx)
        await makeToken(trx, 999_999_999)
      })
    const counted = async () => {
      const { count } = await store.db
        .selectFrom('tokens')
        .select(row => row.fn.countAll<number>().as('count'))
        .executeTakeFirstOrThrow()
      return count
    }
    const start = await counted()
    const outcomes = await Promise.allSettled(
      Array.from({ length: 30 }, (_, index) =>
        index % 3 === 0
          ? failing()
          : store.db.transaction().execute(async trx => {
              const id = await makeToken(trx, userId)
              await note(trx, `token:${id}`)
              return id
            }),
      ),
    )
    for (const [index, outcome] of outcomes.entries()) {
      if (index % 3 !== 0) assert.equal(outcome.status, 'fulfilled', String(Reflect.get(outcome, 'reason')))
      else assert.match(String(Reflect.get(outcome, 'reason')), /FOREIGN KEY/)
    }
    assert.equal(await counted(), start + 20)
    assert.equal((await verifyAudit(store)).fault, undefined)
  })

  /** Another connection to the store, with the threads that it starts. */
  async function openWatched(t: TestContext) {
    await endSpareThreads()
    // It advances only with long reads, so how many threads are started does not depend on the machine.
    let nowMs = performance.now()
    t.mock.method(performance, 'now', () => nowMs)
    const threads: Worker[] = []
    const watch = (thread: Worker) => threads.push(thread)
    process.on('worker', watch)
    const watched = place.open()
    return {
      store: watched,
      threads,
      countUsers: async () => (await watched.db.selectFrom('users').select('id').execute()).length,
      /**
       * A read that takes much longer than a thread takes to start. The next read is sent before its result can arrive, because only
       * microtasks lie between.
       */
      async readLong(): Promise<{ readonly end: Promise<unknown> }> {
        const end = watched.db.selectFrom('users').select('id').execute()
        for (let count = 0; count < MICROTASKS_OF_A_READ; count++) await undefined
        nowMs += LONG_READ_MS
        return { end }
      },
      async close() {
        process.off('worker', watch)
        await watched.close()
      },
    }
  }
  /** After this, a thread with one read is busy. */
  const LONG_READ_MS = 60
  /** More than a read takes until it is sent to its thread. */
  const MICROTASKS_OF_A_READ = 200
  const MANY_READS = 20

  it('reads in the thread that writes while there is little to do, and never what is not committed', async t => {
    const { store: watched, threads, countUsers, readLong, close } = await openWatched(t)
    try {
      const start = await countUsers()
      await watched.db.transaction().execute(async trx => {
        await makeUser(trx)
        assert.equal(await countUsers(), start)
      })
      assert.equal(await countUsers(), start + 1)
      assert.equal(threads.length, 1)
      const counts = await Promise.all(Array.from({ length: MANY_READS }, countUsers))
      assert.deepEqual([...new Set(counts)], [start + 1])
      assert.equal(threads.length, 1, 'many short reads at once are soon done')
      const long = await readLong()
      assert.equal(await countUsers(), start + 1)
      assert.equal(threads.length, 2, 'a read that would wait for long has another thread')
      // The second thread has two reads that were sent while it started.
      await Promise.all([countUsers(), countUsers(), long.end])
      assert.equal(threads.length, 2)
    } finally {
      await close()
    }
  })

  it('leaves its thread to the next store, which sees nothing of the one before', async t => {
    const { threads, countUsers, close } = await openWatched(t)
    const dataDir = mkdtempSync(join(tmpdir(), 'sluice-store-'))
    const next = openStore({ engine: 'sqlite', path: join(dataDir, 'sluice.db'), fullSync: true })
    try {
      await countUsers()
      assert.equal(await pragma(store, 'synchronous'), 1)
      const started: Worker[] = []
      const watch = (thread: Worker) => started.push(thread)
      await close()
      process.on('worker', watch)
      assert.equal(await pragma(next, 'synchronous'), 2)
      await assert.rejects(next.db.selectFrom('users').select('id').execute(), /no such table/)
      process.off('worker', watch)
      assert.deepEqual([threads.length, started.length], [1, 0])
      await assert.rejects(countUsers(), /the store is closed|driver has already been destroyed/)
    } finally {
      await next.close()
      rmSync(dataDir, { recursive: true, force: true })
    }
  })

  it('replaces threads that die, and loses only open transactions', async t => {
    const { store: mortal, threads, countUsers, readLong, close } = await openWatched(t)
    const start = await countUsers()
    const long = await readLong()
    await Promise.all([countUsers(), long.end])
    assert.equal(threads.length, 2)
    const open = mortal.db.transaction().execute(async trx => {
      await makeUser(trx)
      await Promise.all(threads.map(thread => thread.terminate()))
      await makeUser(trx)
    })
    await assert.rejects(open, /the store is closed/)
    assert.equal(await countUsers(), start)
    await mortal.db.transaction().execute(trx => makeUser(trx))
    await makeUser(mortal.db as Trx)
    assert.equal(await countUsers(), start + 2)
    await close()
    await assert.rejects(countUsers())
  })

  for (const later of [0, 1, 2, 3])
    it(`starts no thread for a read that begins ${later} microtasks after it is closed`, async t => {
      const { threads, countUsers, readLong, close } = await openWatched(t)
      await countUsers()
      // The next read would start a thread.
      const long = await readLong()
      const closing = close()
      for (let count = 0; count < later; count++) await undefined
      // Whether the read has a result or an error, nothing is left open.
      await Promise.allSettled([countUsers(), long.end, closing])
      assert.equal(threads.length, 1)
    })

  it('reports a file that its thread cannot open, and does not hang', async () => {
    const path = join(tmpdir(), 'sluice-no-such-directory', 'sluice.db')
    const nowhere = openStore({ engine: 'sqlite', path, fullSync: false })
    const outcomes = await Promise.allSettled([
      nowhere.ping(),
      nowhere.migrate(),
      nowhere.isInitialised(),
      nowhere.db.transaction().execute(trx => makeUser(trx)),
    ])
    for (const outcome of outcomes) assert.match(String(Reflect.get(outcome, 'reason')), /unable to open/)
    await nowhere.close()
  })
})

describe('a connection to PostgreSQL that breaks', () => {
  let place: Place
  before(async () => {
    place = await createPlace('postgres')
  })
  after(() => place.remove())

  it('fails only its own transaction, even between two queries', async () => {
    const store = place.open()
    const userId = await addContent(store)
    const broken = store.db.transaction().execute(async trx => {
      const id = await makeToken(trx, userId)
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(trx)
      await sql`select pg_terminate_backend(${rows[0]?.pid})`.execute(store.db)
      // The disconnect arrives while the connection is idle.
      await until('the connection to end', async () => {
        const query = sql`select from pg_stat_activity where pid = ${rows[0]?.pid}`
        return (await query.execute(store.db)).rows.length === 0 ? true : undefined
      })
      return findToken(trx, userId, id)
    })
    await assert.rejects(broken, /terminat|connection/i)
    const id = await store.db.transaction().execute(trx => makeToken(trx, userId))
    const { items } = await listTokens(store.db, userId, {}, { page: 1, pageSize: 10 })
    assert.deepEqual(
      items.map(token => token.id),
      [id],
    )
  })
})

describe('transactions on PostgreSQL that could deadlock', () => {
  let place: Place
  before(async () => {
    place = await createPlace('postgres')
  })
  after(() => place.remove())

  /** PostgreSQL counts deadlocks when their connections are closed. */
  async function circlesMet(): Promise<number> {
    const store = place.open()
    const { rows } = await sql<{ deadlocks: number }>`
      select deadlocks from pg_stat_database where datname = current_database()`.execute(store.db)
    await store.close()
    return rows[0]?.deadlocks ?? Number.NaN
  }

  it('do not deadlock when several nodes settle requests of the same users in any order', async () => {
    const stores = [place.open(), place.open(), place.open()]
    const [first] = stores
    assert.ok(first)
    const userId = await addContent(first)
    const tokenIds: number[] = []
    for (let i = 0; i < 12; i++)
      tokenIds.push(await first.db.transaction().execute(trx => makeToken(trx, userId)))
    const settledFor = (tokenId: number, rid: string): Settled => ({
      rid,
      timeMs: 1_800_000_000_000,
      userId,
      tokenId,
      channelId: tokenId,
      cost: 5,
      overrun: 0,
      userLeased: 0,
      tokenLeased: 0,
      doubts: [],
      log: USAGE,
    })
    const rounds = 30
    await Promise.all(
      stores.map(async (store, node) => {
        const books = createBooks(store.db, 'postgres')
        await books.openNode(`n${node}`, 0, 0)
        for (let round = 1; round <= rounds; round++) {
          const shuffled = tokenIds.toSorted(
            (a, b) => ((a * (node + 2) + round) % 13) - ((b * (node + 2) + round) % 13),
          )
          const records = shuffled.map(id => settledFor(id, `r${node}-${round}-${id}`))
          const settled = Buffer.from(JSON.stringify(records))
          const place = { afterLsn: round - 1, lastLsn: round, oldestOpenLsn: round + 1 }
          await books.apply(`n${node}`, { settled, ...place })
        }
      }),
    )
    const { posted } = await findAccount(first.db, { kind: 'user', ownerId: userId })
    assert.equal(posted, 5 * tokenIds.length * rounds * stores.length)
    await Promise.all(stores.map(store => store.close()))
    assert.equal(await circlesMet(), 0)
  })

  it('send several statements at once, and fail with the error of the first one that fails', async () => {
    const store = place.open()
    await store.migrate()
    const one = { text: 'select $1::bigint as value', values: [1] }
    const wrong = { text: 'select 1 / $1::bigint as value', values: [0] }
    const insert = { text: 'insert into meta (key, value) values ($1, $2)', values: ['pipeline', 'yes'] }
    const { rows } = await transact(store.batchDb, trx => trx.executeQuery(pipelineOf([one, insert, one])))
    assert.deepEqual(rows, [
      { count: 1, rows: [{ value: 1 }] },
      { count: 1, rows: [] },
      { count: 1, rows: [{ value: 1 }] },
    ])
    const other = { ...insert, values: ['other', 'yes'] }
    await assert.rejects(
      transact(store.batchDb, trx => trx.executeQuery(pipelineOf([one, other, wrong, one]))),
      { code: '22012' },
    )
    // The same connection is used again, and its prepared statements with it.
    await transact(store.batchDb, trx => trx.executeQuery(pipelineOf([{ ...wrong, values: [1] }])))
    const keys = await store.db
      .selectFrom('meta')
      .select('key')
      .where('key', 'in', ['pipeline', 'other'])
      .execute()
    assert.deepEqual(keys, [{ key: 'pipeline' }])
  })

  it('are retried if they deadlock', async () => {
    const store = place.open()
    const userId = await addContent(store)
    const [leftId, right] = await store.db
      .transaction()
      .execute(async trx => [await makeToken(trx, userId), await makeToken(trx, userId)])
    let tries = 0
    const bothHold = Promise.withResolvers<void>()
    const rename = (ids: readonly (number | undefined)[], name: string) =>
      transact(store.db, async trx => {
        await updateToken(trx, ids[0] ?? 0, { name })
        if (++tries === 2) bothHold.resolve()
        await bothHold.promise
        await updateToken(trx, ids[1] ?? 0, { name })
      })
    await Promise.all([rename([leftId, right], 'one'), rename([right, leftId], 'other')])
    assert.ok(tries >= 3, `${tries} tries`)
    const { items } = await listTokens(store.db, userId, {}, { page: 1, pageSize: 10 })
    assert.equal(new Set(items.map(token => token.name)).size, 1)
    await store.close()
  })
})

describe('a PostgreSQL that cannot be reached', () => {
  it('fails every query, and closing succeeds', async () => {
    const nowhere = openStore({ engine: 'postgres', url: 'postgres://sluice:x@127.0.0.1:1/none' })
    const outcomes = await Promise.allSettled([nowhere.ping(), nowhere.migrate(), nowhere.isInitialised()])
    for (const outcome of outcomes) {
      const reason = outcome.status === 'rejected' && outcome.reason
      assert.ok(reason instanceof UnreachableError)
      assert.equal((reason.cause as NodeJS.ErrnoException).code, 'ECONNREFUSED')
    }
    await nowhere.close()
  })
})
