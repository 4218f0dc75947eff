import { sql } from 'kysely'
import type { Db, Trx } from '../engine/store.ts'
import { endOfPast, partitionTable } from './partition-table.ts'
import { listPartitions, pastOf } from './partitions.ts'
import { withShortLock } from './short-lock.ts'
import type { PartitionedTable } from './tables.ts'

/** Until the conversion, rows after the end of the future partition are refused: so it is far ahead. */
const AHEAD_S = 30 * 86_400
/** If less is left of it, because the conversion was interrupted, another end is chosen. */
const MIN_AHEAD_S = 7 * 86_400

const constraintOf = ({ name }: PartitionedTable) => `${name}_before`

type Constraint = { readonly is_valid: boolean; readonly end: number }

async function findConstraint(db: Db, table: PartitionedTable): Promise<Constraint | undefined> {
  const { rows } = await sql<{ is_valid: boolean; definition: string }>`
    select convalidated as is_valid, pg_get_constraintdef(oid) as definition from pg_constraint
    where conrelid = to_regclass(${table.name}) and conname = ${constraintOf(table)}`.execute(db)
  const [row] = rows
  return row && { is_valid: row.is_valid, end: Number(/< '?(\d+)/.exec(row.definition)?.[1]) }
}

async function dropConstraint(trx: Trx, table: PartitionedTable, of: string): Promise<void> {
  await sql`alter table ${sql.table(of)} drop constraint if exists ${sql.id(constraintOf(table))}`.execute(
    trx,
  )
}

/** Adds the constraint that proves the bound of the future partition. New rows are checked from now on, existing ones later. */
async function addConstraint(trx: Trx, table: PartitionedTable, end: number): Promise<void> {
  await dropConstraint(trx, table, table.name)
  await sql`alter table ${sql.table(table.name)} add constraint ${sql.id(constraintOf(table))}
    check (${sql.ref(table.time)} < ${sql.lit(end)}) not valid`.execute(trx)
}

type Conversion = {
  readonly db: Db
  /** A connection without a statement timeout. */
  readonly maintenance: Db
  readonly table: PartitionedTable
  readonly now: number
  pause(): Promise<void>
}

/** `lockedMs` is how long other statements on the table waited at most, after the lock was granted. */
export type Converted = { readonly table: string; readonly end: number; readonly lockedMs: number }

/** Runs a change of a table that is not partitioned yet, alone. False if another node has partitioned it. */
const changeTable = ({ db, table, pause }: Conversion, work: (trx: Trx) => Promise<void>): Promise<boolean> =>
  withShortLock(db, pause, async trx => {
    await sql`lock table only ${sql.table(table.name)} in access exclusive mode`.execute(trx)
    if ((await listPartitions(trx, table)).length > 0) return false
    await work(trx)
    return true
  })

/** Returns the end of the future partition, with a constraint that all rows are before it. Undefined if the table has partitions. */
async function prove(conversion: Conversion): Promise<number | undefined> {
  const { db, maintenance, table, now } = conversion
  const existing = await findConstraint(db, table)
  const isUsable = existing !== undefined && existing.end - now > MIN_AHEAD_S
  const end = isUsable ? existing.end : await endOfPast(maintenance, table, now + AHEAD_S)
  if (!isUsable && !(await changeTable(conversion, trx => addConstraint(trx, table, end)))) return undefined
  if (!existing?.is_valid || !isUsable)
    await sql`alter table ${sql.table(table.name)}
      validate constraint ${sql.id(constraintOf(table))}`.execute(maintenance)
  return end
}

/**
 * Partitions a table of any size while it is in use. All rows are read, without a lock that readers or writers notice. Then
 * the table is replaced in a transaction of milliseconds. Undefined if another node has done so.
 */
export async function convertTable(conversion: Conversion): Promise<Converted | undefined> {
  const { table } = conversion
  try {
    const end = await prove(conversion)
    if (end === undefined) return undefined
    let lockedMs = 0
    const isOurs = await changeTable(conversion, async trx => {
      const startMs = performance.now()
      await partitionTable(trx, table, end)
      await dropConstraint(trx, table, pastOf(table))
      lockedMs = performance.now() - startMs
    })
    return isOurs ? { table: table.name, end, lockedMs } : undefined
  } catch (error) {
    // Rows after its end would be refused, also those of an older version that does not know this conversion.
    await changeTable(conversion, trx => dropConstraint(trx, table, table.name)).catch(() => {})
    throw error
  }
}
