import { createHash } from 'node:crypto'
import { type Kysely, sql } from 'kysely'

// biome-ignore lint/suspicious/noExplicitAny: any database, looked at from outside
type AnyDb = Kysely<any>
type Row = Readonly<Record<string, unknown>>

/** Written down by merely looking: when a credential was last seen. */
const TOUCHED: Readonly<Record<string, readonly string[]>> = {
  access_tokens: ['last_used_time'],
  sessions: ['last_seen_time'],
}

const namesOf = new WeakMap<AnyDb, readonly string[]>()

/** Asked once: an open store's tables stay the same, and the question is a dear one. */
async function tableNames(db: AnyDb): Promise<readonly string[]> {
  const known = namesOf.get(db)
  if (known) return known
  const tables = await db.introspection.getTables({ withInternalKyselyTables: true })
  const names = tables.map(table => table.name).sort()
  namesOf.set(db, names)
  return names
}

/** Every row of every table, whatever the engine: what a thief of the database would read. */
export async function allRows(db: AnyDb): Promise<Map<string, Row[]>> {
  const names = await tableNames(db)
  const read = async (name: string) => (await sql<Row>`select * from ${sql.table(name)}`.execute(db)).rows
  return new Map(await Promise.all(names.map(async name => [name, await read(name)] as const)))
}

const withoutTouched = (table: string, row: Row) =>
  Object.fromEntries(Object.entries(row).filter(([column]) => !TOUCHED[table]?.includes(column)))

/** How many rows each table has, and a digest of them: equal before and after means that nothing was written. */
export async function tableDigests(db: AnyDb): Promise<Record<string, string>> {
  const digests: Record<string, string> = {}
  for (const [table, rows] of await allRows(db)) {
    const lines = rows.map(row => JSON.stringify(withoutTouched(table, row))).sort()
    const digest = createHash('sha256').update(lines.join('\n')).digest('hex').slice(0, 16)
    digests[table] = `${rows.length} rows, ${digest}`
  }
  return digests
}
