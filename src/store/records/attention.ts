import { sql } from 'kysely'
import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { KEY_STATUS } from '../../domain/channel-key.ts'
import { IMPLAUSIBLE_USAGE } from '../../domain/settled.ts'
import { LOW_TENTHS } from '../../domain/token.ts'
import type { Db } from '../engine/store.ts'

const MAX_ROWS = 50
const MAX_MODELS = 10_000

/** Channels that the gateway disabled, the highest priority first. */
export const disabledByGateway = (db: Db) =>
  db
    .selectFrom('channels')
    .select(['id', 'name', 'status_reason'])
    .where('status', '=', CHANNEL_STATUS.disabledByGateway)
    .orderBy('priority', 'desc')
    .orderBy('id')
    .limit(MAX_ROWS)
    .execute()

/** Keys that the gateway disabled, of channels that are still enabled. */
export const rejectedKeys = (db: Db) =>
  db
    .selectFrom('channel_keys')
    .innerJoin('channels', 'channels.id', 'channel_keys.channel_id')
    .select([
      'channels.id',
      'channels.name',
      'channel_keys.position',
      'channel_keys.reason',
      'channel_keys.disabled_time',
    ])
    .where('channel_keys.status', '=', KEY_STATUS.disabledByGateway)
    .where('channels.status', '=', CHANNEL_STATUS.enabled)
    .orderBy('channel_keys.disabled_time', 'desc')
    .limit(MAX_ROWS)
    .execute()

/** Models that only one enabled channel serves; none while there is a single channel, which needs no fallback yet. */
export async function singleChannelModels(db: Db): Promise<string[]> {
  const channels = await db
    .selectFrom('channels')
    .select('id')
    .where('status', '!=', CHANNEL_STATUS.disabled)
    .limit(2)
    .execute()
  if (channels.length < 2) return []
  const rows = await db
    .selectFrom('channel_models')
    .innerJoin('channels', 'channels.id', 'channel_models.channel_id')
    .select('channel_models.model')
    .where('channels.status', '=', CHANNEL_STATUS.enabled)
    .groupBy('channel_models.model')
    .having(sql`count(*)`, '=', 1)
    .orderBy('channel_models.model')
    .limit(MAX_MODELS)
    .execute()
  return rows.map(({ model }) => model)
}

/** Tokens of a user, or of all users, that are nearly used up or expire before `until`. */
export function tokensNeedingAttention(
  db: Db,
  userId: number | undefined,
  expiring: { readonly after: number; readonly until: number },
) {
  let query = db
    .selectFrom('tokens')
    .innerJoin('accounts', join =>
      join.onRef('accounts.owner_id', '=', 'tokens.id').on('accounts.kind', '=', 'token'),
    )
    .select([
      'tokens.id',
      'tokens.name',
      'tokens.expired_time',
      'accounts.credited',
      'accounts.posted',
      'accounts.unlimited',
    ])
    .where('tokens.status', '=', 1)
    .where(where =>
      where.or([
        where.and([
          where('tokens.expired_time', '>', expiring.after),
          where('tokens.expired_time', '<', expiring.until),
        ]),
        where.and([
          where('accounts.unlimited', '=', 0),
          where('accounts.credited', '>', 0),
          where(
            sql<number>`accounts.posted * 10`,
            '>=',
            sql<number>`accounts.credited * ${sql.lit(LOW_TENTHS)}`,
          ),
        ]),
      ]),
    )
  if (userId !== undefined) query = query.where('tokens.user_id', '=', userId)
  return query.orderBy('tokens.id', 'desc').limit(MAX_ROWS).execute()
}

/** The number of open suspense entries, and the oldest. */
export const openSuspense = (db: Db) =>
  db
    .selectFrom('suspense')
    .select([sql<number>`count(*)`.as('count'), sql<number | null>`min(time)`.as('oldest')])
    .where('closed_time', 'is', null)
    .executeTakeFirstOrThrow()

/** Channels whose provider reported implausible usage, with open suspense entries; newest first. */
export const implausibleChannels = (db: Db) =>
  db
    .selectFrom('suspense')
    .innerJoin('channels', 'channels.id', 'suspense.channel_id')
    .select([
      'channels.id',
      'channels.name',
      sql<number>`count(*)`.as('count'),
      sql<number>`min(suspense.time)`.as('oldest'),
    ])
    .where('suspense.closed_time', 'is', null)
    .where('suspense.reason', '=', IMPLAUSIBLE_USAGE)
    .groupBy(['channels.id', 'channels.name'])
    .orderBy(sql`max(suspense.id)`, 'desc')
    .limit(MAX_ROWS)
    .execute()

/** The number of video jobs since then that failed after payment and were not refunded, and the oldest. */
export const unrefundedVideos = (db: Db, since: number) =>
  db
    .selectFrom('videos')
    .select([sql<number>`count(*)`.as('count'), sql<number | null>`min(created_time)`.as('oldest')])
    // By `seq`, which has an index and begins with the time in milliseconds.
    .where('seq', '>=', since * 1_000_000)
    .where('status', '=', 'failed')
    .where('cost', '>', 0)
    .where('refunded_time', 'is', null)
    .executeTakeFirstOrThrow()
