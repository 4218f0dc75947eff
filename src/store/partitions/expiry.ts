import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../engine/store.ts'
import { createLike, listPartitions, type Partition, pastOf } from './partitions.ts'
import { withShortLock } from './short-lock.ts'
import { LOGS, usageWidthS } from './tables.ts'

type Expiry = {
  readonly db: Db
  readonly before: number
  /** Rows of these types expire. Rows of other types are kept. */
  readonly types: readonly number[]
  pause(): Promise<void>
  /** False if the node stops, or another one runs the jobs of the fleet now. */
  isActive(): boolean
}

/** With fewer expired rows than this, `past` is not worth replacing. */
const MIN_EXPIRED = 1_000

async function hasManyExpired({ db, types }: Expiry, { name }: Partition): Promise<boolean> {
  const { rows } = await sql`select 1 from ${sql.table(name)} where type in (${sql.join([...types])})
    offset ${sql.lit(MIN_EXPIRED)} limit 1`.execute(db)
  return rows.length > 0
}

/** The partition of all early rows is replaced by an empty one, because old rows may be imported later. */
async function replacePast(trx: Trx, { to }: Partition): Promise<void> {
  await createLike(trx, LOGS, pastOf(LOGS))
  await sql`alter table logs attach partition ${sql.table(pastOf(LOGS))}
    for values from (minvalue) to (${sql.lit(to)})`.execute(trx)
}

const EXPIRED = 'logs_expired'

/**
 * All types but these, as ranges that the index of the rare types answers: the whole table is locked while rows are kept.
 * Literals, because PostgreSQL recognizes the partial index only by them.
 */
function rangesBetween(types: readonly number[]): RawBuilder<unknown>[] {
  const ends = [-Infinity, ...types.toSorted((a, b) => a - b), Infinity]
  return ends.slice(1).flatMap((end, at) => {
    const start = ends[at] as number
    if (end - start < 2) return []
    const above = sql`type > ${sql.lit(start)}`
    const below = sql`type < ${sql.lit(end)}`
    if (start === -Infinity) return [below]
    return [end === Infinity ? above : sql`${above} and ${below}`]
  })
}

/** False if another node has dropped it. Rows that are kept go to another partition. */
async function drop(trx: Trx, partition: Partition, { types }: Expiry): Promise<boolean> {
  await sql`lock table only logs in access exclusive mode`.execute(trx)
  const isThere = (await listPartitions(trx, LOGS)).some(
    ({ name, to }) => name === partition.name && to === partition.to,
  )
  if (!isThere) return false
  await sql`alter table logs detach partition ${sql.table(partition.name)}`.execute(trx)
  await sql`alter table ${sql.table(partition.name)} rename to ${sql.id(EXPIRED)}`.execute(trx)
  if (partition.kind === 'past') await replacePast(trx, partition)
  for (const keptTypes of rangesBetween(types))
    await sql`insert into logs select * from ${sql.table(EXPIRED)} where ${keptTypes}`.execute(trx)
  await sql`drop table ${sql.table(EXPIRED)}`.execute(trx)
  return true
}

/** Drops the partitions whose rows are all older than `before`. Returns their number. */
export async function dropExpired(expiry: Expiry): Promise<number> {
  let dropped = 0
  for (const partition of await listPartitions(expiry.db, LOGS)) {
    if (!expiry.isActive()) break
    if (partition.to > expiry.before) continue
    if (partition.kind === 'past' && !(await hasManyExpired(expiry, partition))) continue
    if (await withShortLock(expiry.db, expiry.pause, trx => drop(trx, partition, expiry))) dropped += 1
  }
  return dropped
}

/**
 * The tables whose expired rows are deleted one by one: the partitions that are not dropped as a whole, or that are wider than
 * the retention now asks for. Without partitions it is the whole table.
 */
export async function tablesToSweep(db: Db, retentionDays: number): Promise<string[]> {
  const partitions = await listPartitions(db, LOGS)
  if (partitions.length === 0) return [LOGS.name]
  const widthS = usageWidthS(retentionDays)
  return partitions
    .filter(({ kind, from, to }) => kind !== 'span' || to - from > widthS)
    .map(({ name }) => name)
}
