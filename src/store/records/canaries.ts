import { sql } from 'kysely'
import type { CanaryKind, CanarySide, CanaryState } from '../../domain/canary.ts'
import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { CanaryRow, CanarySumsRow, NewCanary } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

/** Canaries (docs/reference/canary.md: States). */

export const findCanary = (db: Db, id: number): Promise<CanaryRow | undefined> =>
  db.selectFrom('canaries').selectAll().where('id', '=', id).executeTakeFirst()

/** The canaries that the relay takes into account. */
export const listRunningCanaries = (db: Db): Promise<CanaryRow[]> =>
  db
    .selectFrom('canaries')
    .selectAll()
    .where('ended_time', 'is', null)
    .where('state', '=', 'running')
    .orderBy('id')
    .execute()

/** Those that are running or paused, of these subjects or of all. */
export function listOpenCanaries(
  db: Db,
  kind: CanaryKind,
  subjects?: readonly string[],
): Promise<CanaryRow[]> {
  const open = db.selectFrom('canaries').selectAll().where('ended_time', 'is', null).where('kind', '=', kind)
  return (subjects ? open.where('subject', 'in', ['', ...subjects]) : open).orderBy('id').execute()
}

type CanaryFilter = {
  readonly kind?: CanaryKind | undefined
  readonly state?: CanaryState | 'open' | undefined
  readonly subject?: string | undefined
}

/** Newest first. */
export function listCanaries(
  db: Db,
  { kind, state, subject }: CanaryFilter,
  paging: Paging,
): Promise<Page<CanaryRow>> {
  let query = db.selectFrom('canaries')
  if (kind !== undefined) query = query.where('kind', '=', kind)
  if (subject !== undefined) query = query.where('subject', '=', subject)
  if (state === 'open') query = query.where('ended_time', 'is', null)
  else if (state !== undefined) query = query.where('state', '=', state)
  return pageOf(query.selectAll().orderBy('id', 'desc'), boundedCount(db, query.select('id')), paging)
}

export async function insertCanary(trx: Trx, canary: Omit<NewCanary, 'id'>): Promise<number> {
  const { id } = await trx.insertInto('canaries').values(canary).returning('id').executeTakeFirstOrThrow()
  return id
}

export type CanaryChange = Partial<
  Pick<
    CanaryRow,
    | 'changes_sealed'
    | 'state'
    | 'round'
    | 'share'
    | 'split_by'
    | 'token_ids'
    | 'until_time'
    | 'note'
    | 'round_time'
    | 'ended_time'
    | 'end_note'
  >
>

export async function updateCanary(trx: Trx, id: number, change: CanaryChange): Promise<void> {
  await trx.updateTable('canaries').set(change).where('id', '=', id).execute()
}

export const canarySums = (db: Db, canaryId: number, round: number): Promise<CanarySumsRow[]> =>
  db
    .selectFrom('canary_sums')
    .selectAll()
    .where('canary_id', '=', canaryId)
    .where('round', '=', round)
    .execute()

/** Percentiles do not cover older requests. */
export const CANARY_TIMES_KEEP_DAYS = 30

type CanaryTimes = { readonly useTimeMs: number; readonly firstMs: number | null }

/** The times of the newest successful requests of one side. */
export async function canaryTimes(
  db: Db,
  { canaryId, round, side }: { readonly canaryId: number; readonly round: number; readonly side: CanarySide },
  limit: number,
): Promise<CanaryTimes[]> {
  const rows = await db
    .selectFrom('canary_times')
    .select(['use_time_ms', 'first_ms'])
    .where('canary_id', '=', canaryId)
    .where('round', '=', round)
    .where('side', '=', side)
    .orderBy('time', 'desc')
    .limit(limit)
    .execute()
  return rows.map(row => ({ useTimeMs: row.use_time_ms, firstMs: row.first_ms }))
}

/** Deletes some of the times before this time. Returns their number. */
export async function removeCanaryTimes(db: Db, before: number, limit: number): Promise<number> {
  const { numAffectedRows } = await sql`delete from canary_times
    where (canary_id, round, side, time, request_id) in (
      select canary_id, round, side, time, request_id from canary_times where time < ${before}
      order by time limit ${sql.lit(limit)})`.execute(db)
  return Number(numAffectedRows ?? 0)
}

export const SHADOW_GROUPS = ['day', 'user', 'token'] as const
export type ShadowGroup = (typeof SHADOW_GROUPS)[number]

const GROUP_COLUMNS = { day: 'day', user: 'user_id', token: 'token_id' } as const

/** Floating-point numbers, which are exact below 2^53: a sum of integers may overflow under an absurd shadow price. */
const sumOf = (column: string) => sql<number>`coalesce(sum(cast(${sql.ref(column)} as double precision)), 0)`

const shadowColumns = [
  sumOf('requests').as('requests'),
  sumOf('cost').as('cost'),
  sumOf('shadow_cost').as('shadow_cost'),
] as const

type ShadowSums = { readonly requests: number; readonly cost: number; readonly shadow_cost: number }

const numbers = ({ requests, cost, shadow_cost }: ShadowSums): ShadowSums => ({
  requests: Number(requests),
  cost: Number(cost),
  shadow_cost: Math.min(Number(shadow_cost), Number.MAX_SAFE_INTEGER),
})

export async function shadowTotals(db: Db, canaryId: number): Promise<ShadowSums> {
  return numbers(
    await db
      .selectFrom('shadow_sums')
      .select([...shadowColumns])
      .where('canary_id', '=', canaryId)
      .executeTakeFirstOrThrow(),
  )
}

/** The sums by day, newest first, or by user or token, the largest difference first. */
export async function listShadowSums(
  db: Db,
  canaryId: number,
  group: ShadowGroup,
  paging: Paging,
): Promise<Page<ShadowSums & { readonly key: number }>> {
  const column = GROUP_COLUMNS[group]
  const rows = db.selectFrom('shadow_sums').where('canary_id', '=', canaryId)
  const sums = rows
    .select([`${column} as key`, ...shadowColumns])
    .groupBy(column)
    .orderBy(group === 'day' ? sql`key` : sql`abs(${sumOf('shadow_cost')} - ${sumOf('cost')})`, 'desc')
    .orderBy('key')
  const page = await pageOf(sums, boundedCount(db, rows.select(`${column} as id`).distinct()), paging)
  return { items: page.items.map(row => ({ key: row.key, ...numbers(row) })), total: page.total }
}
