import { sql } from 'kysely'
import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { KEY_STATUS } from '../../domain/channel-key.ts'
import { LOG_TYPE } from '../../domain/log.ts'
import { NO_CHANNEL } from '../../domain/rejection.ts'
import type { Db } from '../engine/store.ts'

/** Which subjects to list: those with these ids, or all if there are none. Lists are ordered by id. */
export type SubjectFilter = { readonly ids: readonly number[]; readonly limit: number }

/** Channels that the gateway disabled. */
export function disabledChannels(db: Db, { ids, limit }: SubjectFilter) {
  let query = db
    .selectFrom('channels')
    .select(['id', 'name', 'status_reason'])
    .where('status', '=', CHANNEL_STATUS.disabledByGateway)
  if (ids.length > 0) query = query.where('id', 'in', ids)
  return query.orderBy('id').limit(limit).execute()
}

/** Keys that the gateway disabled, of channels that are still enabled. */
export function disabledKeys(db: Db, { ids, limit }: SubjectFilter) {
  let query = db
    .selectFrom('channel_keys')
    .innerJoin('channels', 'channels.id', 'channel_keys.channel_id')
    .select(['channel_keys.id', 'channel_keys.position', 'channel_keys.reason', 'channels.name'])
    .where('channel_keys.status', '=', KEY_STATUS.disabledByGateway)
    .where('channels.status', '=', CHANNEL_STATUS.enabled)
  if (ids.length > 0) query = query.where('channels.id', 'in', ids)
  return query.orderBy('channel_keys.id').limit(limit).execute()
}

/** A rate is computed from at most this many of the newest requests. */
const MAX_COUNTED = 50_000

export type RequestCounts = { readonly served: number; readonly failed: number; readonly rejected: number }

/** The requests of known tokens since a time, of one channel or of all. */
export async function countRequests(
  db: Db,
  { from, channelId }: { readonly from: number; readonly channelId?: number | undefined },
): Promise<RequestCounts> {
  let newest = db
    .selectFrom('logs')
    .select(['type', 'channel_id', 'requests'])
    .where('created_time', '>=', from)
    .where('type', 'in', [LOG_TYPE.consume, LOG_TYPE.error])
  if (channelId !== undefined) newest = newest.where('channel_id', '=', channelId)
  const sumIf = (condition: ReturnType<typeof sql>) =>
    sql<number>`coalesce(sum(case when ${condition} then requests else 0 end), 0)`
  const isError = sql`type = ${sql.lit(LOG_TYPE.error)}`
  const isRejected = sql`channel_id = ${sql.lit(NO_CHANNEL)}`
  const counts = await db
    .selectFrom(newest.orderBy('created_time', 'desc').orderBy('id', 'desc').limit(MAX_COUNTED).as('newest'))
    .select([
      sumIf(sql`type = ${sql.lit(LOG_TYPE.consume)}`).as('served'),
      sumIf(sql`${isError} and not ${isRejected}`).as('failed'),
      sumIf(sql`${isError} and ${isRejected}`).as('rejected'),
    ])
    .executeTakeFirstOrThrow()
  return {
    served: Number(counts.served),
    failed: Number(counts.failed),
    rejected: Number(counts.rejected),
  }
}

/** Enabled users with a limited balance who have received credit; `left` in nanodollars. */
export async function limitedBalances(
  db: Db,
  { ids, limit, below }: SubjectFilter & { readonly below?: number },
) {
  let query = db
    .selectFrom('users')
    .innerJoin('accounts', join =>
      join.onRef('accounts.owner_id', '=', 'users.id').on('accounts.kind', '=', 'user'),
    )
    .select(['users.id', 'users.username', 'accounts.credited', 'accounts.posted'])
    .where('users.deleted_time', 'is', null)
    .where('users.status', '=', 1)
    .where('accounts.unlimited', '=', 0)
    .where('accounts.credited', '>', 0)
  if (below !== undefined) query = query.where(sql<number>`accounts.credited - accounts.posted`, '<', below)
  if (ids.length > 0) query = query.where('users.id', 'in', ids)
  const rows = await query.orderBy('users.id').limit(limit).execute()
  return rows.map(({ id, username, credited, posted }) => ({ id, username, left: credited - posted }))
}

/** The number and the sum of unresolved charges, in nanodollars. */
export async function sumSuspense(db: Db) {
  const { count, amount } = await db
    .selectFrom('suspense')
    .select([sql<number>`count(*)`.as('count'), sql<number>`coalesce(sum(amount), 0)`.as('amount')])
    .where('closed_time', 'is', null)
    .executeTakeFirstOrThrow()
  // Providers may report any amount, so the sum may exceed the largest exact number.
  return { count: Number(count), amount: Math.min(Number(amount), Number.MAX_SAFE_INTEGER) }
}

type Expiry = { readonly after: number; readonly until: number }

/** Enabled API tokens of enabled users that expire in a span of time. */
export function expiringTokens(db: Db, { after, until }: Expiry, { ids, limit }: SubjectFilter) {
  let query = db
    .selectFrom('tokens')
    .innerJoin('users', 'users.id', 'tokens.user_id')
    .select(['tokens.id', 'tokens.name', 'tokens.expired_time', 'users.username'])
    .where('tokens.status', '=', 1)
    .where('users.status', '=', 1)
    .where('tokens.expired_time', '>', after)
    .where('tokens.expired_time', '<=', until)
  if (ids.length > 0) query = query.where('users.id', 'in', ids)
  return query.orderBy('tokens.id').limit(limit).execute()
}

/** The same for system access tokens. */
export function expiringAccessTokens(db: Db, { after, until }: Expiry, { ids, limit }: SubjectFilter) {
  let query = db
    .selectFrom('access_tokens')
    .innerJoin('users', 'users.id', 'access_tokens.user_id')
    .select(['access_tokens.id', 'access_tokens.name', 'access_tokens.expired_time', 'users.username'])
    .where('users.status', '=', 1)
    .where('access_tokens.expired_time', '>', after)
    .where('access_tokens.expired_time', '<=', until)
  if (ids.length > 0) query = query.where('users.id', 'in', ids)
  return query.orderBy('access_tokens.id').limit(limit).execute()
}
