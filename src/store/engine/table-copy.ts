import { type RawBuilder, sql } from 'kysely'
import type { openDatabase } from '../../host/sqlite-open.ts'
import { chunksOf } from './chunks.ts'
import type { Db, Trx } from './store.ts'

/** A plain connection to an SQLite file that no other process has open. */
type File = ReturnType<typeof openDatabase>
export type StoredTable = {
  readonly name: string
  readonly columns: readonly string[]
  readonly hasOwnIds: boolean
  /** SQLite numbers its rows. */
  readonly hasRowIds: boolean
}
type Value = string | number | bigint | null | Uint8Array
export type StoredRow = Record<string, Value>

const ROWS_AT_ONCE = 500
/** Rows of these tables have up to a megabyte each. */
const LARGE_ROWS: ReadonlySet<string> = new Set(['bodies', 'body_pages', 'saved_tests'])
const LARGE_ROWS_AT_ONCE = 20
export const rowsAtOnce = (table: string) => (LARGE_ROWS.has(table) ? LARGE_ROWS_AT_ONCE : ROWS_AT_ONCE)

/** The tables of an SQLite file, each after the tables that it references. */
export function tablesOf(file: File): StoredTable[] {
  const tables = file
    .prepare(
      `SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
       AND name NOT LIKE 'kysely!_%' ESCAPE '!' AND name NOT LIKE 'backup!_%' ESCAPE '!' ORDER BY name`,
    )
    .all() as { name: string; sql: string }[]
  const parentsOf = (table: string) =>
    file
      .prepare('SELECT "table" AS parent FROM pragma_foreign_key_list(?)')
      .all(table)
      .map(({ parent }) => String(parent))
      .filter(parent => parent !== table)
  const sorted: string[] = []
  const place = (name: string): void => {
    if (sorted.includes(name)) return
    for (const parent of parentsOf(name)) place(parent)
    sorted.push(name)
  }
  for (const { name } of tables) place(name)
  return sorted.map(name => ({
    name,
    columns: file
      .prepare('SELECT name FROM pragma_table_info(?)')
      .all(name)
      .map(column => String(column.name)),
    hasOwnIds: /autoincrement/i.test(tables.find(table => table.name === name)?.sql ?? ''),
    hasRowIds: !/without rowid/i.test(tables.find(table => table.name === name)?.sql ?? ''),
  }))
}

const quoted = (name: string) => `"${name}"`

/** The last id that a table has assigned, also if its row was deleted: ids are never reused. */
const lastIdIn = async (trx: Trx, table: string): Promise<number> => {
  const { rows } = await sql<{ last: number | null }>`
    select pg_sequence_last_value(pg_get_serial_sequence(${table}, 'id')::regclass) as last`.execute(trx)
  return rows[0]?.last ?? 0
}

/** Copies PostgreSQL to an SQLite file of the same schema, from one snapshot. */
export async function copyFromPostgres(db: Db, file: File): Promise<void> {
  file.exec('PRAGMA foreign_keys = OFF')
  await db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async trx => {
      for (const { name, columns, hasOwnIds } of tablesOf(file)) {
        // Migrations insert default rows.
        file.exec(`DELETE FROM ${quoted(name)}`)
        const insert = file.prepare(
          `INSERT INTO ${quoted(name)} (${columns.map(quoted).join()}) VALUES (${columns.map(() => '?').join()})`,
        )
        await sql`declare rows_of_table no scroll cursor for select * from ${sql.table(name)}`.execute(trx)
        for (;;) {
          const { rows } =
            await sql<StoredRow>`fetch ${sql.lit(rowsAtOnce(name))} from rows_of_table`.execute(trx)
          file.exec('BEGIN')
          for (const row of rows) insert.run(...columns.map(column => row[column] ?? null))
          file.exec('COMMIT')
          if (rows.length < rowsAtOnce(name)) break
        }
        await sql`close rows_of_table`.execute(trx)
        if (!hasOwnIds) continue
        file.prepare('DELETE FROM sqlite_sequence WHERE name = ?').run(name)
        file
          .prepare('INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)')
          .run(name, await lastIdIn(trx, name))
      }
    })
}

/** Copies an SQLite file to an empty PostgreSQL of the same schema, in one transaction. */
export async function copyToPostgres(file: File, trx: Trx): Promise<void> {
  // Migrations insert default rows.
  for (const { name } of tablesOf(file).toReversed()) await sql`delete from ${sql.table(name)}`.execute(trx)
  for (const table of tablesOf(file)) {
    let some: StoredRow[] = []
    for (const row of file.prepare(`SELECT * FROM ${quoted(table.name)}`).iterate()) {
      some.push(row as StoredRow)
      if (some.length < rowsAtOnce(table.name)) continue
      await insertRows(trx, table, some)
      some = []
    }
    if (some.length > 0) await insertRows(trx, table, some)
    await setLastId(trx, file, table)
  }
}

/** PostgreSQL takes at most 65,535 parameters with a statement. */
const MAX_PARAMETERS = 60_000

export async function insertRows(
  trx: Trx,
  { name, columns }: Pick<StoredTable, 'name' | 'columns'>,
  rows: readonly StoredRow[],
): Promise<void> {
  const names = sql.join(columns.map(column => sql.ref(column)))
  for (const some of chunksOf(rows, Math.floor(MAX_PARAMETERS / columns.length))) {
    const lists: RawBuilder<unknown>[] = some.map(
      row => sql`(${sql.join(columns.map(column => row[column] ?? null))})`,
    )
    await sql`insert into ${sql.table(name)} (${names}) overriding system value values ${sql.join(lists)}`.execute(
      trx,
    )
  }
}

/** Ids are never reused, also those of deleted rows. */
export async function setLastId(trx: Trx, file: File, { name, hasOwnIds }: StoredTable): Promise<void> {
  const last = file.prepare('SELECT seq FROM sqlite_sequence WHERE name = ?').get(name)?.seq
  if (hasOwnIds && Number(last ?? 0) > 0)
    await sql`select setval(pg_get_serial_sequence(${name}, 'id')::regclass, ${Number(last)})`.execute(trx)
}
