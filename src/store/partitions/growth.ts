import { sql } from 'kysely'
import type { Db, Trx } from '../engine/store.ts'
import { createLike, listPartitions, type PartitionSpan, restOf } from './partitions.ts'
import { withShortLock } from './short-lock.ts'
import { nextDay, type PartitionedTable } from './tables.ts'

/** For example `logs_20261117`, by the day of its start. */
const nameOf = ({ name }: PartitionedTable, { from }: PartitionSpan) =>
  `${name}_${new Date(from * 1000).toISOString().slice(0, 10).replaceAll('-', '')}`

/** The most rows that are moved out of `rest` for a new partition: all writers of `rest` wait meanwhile. */
const MAX_MOVED = 200_000

const within = ({ time }: PartitionedTable, { from, to }: PartitionSpan) =>
  sql`${sql.ref(time)} >= ${from} and ${sql.ref(time)} < ${to}`

async function hasMoreThan(
  trx: Trx,
  table: PartitionedTable,
  span: PartitionSpan,
  most: number,
): Promise<boolean> {
  const { rows } = await sql`select 1 from ${sql.table(restOf(table))} where ${within(table, span)}
    offset ${sql.lit(most)} limit 1`.execute(trx)
  return rows.length > 0
}

/** Moves the rows of the span out of `rest` first: PostgreSQL refuses a partition whose rows are there. */
async function attach(trx: Trx, table: PartitionedTable, span: PartitionSpan): Promise<string> {
  const name = nameOf(table, span)
  await createLike(trx, table, name)
  // ATTACH locks it too, but then a row could have been inserted in between.
  await sql`lock table ${sql.table(restOf(table))} in access exclusive mode`.execute(trx)
  await sql`with moved as (delete from ${sql.table(restOf(table))} where ${within(table, span)} returning *)
    insert into ${sql.table(name)} select * from moved`.execute(trx)
  await sql`alter table ${sql.table(table.name)} attach partition ${sql.table(name)}
    for values from (${sql.lit(span.from)}) to (${sql.lit(span.to)})`.execute(trx)
  return name
}

/** Partitions exist for at least this time. If none can be made for longer, rows go to `rest`. */
const AHEAD_S = 8 * 86_400

type Growth = {
  readonly db: Db
  readonly table: PartitionedTable
  readonly widthS: number
  readonly now: number
  pause(): Promise<void>
  readonly maxMoved?: number
}

/** The next partition that is due, or where to look for the one after it. Undefined if enough exist. */
async function addNext(
  trx: Trx,
  { table, widthS, now, maxMoved = MAX_MOVED }: Growth,
  notBefore: number,
): Promise<{ readonly name?: string; readonly to: number } | undefined> {
  // Excludes other nodes that make partitions, and neither reads nor writes.
  await sql`lock table only ${sql.table(table.name)} in share update exclusive mode`.execute(trx)
  const last = (await listPartitions(trx, table)).findLast(({ kind }) => kind !== 'rest')
  if (!last) return undefined
  const from = Math.max(notBefore, last.to)
  if (from >= now + AHEAD_S) return undefined
  const span = { from, to: from + widthS }
  if (await hasMoreThan(trx, table, span, maxMoved)) return { to: from > now ? span.to : nextDay(now) }
  return { name: await attach(trx, table, span), to: span.to }
}

/**
 * Makes the partitions of the next days, each in a transaction of its own. Several nodes may do so at once. A span with too many
 * rows in `rest` gets no partition: its rows stay there.
 */
export async function addPartitions(growth: Growth): Promise<string[]> {
  const names: string[] = []
  for (let from = -Infinity; ; ) {
    const next = await withShortLock(growth.db, growth.pause, trx => addNext(trx, growth, from))
    if (!next) return names
    if (next.name !== undefined) names.push(next.name)
    from = next.to
  }
}
