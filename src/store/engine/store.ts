import { Kysely, PostgresDialect, sql, type Transaction } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
import { UnreachableError } from '../../domain/errors.ts'
import { KeyedPostgresAdapter } from '../books/chain-key.ts'
import { foundation } from '../migrations/0001-foundation.ts'
import { books } from '../migrations/0002-books.ts'
import { videos } from '../migrations/0003-videos.ts'
import { folds } from '../migrations/0004-folds.ts'
import { tokenNames } from '../migrations/0005-token-names.ts'
import { leaseNumbers } from '../migrations/0006-lease-numbers.ts'
import { keyedChains } from '../migrations/0007-keyed-chains.ts'
import { vendorCosts } from '../migrations/0008-vendor-costs.ts'
import { priceActivations } from '../migrations/0009-price-activations.ts'
import { rejectedRequests } from '../migrations/0010-rejected-requests.ts'
import { explainedRequests } from '../migrations/0011-explained-requests.ts'
import { dismissals } from '../migrations/0012-dismissals.ts'
import { alerts } from '../migrations/0013-alerts.ts'
import { bodies } from '../migrations/0014-bodies.ts'
import { savedTests } from '../migrations/0015-saved-tests.ts'
import { heartbeats } from '../migrations/0016-heartbeats.ts'
import { rateShares } from '../migrations/0017-rate-shares.ts'
import { configHistory } from '../migrations/0020-config-history.ts'
import { imports } from '../migrations/0021-imports.ts'
import { partitions } from '../migrations/0022-partitions.ts'
import { canaries } from '../migrations/0024-canaries.ts'
import { channelSettingSecrets } from '../migrations/0025-channel-setting-secrets.ts'
import { bodyPages } from '../migrations/0026-body-pages.ts'
import { nodeSecrets } from '../migrations/0027-node-secrets.ts'
import { createPing, createPool, openPool } from './postgres.ts'
import type { Database, Engine } from './schema.ts'
import { createSqliteDialect, SqliteError } from './sqlite.ts'

export type { Engine }
/** The store, or a transaction of it: queries take either. */
export type Db = Kysely<Database>
export type Trx = Transaction<Database>

export type StoreOptions =
  | { engine: 'sqlite'; path: string; fullSync: boolean }
  | { engine: 'postgres'; url: string; maxConnections?: number }

/** A newer version has migrated the store to a schema that this version cannot serve. */
export class NewerStoreError extends Error {
  constructor(migration: string) {
    super(
      `the database was written by a newer Sluice (it has "${migration}"); start that version, or restore a backup`,
    )
    this.name = 'NewerStoreError'
  }
}

export const MIGRATIONS = {
  '0001-foundation': foundation,
  '0002-books': books,
  '0003-videos': videos,
  '0004-folds': folds,
  '0005-token-names': tokenNames,
  '0006-lease-numbers': leaseNumbers,
  '0007-keyed-chains': keyedChains,
  '0008-vendor-costs': vendorCosts,
  '0009-price-activations': priceActivations,
  '0010-rejected-requests': rejectedRequests,
  '0011-explained-requests': explainedRequests,
  '0012-dismissals': dismissals,
  '0013-alerts': alerts,
  '0014-bodies': bodies,
  '0015-saved-tests': savedTests,
  '0016-heartbeats': heartbeats,
  '0017-rate-shares': rateShares,
  '0020-config-history': configHistory,
  '0021-imports': imports,
  '0022-partitions': partitions,
  '0024-canaries': canaries,
  '0025-channel-setting-secrets': channelSettingSecrets,
  '0026-body-pages': bodyPages,
  '0027-node-secrets': nodeSecrets,
} as const satisfies Record<string, (db: Kysely<unknown>, engine: Engine) => Promise<void>>

/**
 * A program that knows this migration can serve the schema after all migrations above, because the later ones only add to
 * it. A migration that removes or changes something becomes the new floor (docs/operating/upgrades.md: Rolling upgrades).
 */
export const SCHEMA_FLOOR: keyof typeof MIGRATIONS = '0015-saved-tests'

/** The names of all migrations of this version, oldest first. */
export const MIGRATION_NAMES: readonly string[] = Object.keys(MIGRATIONS)

const PING_TIMEOUT_MS = 3_000
const MAINTENANCE_IDLE_MS = 30_000
const MAINTENANCE_CONNECT_MS = 10_000

class KeyedPostgresDialect extends PostgresDialect {
  override createAdapter() {
    return new KeyedPostgresAdapter()
  }
}

const openPostgres = (url: string, maxConnections: number, onTimeline: (timeline: string) => void) =>
  new Kysely<Database>({
    dialect: new KeyedPostgresDialect({ pool: () => openPool(url, { max: maxConnections }, onTimeline) }),
  })

const BATCH_IDLE_MS = 60_000

/**
 * One connection for the batches of settled requests. In the pool of the queries, batches would move between connections, and
 * each of them would have to parse and plan their statements.
 */
const openBatches = (url: string, onTimeline: (timeline: string) => void) =>
  new Kysely<Database>({
    dialect: new KeyedPostgresDialect({
      pool: () => openPool(url, { max: 1, idleTimeoutMillis: BATCH_IDLE_MS }, onTimeline),
    }),
  })

/** Without a limit of time. The server ends the statement if this process dies. */
const openMaintenance = (url: string) =>
  new Kysely<Database>({
    dialect: new KeyedPostgresDialect({
      pool: () =>
        createPool(url, {
          max: 1,
          connectionTimeoutMillis: MAINTENANCE_CONNECT_MS,
          statement_timeout: 0,
          idle_in_transaction_session_timeout: MAINTENANCE_IDLE_MS,
          idleTimeoutMillis: 0,
        }),
    }),
  })

const openSqlite = (path: string, fullSync: boolean) =>
  new Kysely<Database>({ dialect: createSqliteDialect({ path, fullSync }) })

/** Opens the store without reading it. */
export function openStore(options: StoreOptions) {
  let knownTimeline: string | undefined
  const failoverListeners = new Set<() => void>()
  function onTimeline(timeline: string): void {
    const isFailover = knownTimeline !== undefined && timeline !== knownTimeline
    knownTimeline = timeline
    if (isFailover) for (const listener of failoverListeners) listener()
  }
  const db =
    options.engine === 'sqlite'
      ? openSqlite(options.path, options.fullSync)
      : openPostgres(options.url, options.maxConnections ?? 10, onTimeline)
  const batchDb = options.engine === 'sqlite' ? db : openBatches(options.url, onTimeline)
  const { engine } = options
  const postgres = options.engine === 'postgres' ? createPing(options.url) : undefined

  async function pingSqlite(): Promise<void> {
    const signal = AbortSignal.timeout(PING_TIMEOUT_MS)
    await db.selectFrom('meta').select('key').limit(1).execute({ signal })
  }

  return {
    db,
    /** For batches of settled requests. */
    batchDb,
    engine,
    migrate: () => migrate(db, engine),
    /** Whether the store has been migrated before. Throws if a newer version did so, to a schema of another kind. */
    async isInitialised(): Promise<boolean> {
      await isNewer(db, await appliedMigrations(db, engine))
      return hasTable(db, engine, 'meta')
    },
    /** A connection of its own has read the timeline of PostgreSQL. */
    noteTimeline: onTimeline,
    /** Calls back when PostgreSQL has been replaced by another server, which may lack the last transactions. */
    onFailover: (listener: () => void) => void failoverListeners.add(listener),
    /** A connection to PostgreSQL for a statement that may take hours. */
    openMaintenance(): Db {
      if (options.engine !== 'postgres') throw new Error('only PostgreSQL has a maintenance connection')
      return openMaintenance(options.url)
    },
    /** Fails if the store does not respond in time. */
    ping: (): Promise<void> => (postgres ? postgres.ping() : pingSqlite()),
    async close(): Promise<void> {
      await postgres?.close()
      await batchDb.destroy()
      if (db !== batchDb) await db.destroy()
    },
  }
}

export type Store = ReturnType<typeof openStore>

/** Migrates the schema, unless every migration was made before. */
async function migrate(db: Db, engine: Engine): Promise<void> {
  const applied = await appliedMigrations(db, engine)
  if (await isNewer(db, applied)) return
  const isComplete = Object.keys(MIGRATIONS).every(name => applied.includes(name))
  if (!isComplete && !(await runMigrations(db, engine))) return
  if ((await readFloor(db)) !== SCHEMA_FLOOR)
    await db
      .insertInto('meta')
      .values({ key: FLOOR_KEY, value: SCHEMA_FLOOR })
      .onConflict(conflict => conflict.column('key').doUpdateSet({ value: SCHEMA_FLOOR }))
      .execute()
}

/**
 * Makes the missing migrations under a lock, so that several processes may start at once. Returns false if a newer program has
 * migrated the store meanwhile.
 */
async function runMigrations(db: Db, engine: Engine): Promise<boolean> {
  const migrations: Record<string, Migration> = Object.fromEntries(
    Object.entries(MIGRATIONS).map(([name, up]) => [name, { up: (trx: Kysely<unknown>) => up(trx, engine) }]),
  )
  const migrator = new Migrator({
    db,
    provider: { getMigrations: async () => migrations },
    // The names begin with numbers. Kysely's own comparison loads the rules of a language, which takes 13 ms.
    nameComparator: (a, b) => (a < b ? -1 : 1),
  })
  const { error } = await migrator.migrateToLatest()
  if (!error) return true
  if (await isNewer(db, await appliedMigrations(db, engine))) return false
  throw error
}

/** Kysely's introspection reads every column of every partition, so it is not used. */
async function hasTable(db: Db, engine: Engine, name: string): Promise<boolean> {
  const table =
    engine === 'postgres'
      ? sql`select 1 where to_regclass(${name}) is not null`
      : sql`select 1 from sqlite_master where type = 'table' and name = ${name}`
  return (await table.execute(db)).rows.length > 0
}

/** In `meta`. */
const FLOOR_KEY = 'schema_floor'

async function readFloor(db: Db): Promise<string | undefined> {
  const row = await db.selectFrom('meta').select('value').where('key', '=', FLOOR_KEY).executeTakeFirst()
  return row?.value
}

/** The names of the migrations that were made, the newest first. */
async function appliedMigrations(db: Db, engine: Engine): Promise<readonly string[]> {
  if (!(await hasTable(db, engine, 'kysely_migration'))) return []
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name desc`.execute(
    db,
  )
  return rows.map(({ name }) => name)
}

/** Whether a newer version has migrated the store. Throws if this version cannot serve its schema. */
async function isNewer(db: Db, [newest]: readonly string[]): Promise<boolean> {
  if (newest === undefined || newest in MIGRATIONS) return false
  const floor = await readFloor(db)
  if (floor === undefined || !(floor in MIGRATIONS)) throw new NewerStoreError(newest)
  return true
}

/** Compares PostgreSQL's error code, so that the driver need not be loaded for its error class. */
const isPostgres = (error: unknown, code: string) =>
  error instanceof Error && 'code' in error && error.code === code

const POSTGRES_DEADLOCK = '40P01'
const POSTGRES_LOCK_TIMEOUT = '55P03'

/** A lock was not granted within `lock_timeout`. */
export const isLockTimeout = (error: unknown): boolean =>
  error instanceof UnreachableError && isPostgres(error.cause, POSTGRES_LOCK_TIMEOUT)

/** The maximum number of attempts. In each round of a deadlock one of the transactions completes. */
const MAX_TRIES = 10

/**
 * Runs work in one transaction. PostgreSQL rolls back one of two deadlocked transactions, which is retried here. So side
 * effects of the work outside the transaction must be idempotent.
 */
export async function transact<Result>(db: Db, work: (trx: Trx) => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries++)
    try {
      return await db.transaction().execute(work)
    } catch (error) {
      if (!isPostgres(error, POSTGRES_DEADLOCK) || tries === MAX_TRIES) throw error
    }
}

const SQLITE_CONSTRAINT_UNIQUE = 2067
const SQLITE_CONSTRAINT_PRIMARYKEY = 1555
const POSTGRES_UNIQUE_VIOLATION = '23505'

/** A unique value was inserted by another transaction between our read and our write. */
export function isUniqueViolation(error: unknown): boolean {
  if (error instanceof SqliteError)
    return error.errcode === SQLITE_CONSTRAINT_UNIQUE || error.errcode === SQLITE_CONSTRAINT_PRIMARYKEY
  return isPostgres(error, POSTGRES_UNIQUE_VIOLATION)
}
