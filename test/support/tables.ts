import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type CompiledQuery, type Kysely, PostgresAdapter, sql } from 'kysely'

// biome-ignore lint/suspicious/noExplicitAny: rows of any table
type AnyDb = Kysely<any>
type Row = Readonly<Record<string, unknown>>

/** Columns that a read changes: when a credential was last used. */
const TOUCHED: Readonly<Record<string, readonly string[]>> = {
  access_tokens: ['last_used_time'],
  sessions: ['last_seen_time'],
}

/** Rows that are written later: of rejected requests within a quarter of a second, of alerts and nodes by their timers. */
const WRITTEN_LATER: Readonly<Record<string, string>> = {
  logs: 'channel_id = 0 and type in (4, 5)',
  rollups: 'channel_id = 0',
  meta: "key like 'rejections %'",
  alert_states: '1 = 1',
  alert_deliveries: '1 = 1',
  alert_leases: '1 = 1',
  node_heartbeats: '1 = 1',
  rate_shares: '1 = 1',
  sign_in_failures: '1 = 1',
}

type Table = { readonly name: string; readonly columns: readonly string[] }
const tablesOf = new WeakMap<AnyDb, readonly Table[]>()

/** The tables that are partitions of others. SQLite has none. */
export async function partitionNames(db: AnyDb): Promise<ReadonlySet<string>> {
  if (!(db.getExecutor().adapter instanceof PostgresAdapter)) return new Set()
  const { rows } = await sql<{ name: string }>`
    select relname as name from pg_class where relispartition`.execute(db)
  return new Set(rows.map(({ name }) => name))
}

/** Read once: the tables of an open store do not change, and the query is expensive. */
async function tablesIn(db: AnyDb): Promise<readonly Table[]> {
  const cachedTables = tablesOf.get(db)
  if (cachedTables) return cachedTables
  const tableMetadata = await db.introspection.getTables({ withInternalKyselyTables: true })
  const partitions = await partitionNames(db)
  const tables = tableMetadata
    // Their rows are those of the partitioned table.
    .filter(({ name }) => !partitions.has(name))
    .map(({ name, columns }) => ({ name, columns: columns.map(column => column.name) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
  tablesOf.set(db, tables)
  return tables
}

/** Every row of every table, on either engine: what an attacker with the database would read. */
export async function allRows(db: AnyDb): Promise<Map<string, Row[]>> {
  const tables = await tablesIn(db)
  const read = async (name: string) => (await sql<Row>`select * from ${sql.table(name)}`.execute(db)).rows
  return new Map(await Promise.all(tables.map(async ({ name }) => [name, await read(name)] as const)))
}

/** A row as one unambiguous text: null differs from the empty text, and a number from its digits. */
function lineOf({ name, columns }: Table, isPostgres: boolean) {
  const columnRefs = columns.filter(column => !TOUCHED[name]?.includes(column)).map(column => sql.ref(column))
  return isPostgres
    ? sql`row(${sql.join(columnRefs)})::text`
    : sql.join(
        columnRefs.map(column => sql`quote(${column})`),
        sql` || ',' || `,
      )
}

type TableRows = { readonly name: string; readonly count: number; readonly rows: string }
const queriesOf = new WeakMap<AnyDb, CompiledQuery<TableRows>>()

/**
 * The rows of a table as one text. SQLite keeps their order. PostgreSQL moves a row that it changes, so it adds up hashes of the
 * rows, which have no order.
 */
function rowsOf(table: Table, isPostgres: boolean) {
  const line = lineOf(table, isPostgres)
  return isPostgres
    ? sql`coalesce(sum(hashtextextended(${line}, 0)), 0)::text`
    : sql`coalesce(group_concat(${line}, char(10)), '')`
}

/** All tables in one query. It runs thousands of times, and building it takes longer than running it. */
function queryOf(tables: readonly Table[], isPostgres: boolean) {
  const parts = tables.map(
    table =>
      sql`select ${sql.lit(table.name)} as name, count(*) as count, ${rowsOf(table, isPostgres)} as rows
        from ${sql.table(table.name)} where not (${sql.raw(WRITTEN_LATER[table.name] ?? '1 = 0')})`,
  )
  return sql<TableRows>`${sql.join(parts, sql` union all `)}`
}

/** In PostgreSQL, planning the query takes most of its time. A function keeps the plan. */
async function storeQuery(db: AnyDb, query: string): Promise<CompiledQuery<TableRows>> {
  await sql`
    create or replace function digests_of_tests() returns table (name text, count bigint, rows text) language plpgsql as $digests$
    #variable_conflict use_column
    begin return query ${sql.raw(query)}; end $digests$`.execute(db)
  return sql<TableRows>`select * from digests_of_tests()`.compile(db)
}

async function compiledQuery(db: AnyDb): Promise<CompiledQuery<TableRows>> {
  const cachedQuery = queriesOf.get(db)
  if (cachedQuery) return cachedQuery
  const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter
  const query = queryOf(await tablesIn(db), isPostgres).compile(db)
  const compiled = isPostgres ? await storeQuery(db, query.sql) : query
  queriesOf.set(db, compiled)
  return compiled
}

/**
 * How many rows each table has, and a digest of them: equal before and after means that nothing was written.
 */
export async function tableDigests(db: AnyDb): Promise<Record<string, string>> {
  const { rows: tables } = await db.executeQuery(await compiledQuery(db))
  return Object.fromEntries(
    tables.map(({ name, count, rows }) => [
      name,
      `${count} rows, ${createHash('sha256').update(rows).digest('hex').slice(0, 16)}`,
    ]),
  )
}

/** A value that changes with every write to the store. It may change without one too. */
type WritePosition = { readonly read: () => Promise<unknown>; readonly close: () => void }

function writePositionOf(db: AnyDb, dataDir: string): WritePosition {
  if (db.getExecutor().adapter instanceof PostgresAdapter) {
    // That of the whole server: a write to the database of another test changes it too.
    const query = sql<{ position: string }>`select pg_current_wal_insert_lsn()::text as position`.compile(db)
    return { read: async () => (await db.executeQuery(query)).rows[0]?.position, close() {} }
  }
  // Its own commits do not change it, so this connection only reads.
  const connection = new DatabaseSync(join(dataDir, 'sluice.db'), { readOnly: true })
  const version = connection.prepare('pragma data_version')
  return { read: async () => version.get()?.data_version, close: () => connection.close() }
}

/** Digests of the tables of a gateway for many comparisons: the tables are read again only after a write. */
export function createTableDigests({ db, dataDir }: { readonly db: AnyDb; readonly dataDir: string }) {
  const position = writePositionOf(db, dataDir)
  let last: { readonly position: unknown; readonly digests: Record<string, string> } | undefined
  return {
    async read(): Promise<Record<string, string>> {
      // Before the tables: after a write in between, the next call reads them again.
      const now = await position.read()
      if (last === undefined || last.position !== now)
        last = { position: now, digests: await tableDigests(db) }
      return last.digests
    },
    close: position.close,
  }
}

export type TableDigests = ReturnType<typeof createTableDigests>
