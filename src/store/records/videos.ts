import { type ExpressionBuilder, sql } from 'kysely'
import type { VideoStatus } from '../../domain/video.ts'
import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { Database, Engine, NewVideo, VideoRow } from '../engine/schema.ts'
import { type Db, isUniqueViolation, type Trx, transact } from '../engine/store.ts'
import { isPattern, matches } from '../usage/log-filter.ts'

/** How long an `Idempotency-Key` counts (docs/reference/relay-api.md: Idempotency on the relay). */
const REPEAT_S = 24 * 3600

/** False when another job of this user has the same `Idempotency-Key`. */
export async function insertVideo(db: Db, video: NewVideo): Promise<boolean> {
  try {
    await transact(db, async trx => {
      if (video.repeat_key)
        await trx
          .updateTable('videos')
          .set({ repeat_key: null, answer: null })
          .where('user_id', '=', video.user_id)
          .where('repeat_key', '=', video.repeat_key)
          .where('created_time', '<=', video.created_time - REPEAT_S)
          .execute()
      await trx.insertInto('videos').values(video).execute()
    })
    return true
  } catch (error) {
    if (video.repeat_key && isUniqueViolation(error)) return false
    throw error
  }
}

export const findRepeated = (db: Db, { userId, key, now }: { userId: number; key: string; now: number }) =>
  db
    .selectFrom('videos')
    .selectAll()
    .where('user_id', '=', userId)
    .where('repeat_key', '=', key)
    .where('created_time', '>', now - REPEAT_S)
    .executeTakeFirst()

/** Undefined for a deleted job too. */
export const findVideo = (db: Db, id: string): Promise<VideoRow | undefined> =>
  db
    .selectFrom('videos')
    .selectAll()
    .where('id', '=', id)
    .where('deleted_time', 'is', null)
    .executeTakeFirst()

export type Aim = Pick<
  VideoRow,
  'channel_id' | 'channel_type' | 'sent_model' | 'access_sealed' | 'kind' | 'estimate' | 'price' | 'seconds'
> & { readonly parameters: string }

/** Says where a job is about to be sent. */
export const aimVideo = async (db: Db, id: string, aim: Aim): Promise<void> =>
  void (await db.updateTable('videos').set(aim).where('id', '=', id).execute())

/** It was sent, and nobody answered; the node that sent it holds the money. */
export const suspendVideo = async (db: Db, id: string, answer: string): Promise<void> =>
  void (await db
    .updateTable('videos')
    .set({ phase: 'doubt', answer })
    .where('id', '=', id)
    .where('phase', '=', 'submitting')
    .execute())

/** What the client was answered, for those who repeat the request. */
export const saveVideoAnswer = async (db: Db, id: string, answer: string): Promise<void> =>
  void (await db
    .updateTable('videos')
    .set({ answer })
    .where('id', '=', id)
    .where('repeat_key', 'is not', null)
    .execute())

/** Nobody took it. What is left, where the request may be repeated, is the answer. */
export async function dropVideo(db: Db, id: string, answer: string | undefined, now: number): Promise<void> {
  if (answer === undefined) await db.deleteFrom('videos').where('id', '=', id).execute()
  else
    await db
      .updateTable('videos')
      .set({ phase: 'ended', status: 'failed', node_id: null, deleted_time: now, access_sealed: '', answer })
      .where('id', '=', id)
      .execute()
}

/** A node that begins anew looks at nothing yet. */
export const endLeases = async (db: Db, nodeId: string): Promise<void> =>
  void (await db
    .updateTable('videos')
    .set({ lease_until_ms: 0 })
    .where('lease_by', '=', nodeId)
    .where('phase', 'in', ['running', 'doubt'])
    .execute())

/** What a node was about to send when it died, and never did: the journal, which is read first, knows of the others. */
export const dropUnsent = async (db: Db, nodeId: string): Promise<void> =>
  void (await db
    .deleteFrom('videos')
    .where('node_id', '=', nodeId)
    .where('phase', '=', 'submitting')
    .execute())

export type DueVideo = Pick<VideoRow, 'id' | 'channel_id'>

export type WantedVideo = {
  readonly by: string
  readonly nowMs: number
  readonly limit: number
  /** Channels that are busy enough, and jobs that the asking node looks at already. */
  readonly beside: readonly number[]
  readonly held: readonly string[]
}

/**
 * A lease of the asking node's own that it does not hold is none: a look of it failed, or what it sent before it was killed
 * came to the store late.
 */
const isFree = (by: string, nowMs: number) => (row: ExpressionBuilder<Database, 'videos'>) =>
  row.or([row('lease_until_ms', '<', nowMs), row('lease_by', '=', by)])

/** Jobs that are due for a look: running ones, and doubts for which nobody holds money any longer. */
export const dueVideos = (db: Db, { by, nowMs, limit, beside, held }: WantedVideo): Promise<DueVideo[]> =>
  db
    .selectFrom('videos')
    .select(['id', 'channel_id'])
    .where('phase', 'in', ['running', 'doubt'])
    .where('node_id', 'is', null)
    .where('next_poll_ms', '<=', nowMs)
    .where(isFree(by, nowMs))
    .$if(beside.length > 0, query => query.where('channel_id', 'not in', beside))
    .$if(held.length > 0, query => query.where('id', 'not in', held))
    .orderBy('next_poll_ms')
    .limit(limit)
    .execute()

export type VideoLease = { readonly by: string; readonly nowMs: number; readonly untilMs: number }

/** Whoever gets the row is the only node that looks for the job until the lease ends; it sees to itself. */
export const leaseVideo = (
  db: Db,
  id: string,
  { by, nowMs, untilMs }: VideoLease,
  polledBeforeMs = nowMs,
): Promise<VideoRow | undefined> =>
  db
    .updateTable('videos')
    .set({ lease_by: by, lease_until_ms: untilMs })
    .where('id', '=', id)
    .where('phase', 'in', ['running', 'doubt'])
    .where('node_id', 'is', null)
    .where(isFree(by, nowMs))
    .where('polled_ms', '<=', polledBeforeMs)
    .returningAll()
    .executeTakeFirst()

export type Progressed = Partial<
  Pick<
    VideoRow,
    | 'phase'
    | 'status'
    | 'progress'
    | 'states'
    | 'seconds'
    | 'size'
    | 'results'
    | 'error_code'
    | 'error_message'
    | 'started_time'
    | 'completed_time'
    | 'expires_time'
    | 'misses'
    | 'poll_error'
    | 'next_poll_ms'
    | 'polled_ms'
    | 'answer'
  >
>

/** Writes what a look has found and ends the lease; nothing where the lease had passed to somebody else. */
export async function progressVideo(
  db: Db,
  { id, lease_by, phase }: Pick<VideoRow, 'id' | 'lease_by' | 'phase'>,
  found: Progressed,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('videos')
    .set({ ...found, lease_until_ms: 0 })
    .where('id', '=', id)
    .where('lease_by', '=', lease_by)
    .where('phase', '=', phase)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** The same asked of the same channel, and on its way: what it becomes in a moment looks like what is sought. */
export async function isTwinSubmitting(
  db: Db,
  {
    id,
    channel_id,
    sent_model,
    parameters,
  }: Pick<VideoRow, 'id' | 'channel_id' | 'sent_model' | 'parameters'>,
): Promise<boolean> {
  const found = await db
    .selectFrom('videos')
    .select('id')
    .where('phase', '=', 'submitting')
    .where('channel_id', '=', channel_id)
    .where('sent_model', '=', sent_model)
    .where('parameters', '=', parameters)
    .where('id', '<>', id)
    .limit(1)
    .executeTakeFirst()
  return found !== undefined
}

/** Takes a provider's job for a doubt of ours; false when it is another's already. Both engines: one at a time. */
export async function claimUpstream(
  trx: Trx,
  engine: Engine,
  { id, channel_id }: Pick<VideoRow, 'id' | 'channel_id'>,
  upstreamId: string,
): Promise<boolean> {
  if (engine === 'postgres') await sql`select pg_advisory_xact_lock(hashtext(${upstreamId}))`.execute(trx)
  const taken = await trx
    .selectFrom('videos')
    .select(['id', 'upstream_more'])
    .where('channel_id', '=', channel_id)
    .where('id', '<>', id)
    .where(row =>
      row.or([
        row('upstream_id', '=', upstreamId),
        row('upstream_more', 'like', `%${JSON.stringify(upstreamId).replace(/[\\%_]/g, '')}%`),
      ]),
    )
    .limit(1)
    .executeTakeFirst()
  if (taken) return false
  const { numUpdatedRows } = await trx
    .updateTable('videos')
    .set({ upstream_id: upstreamId })
    .where('id', '=', id)
    .where('phase', 'in', ['submitting', 'doubt'])
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** A doubt that was found after its money had been given back: it runs from now on. */
export async function startFound(
  trx: Trx,
  id: string,
  { cost, nowMs }: { cost: number; nowMs: number },
): Promise<void> {
  await trx
    .updateTable('videos')
    .set({ phase: 'running', cost, answer: null, next_poll_ms: nowMs, lease_until_ms: 0 })
    .where('id', '=', id)
    .where('phase', '=', 'doubt')
    .execute()
}

/** Open doubts in the books about a request. */
export const suspenseOfRequest = (trx: Trx, requestId: string) =>
  trx
    .selectFrom('suspense')
    .selectAll()
    .where('request_id', '=', requestId)
    .where('closed_time', 'is', null)
    .execute()

export type OwnPage = {
  readonly after: string | undefined
  readonly limit: number
  readonly isAscending: boolean
}

/** A user's own jobs by the cursor of the common format. Undefined: there is no such cursor. */
export async function listOwnVideos(
  db: Db,
  userId: number,
  { after, limit, isAscending }: OwnPage,
): Promise<{ rows: VideoRow[]; hasMore: boolean } | undefined> {
  let query = db
    .selectFrom('videos')
    .selectAll()
    .where('user_id', '=', userId)
    .where('deleted_time', 'is', null)
  if (after !== undefined) {
    const cursor = await db
      .selectFrom('videos')
      .select('seq')
      .where('id', '=', after)
      .where('user_id', '=', userId)
      .executeTakeFirst()
    if (!cursor) return undefined
    query = query.where('seq', isAscending ? '>' : '<', cursor.seq)
  }
  const rows = await query
    .orderBy('seq', isAscending ? 'asc' : 'desc')
    .limit(limit + 1)
    .execute()
  return { rows: rows.slice(0, limit), hasMore: rows.length > limit }
}

/** True once: whoever deletes it first. Only what has ended can go. */
export async function deleteVideo(db: Db, id: string, now: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('videos')
    .set({ deleted_time: now, access_sealed: '' })
    .where('id', '=', id)
    .where('phase', '=', 'ended')
    .where('deleted_time', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export type VideoFilter = {
  readonly id?: string | undefined
  readonly userId?: number | undefined
  readonly channelId?: number | undefined
  readonly channelType?: number | undefined
  readonly isRemix?: boolean | undefined
  readonly status?: VideoStatus | undefined
  readonly model?: string | undefined
  readonly from?: number | undefined
  readonly to?: number | undefined
  /** Failed, paid, and nobody has given it back. */
  readonly isUnrefunded?: boolean | undefined
  /** Also those that their owners have deleted. */
  readonly isWithDeleted?: boolean | undefined
}

export type VideoWithNames = VideoRow & {
  readonly username: string | null
  readonly channel_name: string | null
  readonly channel_type: number | null
}

const named = (db: Db) =>
  db
    .selectFrom('videos')
    .leftJoin('users', 'users.id', 'videos.user_id')
    .leftJoin('channels', 'channels.id', 'videos.channel_id')

/** Everybody's jobs, newest first. */
export function listVideos(db: Db, filter: VideoFilter, paging: Paging): Promise<Page<VideoWithNames>> {
  let query = named(db)
  if (!filter.isWithDeleted) query = query.where('videos.deleted_time', 'is', null)
  if (filter.userId !== undefined) query = query.where('videos.user_id', '=', filter.userId)
  if (filter.channelId !== undefined) query = query.where('videos.channel_id', '=', filter.channelId)
  if (filter.status !== undefined) query = query.where('videos.status', '=', filter.status)
  if (filter.id !== undefined) query = query.where('videos.id', '=', filter.id)
  if (filter.channelType !== undefined) query = query.where('channels.type', '=', filter.channelType)
  if (filter.isRemix !== undefined)
    query = query.where('videos.remixed_from', filter.isRemix ? 'is not' : 'is', null)
  const { model } = filter
  if (isPattern(model)) query = query.where(matches('videos.model', model))
  else if (model !== undefined) query = query.where('videos.model', '=', model)
  if (filter.from !== undefined) query = query.where('videos.created_time', '>=', filter.from)
  if (filter.to !== undefined) query = query.where('videos.created_time', '<=', filter.to)
  if (filter.isUnrefunded)
    query = query
      .where('videos.status', '=', 'failed')
      .where('videos.cost', '>', 0)
      .where('videos.refunded_time', 'is', null)
  const rows = query
    .selectAll('videos')
    .select(['users.username', 'channels.name as channel_name', 'channels.type as channel_type'])
    .orderBy('videos.seq', 'desc')
  return pageOf(rows, boundedCount(db, query.select('videos.id')), paging)
}

/** A deleted one too. */
export const findNamedVideo = (db: Db, id: string): Promise<VideoWithNames | undefined> =>
  named(db)
    .where('videos.id', '=', id)
    .selectAll('videos')
    .select(['users.username', 'channels.name as channel_name', 'channels.type as channel_type'])
    .executeTakeFirst()

export type Refunding = { readonly time: number; readonly by: string; readonly reason: string }

/** Marks a failed and paid job as given back; undefined when it is none, or was given back already. */
export const markRefunded = (
  trx: Trx,
  id: string,
  { time, by, reason }: Refunding,
): Promise<VideoRow | undefined> =>
  trx
    .updateTable('videos')
    .set({ refunded_time: time, refunded_by: by, refund_reason: reason })
    .where('id', '=', id)
    .where('status', '=', 'failed')
    .where('cost', '>', 0)
    .where('refunded_time', 'is', null)
    .returningAll()
    .executeTakeFirst()

const KEY_BATCH = 500

/** A provider's key is kept with a job no longer than somebody can fetch its result with it. */
export const forgetKeys = async (db: Db, now: number): Promise<void> =>
  void (await db
    .updateTable('videos')
    .set({ access_sealed: '' })
    .where('id', 'in', rows =>
      rows
        .selectFrom('videos')
        .select('id')
        .where('phase', '=', 'ended')
        .where('access_sealed', '<>', '')
        .where(row => row.or([row('status', '=', 'failed'), row('expires_time', '<', now)]))
        .limit(KEY_BATCH),
    )
    .execute())
