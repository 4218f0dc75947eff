import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { openDatabase } from '../../host/sqlite-open.ts'
import { readMeta, writeMeta } from './meta.ts'
import { type Db, type Trx, transact } from './store.ts'
import {
  insertRows,
  rowsAtOnce,
  type StoredRow,
  type StoredTable,
  setLastId,
  tablesOf,
} from './table-copy.ts'

/** A connection to an SQLite file that no other process changes meanwhile. */
type File = ReturnType<typeof openDatabase>

/** How far the copy is. It is stored in the target, in the transactions that copy the rows. */
type CopyState = {
  /** Identifies the source and its state. */
  readonly source: string
  /** The last copied row of each table; `true` if the table is complete. */
  readonly tables: Readonly<Record<string, number | true>>
}

const META = 'meta'
const STATE_KEY = 'copy_state'
/** The source of a complete copy. */
const SOURCE_KEY = 'moved_from'
/** Written by the copy, or changed by `verify`. */
const UNCOMPARED_KEYS: ReadonlySet<unknown> = new Set([STATE_KEY, SOURCE_KEY, 'last_verify'])

/** Every start of the gateway and every change through the API or a command changes one of these rows. */
function fingerprintOf(file: File): string {
  const rows = [
    ...file.prepare('SELECT name, seq, hash FROM chains ORDER BY name').all(),
    ...file.prepare('SELECT id, epoch, applied_lsn FROM nodes ORDER BY id').all(),
  ]
  return createHash('sha256').update(JSON.stringify(rows)).digest('hex')
}

export const isIncompleteCopy = async (db: Db): Promise<boolean> =>
  (await readMeta(db, STATE_KEY)) !== undefined

export const endCopy = (file: File, db: Db) =>
  transact(db, async trx => {
    await trx.deleteFrom(META).where('key', '=', STATE_KEY).execute()
    await writeMeta(trx, SOURCE_KEY, fingerprintOf(file))
  })

/** Whether the database is a complete copy of the file, which has not changed since. The copy may be in use. */
export const isCopyOf = async (file: File, db: Db): Promise<boolean> =>
  (await readMeta(db, SOURCE_KEY)) === fingerprintOf(file)

async function readState(db: Db): Promise<CopyState | undefined> {
  const text = await readMeta(db, STATE_KEY)
  return text === undefined ? undefined : JSON.parse(text)
}

/** `meta` is last: it has the state of the copy, and without its keys the target is no gateway. */
const orderOf = (file: File) =>
  tablesOf(file).sort((a, b) => Number(a.name === META) - Number(b.name === META))

async function startCopy(db: Db, tables: readonly StoredTable[], source: string): Promise<CopyState> {
  const state: CopyState = { source, tables: {} }
  await transact(db, async trx => {
    // Migrations insert default rows, and an earlier copy may have ended halfway.
    for (const { name } of tables.toReversed()) await sql`delete from ${sql.table(name)}`.execute(trx)
    await writeMeta(trx, STATE_KEY, JSON.stringify(state))
  })
  return state
}

export type CopyProgress = { readonly table: string; readonly rows: number }

/**
 * Copies an SQLite file to a PostgreSQL of the same schema, in batches. A copy that was interrupted continues where it ended,
 * if the source has not changed since; otherwise it starts again.
 */
export async function copyStore(
  file: File,
  db: Db,
  onProgress: (progress: CopyProgress) => void,
): Promise<{ readonly isResumed: boolean }> {
  const tables = orderOf(file)
  const source = fingerprintOf(file)
  const previous = await readState(db)
  const isResumed = previous?.source === source
  let state = isResumed ? previous : await startCopy(db, tables, source)

  async function save(trx: Trx, name: string, position: number | true): Promise<CopyState> {
    const next = { ...state, tables: { ...state.tables, [name]: position } }
    await writeMeta(trx, STATE_KEY, JSON.stringify(next))
    return next
  }

  for (const table of tables) {
    if (state.tables[table.name] === true) continue
    let rows = 0
    for (const batch of batchesOf(file, table, Number(state.tables[table.name] ?? 0))) {
      state = await transact(db, async trx => {
        if (table.name === META) await trx.deleteFrom(META).where('key', '<>', STATE_KEY).execute()
        await insertRows(trx, table, batch.rows)
        return save(trx, table.name, batch.last)
      })
      rows += batch.rows.length
    }
    state = await transact(db, async trx => {
      await setLastId(trx, file, table)
      return save(trx, table.name, true)
    })
    onProgress({ table: table.name, rows })
  }
  return { isResumed }
}

type RowBatch = { readonly rows: readonly StoredRow[]; readonly last: number }

const POSITION = 'copied_row_position'

/** The rows of a table in batches. Tables without row ids are small and one batch. */
function* batchesOf(file: File, { name, hasRowIds }: StoredTable, after: number): Generator<RowBatch> {
  if (!hasRowIds || name === META) {
    const rows = file.prepare(`SELECT * FROM "${name}"`).all() as StoredRow[]
    if (rows.length > 0) yield { rows, last: 0 }
    return
  }
  const size = rowsAtOnce(name)
  const select = file.prepare(
    `SELECT rowid AS ${POSITION}, * FROM "${name}" WHERE rowid > ? ORDER BY rowid LIMIT ${size}`,
  )
  for (let last = after; ; ) {
    const rows = select.all(last) as StoredRow[]
    if (rows.length === 0) return
    last = Number(rows.at(-1)?.[POSITION])
    yield { rows, last }
    if (rows.length < size) return
  }
}

/** A digest of rows that does not depend on their order, because the engines sort text differently. */
function createRowSum(columns: readonly string[]) {
  let count = 0
  let sum = 0n
  const text = (value: unknown) =>
    value instanceof Uint8Array ? { bytes: Buffer.from(value).toString('base64') } : (value ?? null)
  return {
    add(row: StoredRow): void {
      const line = JSON.stringify(columns.map(column => text(row[column])))
      count += 1
      sum = BigInt.asUintN(
        128,
        sum + BigInt(`0x${createHash('sha256').update(line).digest('hex').slice(0, 32)}`),
      )
    },
    result: () => `${count} rows, ${sum.toString(16)}`,
  }
}

const isCompared = (table: string, row: StoredRow) => table !== META || !UNCOMPARED_KEYS.has(row.key)

function sumInFile(file: File, { name, columns }: StoredTable): string {
  const sum = createRowSum(columns)
  for (const row of file.prepare(`SELECT * FROM "${name}"`).iterate())
    if (isCompared(name, row as StoredRow)) sum.add(row as StoredRow)
  return sum.result()
}

async function sumInPostgres(trx: Trx, { name, columns }: StoredTable): Promise<string> {
  const sum = createRowSum(columns)
  await sql`declare rows_to_compare no scroll cursor for select * from ${sql.table(name)}`.execute(trx)
  for (;;) {
    const { rows } = await sql<StoredRow>`fetch ${sql.lit(rowsAtOnce(name))} from rows_to_compare`.execute(
      trx,
    )
    for (const row of rows) if (isCompared(name, row)) sum.add(row)
    if (rows.length === 0) break
  }
  await sql`close rows_to_compare`.execute(trx)
  return sum.result()
}

/**
 * The tables whose rows differ, with what each side has. The file is read outside of transactions, because PostgreSQL ends a
 * transaction that is idle for long.
 */
export async function compareStores(file: File, db: Db): Promise<string[]> {
  const differences: string[] = []
  for (const table of orderOf(file)) {
    const before = sumInFile(file, table)
    const after = await db.transaction().execute(trx => sumInPostgres(trx, table))
    if (before !== after) differences.push(`${table.name}: ${before} in SQLite, ${after} in PostgreSQL`)
  }
  return differences
}
