import { sql } from 'kysely'
import type { Db } from './store.ts'

/** What was used in a stretch of time, from the quarter-hour sums; `to` belongs to it no more. */
export type RollupFilter = {
  readonly from: number
  readonly to: number
  readonly userId?: number | undefined
  readonly tokenId?: number | undefined
  readonly channelId?: number | undefined
  readonly model?: string | undefined
}

export const ROLLUP_S = 900
export const ROLLUP_GROUPS = {
  model: 'model',
  token: 'token_id',
  channel: 'channel_id',
  user: 'user_id',
} as const
export type RollupGroup = keyof typeof ROLLUP_GROUPS

export type Sums = {
  readonly requests: number
  readonly failures: number
  readonly prompt_tokens: number
  readonly completion_tokens: number
  /** Nanodollars. */
  readonly cost: number
}

const SUMMED = ['requests', 'failures', 'prompt_tokens', 'completion_tokens', 'cost'] as const
const sums = SUMMED.map(name => sql<number>`coalesce(sum(${sql.ref(name)}), 0)`.as(name))

function filtered(db: Db, { from, to, userId, tokenId, channelId, model }: RollupFilter) {
  let query = db.selectFrom('rollups').where('bucket', '>=', from).where('bucket', '<', to)
  if (userId !== undefined) query = query.where('user_id', '=', userId)
  if (tokenId !== undefined) query = query.where('token_id', '=', tokenId)
  if (channelId !== undefined) query = query.where('channel_id', '=', channelId)
  if (model !== undefined) query = query.where('model', '=', model)
  return query
}

export const sumRollups = (db: Db, filter: RollupFilter): Promise<Sums> =>
  filtered(db, filter).select(sums).executeTakeFirstOrThrow() as Promise<Sums>

/** The sums of each, those that cost most first. */
export function groupRollups(
  db: Db,
  filter: RollupFilter,
  group: RollupGroup,
  limit: number,
): Promise<(Sums & { readonly key: string | number })[]> {
  const column = ROLLUP_GROUPS[group]
  return filtered(db, filter)
    .select([`${column} as key`, ...sums])
    .groupBy(column)
    .orderBy('cost', 'desc')
    .orderBy('requests', 'desc')
    .orderBy(column)
    .limit(limit)
    .execute() as Promise<(Sums & { readonly key: string | number })[]>
}

export type Step = Sums & { readonly bucket: number }

/** The sums of every `stepS` seconds in which there were requests, in order of time. */
export function stepRollups(db: Db, filter: RollupFilter, stepS: number): Promise<Step[]> {
  const bucket = sql<number>`bucket - bucket % ${sql.lit(stepS)}`
  return filtered(db, filter)
    .select([bucket.as('bucket'), ...sums])
    .groupBy(bucket)
    .orderBy(bucket)
    .execute() as Promise<Step[]>
}

/** The same for some of a group. */
export function stepRollupsOf(
  db: Db,
  filter: RollupFilter,
  stepS: number,
  group: RollupGroup,
  keys: readonly (string | number)[],
): Promise<(Step & { readonly key: string | number })[]> {
  if (keys.length === 0) return Promise.resolve([])
  const column = ROLLUP_GROUPS[group]
  const bucket = sql<number>`bucket - bucket % ${sql.lit(stepS)}`
  return filtered(db, filter)
    .select([bucket.as('bucket'), `${column} as key`, ...sums])
    .where(column, 'in', keys as never)
    .groupBy([bucket, column])
    .orderBy(bucket)
    .execute() as Promise<(Step & { readonly key: string | number })[]>
}
