import { Kysely, PostgresDialect, sql, type Transaction } from 'kysely'
import { type Migration, Migrator } from 'kysely/migration'
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
import { createPing, openPool } from './postgres.ts'
import type { Database, Engine } from './schema.ts'
import { createSqliteDialect, SqliteError } from './sqlite.ts'

export type { Engine }
/** The store, or a transaction of it: queries take either. */
export type Db = Kysely<Database>
export type Trx = Transaction<Database>

export type StoreOptions =
  | { engine: 'sqlite'; path: string; fullSync: boolean }
  | { engine: 'postgres'; url: string; maxConnections?: number }

/** A newer version has migrated the store, so this version must not change it. */
export class NewerStoreError extends Error {
  constructor(migration: string) {
    super(
      `the database was written by a newer Sluice (it has "${migration}"); start that version, or restore a backup`,
    )
    this.name = 'NewerStoreError'
  }
}

const MIGRATIONS = {
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
} as const satisfies Record<string, (db: Kysely<unknown>, engine: Engine) => Promise<void>>

const PING_TIMEOUT_MS = 3_000

class KeyedPostgresDialect extends PostgresDialect {
  override createAdapter() {
    return new KeyedPostgresAdapter()
  }
}

const openPostgres = (url: string, maxConnections: number) =>
  new Kysely<Database>({ dialect: new KeyedPostgresDialect({ pool: () => openPool(url, maxConnections) }) })

const openSqlite = (path: string, fullSync: boolean) =>
  new Kysely<Database>({ dialect: createSqliteDialect({ path, fullSync }) })

/** Opens the store without reading it. */
export function openStore(options: StoreOptions) {
  const db =
    options.engine === 'sqlite'
      ? openSqlite(options.path, options.fullSync)
      : openPostgres(options.url, options.maxConnections ?? 10)
  const { engine } = options
  const postgres = options.engine === 'postgres' ? createPing(options.url) : undefined

  async function pingSqlite(): Promise<void> {
    const signal = AbortSignal.timeout(PING_TIMEOUT_MS)
    await db.selectFrom('meta').select('key').limit(1).execute({ signal })
  }

  return {
    db,
    engine,
    migrate: () => migrate(db, engine),
    /** Whether the store has been migrated before. Throws if a newer version did so. */
    async isInitialised(): Promise<boolean> {
      await refuseNewer(db)
      const tables = await db.introspection.getTables()
      return tables.some(table => table.name === 'meta')
    },
    /** Fails if the store does not respond in time. */
    ping: (): Promise<void> => (postgres ? postgres.ping() : pingSqlite()),
    async close(): Promise<void> {
      await postgres?.close()
      await db.destroy()
    },
  }
}

export type Store = ReturnType<typeof openStore>

/** Migrates the schema under a lock, so that several processes may start at once. */
async function migrate(db: Db, engine: Engine): Promise<void> {
  const migrations: Record<string, Migration> = Object.fromEntries(
    Object.entries(MIGRATIONS).map(([name, up]) => [name, { up: (trx: Kysely<unknown>) => up(trx, engine) }]),
  )
  await refuseNewer(db)
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } })
  const { error } = await migrator.migrateToLatest()
  if (error) throw error
}

async function refuseNewer(db: Db): Promise<void> {
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true })
  if (!tables.some(table => table.name === 'kysely_migration')) return
  const { rows } = await sql<{
    name: string
  }>`select name from kysely_migration order by name desc limit 1`.execute(db)
  const newest = rows[0]?.name
  if (newest !== undefined && !(newest in MIGRATIONS)) throw new NewerStoreError(newest)
}

/** Compares PostgreSQL's error code, so that the driver need not be loaded for its error class. */
const isPostgres = (error: unknown, code: string) =>
  error instanceof Error && 'code' in error && error.code === code

const POSTGRES_DEADLOCK = '40P01'
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
