import { type Kysely, sql } from 'kysely'
import type { Database, Engine } from '../engine/schema.ts'
import { endOfPast, partitionTable } from '../partitions/partition-table.ts'
import { PARTITIONED_TABLES, type PartitionedTable } from '../partitions/tables.ts'

/** Reading this many rows takes milliseconds. Larger tables are converted later, by a job, while they are in use. */
const MAX_ROWS = 10_000

async function isSmall(db: Kysely<unknown>, { name }: PartitionedTable): Promise<boolean> {
  const { rows } = await sql`select 1 from ${sql.table(name)} offset ${sql.lit(MAX_ROWS)} limit 1`.execute(db)
  return rows.length === 0
}

/** Partitions usage rows and ledger entries by time on PostgreSQL (ADR 30). */
export async function partitions(db: Kysely<unknown>, engine: Engine): Promise<void> {
  if (engine === 'sqlite') return
  const trx = db as Kysely<Database>
  const now = Math.floor(Date.now() / 1000)
  for (const table of PARTITIONED_TABLES) {
    if (!(await isSmall(db, table))) continue
    await sql`lock table ${sql.table(table.name)} in access exclusive mode`.execute(db)
    await partitionTable(trx, table, await endOfPast(trx, table, now))
  }
}
