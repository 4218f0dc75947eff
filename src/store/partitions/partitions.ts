import { type Kysely, sql } from 'kysely'
import type { Database } from '../engine/schema.ts'
import type { PartitionedTable } from './tables.ts'

/** `from` is inclusive, `to` is exclusive, in seconds. */
export type PartitionSpan = { readonly from: number; readonly to: number }

export type Partition = PartitionSpan & {
  readonly name: string
  /** `past` has the rows before all others, `rest` the rows that no other partition takes. */
  readonly kind: 'past' | 'span' | 'rest'
}

/** The partition of all rows before the first one, and PostgreSQL's default partition. */
export const pastOf = ({ name }: PartitionedTable) => `${name}_past`
export const restOf = ({ name }: PartitionedTable) => `${name}_rest`

const RANGE = /^FOR VALUES FROM \('?(MINVALUE|-?\d+)'?\) TO \('?(-?\d+)'?\)$/

function partitionOf({ name, bound }: { name: string; bound: string }): Partition {
  const [, from, to] = RANGE.exec(bound) ?? []
  if (from === undefined) return { name, kind: 'rest', from: -Infinity, to: Infinity }
  if (from === 'MINVALUE') return { name, kind: 'past', from: -Infinity, to: Number(to) }
  return { name, kind: 'span', from: Number(from), to: Number(to) }
}

/** The partitions of a table in order of time, `rest` last; none if the table is not partitioned yet. */
export async function listPartitions(db: Kysely<Database>, { name }: PartitionedTable): Promise<Partition[]> {
  const { rows } = await sql<{ name: string; bound: string }>`
    select child.relname as name, pg_get_expr(child.relpartbound, child.oid) as bound
    from pg_inherits join pg_class as child on child.oid = pg_inherits.inhrelid
    where pg_inherits.inhparent = to_regclass(${name}) and child.relispartition`.execute(db)
  return rows.map(partitionOf).sort((a, b) => a.to - b.to)
}

/** A table that can become a partition. */
export async function createLike(
  trx: Kysely<Database>,
  { name, key }: PartitionedTable,
  like: string,
): Promise<void> {
  await sql`create table ${sql.table(like)} (like ${sql.table(name)} including all)`.execute(trx)
  await sql`create unique index on ${sql.table(like)} (${sql.join(key.map(each => sql.ref(each)))})`.execute(
    trx,
  )
}
