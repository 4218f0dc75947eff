import { type ExpressionBuilder, sql } from 'kysely'
import { MAX_SKEW_S } from '../../domain/clock-skew.ts'
import { IDEMPOTENCY_LIFETIME_S } from '../../domain/idempotency.ts'
import type { VideoStatus } from '../../domain/video.ts'
import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { Database, Engine, NewVideo, VideoRow } from '../engine/schema.ts'
import { type Db, isUniqueViolation, type Trx, transact } from '../engine/store.ts'
import { isPattern, matchesPattern } from '../usage/log-filter.ts'

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
          .where('created_time', '<=', video.created_time - IDEMPOTENCY_LIFETIME_S)
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
    .where('created_time', '>', now - IDEMPOTENCY_LIFETIME_S)
    .executeTakeFirst()

/** Undefined for a deleted job too. */
export const findVideo = (db: Db, id: string): Promise<VideoRow | undefined> =>
  db
    .selectFrom('videos')
    .selectAll()
    .where('id', '=', id)
    .where('deleted_time', 'is', null)
    .executeTakeFirst()

type VideoTarget = Pick<
  VideoRow,
  'channel_id' | 'channel_type' | 'sent_model' | 'access_sealed' | 'kind' | 'estimate' | 'price' | 'seconds'
> & { readonly parameters: string }

/** Records the channel that a job is about to be sent to. */
export const setVideoTarget = async (db: Db, id: string, aim: VideoTarget): Promise<void> =>
  void (await db.updateTable('videos').set(aim).where('id', '=', id).execute())

/** The job was sent without a response, so its outcome is unknown; the node that sent it still has the hold. */
export const suspendVideo = async (db: Db, id: string, answer: string): Promise<void> =>
  void (await db
    .updateTable('videos')
    .set({ phase: 'doubt', answer })
    .where('id', '=', id)
    .where('phase', '=', 'submitting')
    .execute())

/** Saves the response to the client for repeated requests. */
export const saveVideoAnswer = async (db: Db, id: string, answer: string): Promise<void> =>
  void (await db
    .updateTable('videos')
    .set({ answer })
    .where('id', '=', id)
    .where('repeat_key', 'is not', null)
    .execute())

/** Deletes a job that no channel accepted. If the request may be repeated, its response is kept. */
export async function dropVideo(db: Db, id: string, answer: string | undefined, now: number): Promise<void> {
  if (answer === undefined) await db.deleteFrom('videos').where('id', '=', id).execute()
  else
    await db
      .updateTable('videos')
      .set({ phase: 'ended', status: 'failed', node_id: null, deleted_time: now, access_sealed: '', answer })
      .where('id', '=', id)
      .execute()
}

/** Ends the leases of a node that starts: it polls no job yet. */
export const endLeases = async (db: Db, nodeId: string): Promise<void> =>
  void (await db
    .updateTable('videos')
    .set({ lease_until_ms: 0 })
    .where('lease_by', '=', nodeId)
    .where('phase', 'in', ['running', 'doubt'])
    .execute())

/** Deletes jobs that a killed node never sent. Recovery of the journal runs before, and resolves the jobs that were sent. */
export const dropUnsent = async (db: Db, nodeId: string): Promise<void> =>
  void (await db
    .deleteFrom('videos')
    .where('node_id', '=', nodeId)
    .where('phase', '=', 'submitting')
    .execute())

/**
 * Makes the unconfirmed jobs of a node whose journal is lost unresolved, so that every node searches for them. Those that have no
 * destination yet were never sent.
 */
export async function takeOverUnconfirmed(trx: Trx, nodeId: string) {
  await trx
    .deleteFrom('videos')
    .where('node_id', '=', nodeId)
    .where('phase', '=', 'submitting')
    .where('access_sealed', '=', '')
    .execute()
  return trx
    .updateTable('videos')
    .set({ phase: 'doubt', node_id: null, next_poll_ms: 0, lease_until_ms: 0 })
    .where('node_id', '=', nodeId)
    .where('phase', 'in', ['submitting', 'doubt'])
    .returning(['id', 'request_id', 'user_id', 'token_id', 'channel_id', 'estimate'])
    .execute()
}

export type DueVideo = Pick<VideoRow, 'id' | 'channel_id'>

type DueVideosQuery = {
  readonly by: string
  readonly nowMs: number
  readonly limit: number
  /** Channels at their limit of concurrent polls. */
  readonly excludedChannels: readonly number[]
  /** Jobs that the node is polling already. */
  readonly inProgress: readonly string[]
}

/** Polls are planned, and jobs are leased, two minutes ahead at most. */
const MAX_AHEAD_MS = 120_000 + MAX_SKEW_S * 1000

const isOver =
  (column: 'next_poll_ms' | 'polled_ms' | 'lease_until_ms', byMs: number, nowMs: number) =>
  (row: ExpressionBuilder<Database, 'videos'>) =>
    row.or([row(column, '<=', byMs), row(column, '>', nowMs + MAX_AHEAD_MS)])

/**
 * Whether a job can be leased. A lease of the same node does not count: the node excludes the jobs that it is polling, so
 * the lease is from a failed poll or from before a restart.
 */
const isFree = (by: string, nowMs: number) => (row: ExpressionBuilder<Database, 'videos'>) =>
  row.or([isOver('lease_until_ms', nowMs, nowMs)(row), row('lease_by', '=', by)])

/** Jobs that are due for a poll: running ones, and unresolved ones whose hold has ended. */
export const dueVideos = (
  db: Db,
  { by, nowMs, limit, excludedChannels, inProgress }: DueVideosQuery,
): Promise<DueVideo[]> =>
  db
    .selectFrom('videos')
    .select(['id', 'channel_id'])
    .where('phase', 'in', ['running', 'doubt'])
    .where('node_id', 'is', null)
    .where(isOver('next_poll_ms', nowMs, nowMs))
    .where(isFree(by, nowMs))
    .$if(excludedChannels.length > 0, query => query.where('channel_id', 'not in', excludedChannels))
    .$if(inProgress.length > 0, query => query.where('id', 'not in', inProgress))
    .orderBy('next_poll_ms')
    .limit(limit)
    .execute()

type VideoLease = { readonly by: string; readonly nowMs: number; readonly untilMs: number }

/** Leases a job for a poll. Until the lease ends, no other node polls the job. */
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
    .where(isOver('polled_ms', polledBeforeMs, nowMs))
    .returningAll()
    .executeTakeFirst()

export type VideoProgress = Partial<
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

/** Writes the result of a poll and ends the lease. False if another node has taken the lease over. */
export async function progressVideo(
  db: Db,
  { id, lease_by, phase }: Pick<VideoRow, 'id' | 'lease_by' | 'phase'>,
  progress: VideoProgress,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('videos')
    .set({ ...progress, lease_until_ms: 0 })
    .where('id', '=', id)
    .where('lease_by', '=', lease_by)
    .where('phase', '=', phase)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** A job whose submission was not answered, as far as the search for it needs. */
type Unanswered = Pick<VideoRow, 'id' | 'seq' | 'sent_model' | 'parameters'>

const promptOf = ({ parameters }: Pick<VideoRow, 'parameters'>): unknown => JSON.parse(parameters).prompt

/**
 * Whether a job with the same prompt is being submitted: its upstream job could be mistaken for this one's. On any channel, because
 * several may use one account of the provider, and whatever else it asks for, because providers do not list all of that.
 */
export async function isTwinSubmitting(db: Db, row: Unanswered): Promise<boolean> {
  const submitting = await db
    .selectFrom('videos')
    .select('parameters')
    .where('phase', '=', 'submitting')
    .where('sent_model', '=', row.sent_model)
    .where('id', '<>', row.id)
    .execute()
  const prompt = promptOf(row)
  return submitting.some(other => promptOf(other) === prompt)
}

/** A job that was submitted so long before an unanswered one does not have its upstream job. */
const MAX_EARLIER_JOBS = 10_000

/** Whether another job has this upstream job, on any channel. */
async function isClaimed(trx: Trx, { id, seq }: Unanswered, upstreamId: string): Promise<boolean> {
  // Matches more than the id, because `_` stands for any character. The list itself decides.
  const pattern = `%${JSON.stringify(upstreamId).replaceAll('\\', '_')}%`
  const others = await trx
    .selectFrom('videos')
    .select(['upstream_id', 'upstream_more'])
    .where('seq', '>', seq - MAX_EARLIER_JOBS)
    .where('id', '<>', id)
    .where(row => row.or([row('upstream_id', '=', upstreamId), row('upstream_more', 'like', pattern)]))
    .execute()
  return others.some(
    ({ upstream_id, upstream_more }) =>
      upstream_id === upstreamId || (JSON.parse(upstream_more) as string[]).includes(upstreamId),
  )
}

/** Assigns an upstream job to an unresolved job; false if it belongs to another job, or may. Assignments are serialized. */
export async function claimUpstream(
  trx: Trx,
  engine: Engine,
  row: Unanswered,
  upstreamId: string,
): Promise<boolean> {
  if (engine === 'postgres') await sql`select pg_advisory_xact_lock(hashtext(${upstreamId}))`.execute(trx)
  // In this order: a job that is not submitting any more has its upstream job.
  if ((await isTwinSubmitting(trx, row)) || (await isClaimed(trx, row, upstreamId))) return false
  const { numUpdatedRows } = await trx
    .updateTable('videos')
    .set({ upstream_id: upstreamId })
    .where('id', '=', row.id)
    .where('phase', 'in', ['submitting', 'doubt'])
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Starts an unresolved job whose upstream job was found after its hold had ended. `cost` is what is charged for it now. */
export async function startResolvedVideo(
  trx: Trx,
  id: string,
  { cost, nowMs }: { cost: number; nowMs: number },
): Promise<void> {
  await trx
    .updateTable('videos')
    .set(row => ({
      phase: 'running',
      // Root may have charged the suspense before.
      cost: row('cost', '+', cost),
      answer: null,
      next_poll_ms: nowMs,
      lease_until_ms: 0,
    }))
    .where('id', '=', id)
    .where('phase', '=', 'doubt')
    .execute()
}

type LateCharge = { readonly userId: number; readonly requestId: string; readonly amount: number }

/** Adds a charge from suspense to the job's cost, which a refund returns. A refunded job keeps the cost that was refunded. */
export const addVideoCost = async (trx: Trx, { userId, requestId, amount }: LateCharge): Promise<void> =>
  void (await trx
    .updateTable('videos')
    .set(row => ({ cost: row('cost', '+', amount) }))
    .where('user_id', '=', userId)
    .where('request_id', '=', requestId)
    .where('refunded_time', 'is', null)
    .execute())

/** The open suspense entries of a request. */
export const suspenseOfRequest = (trx: Trx, requestId: string) =>
  trx
    .selectFrom('suspense')
    .selectAll()
    .where('request_id', '=', requestId)
    .where('closed_time', 'is', null)
    .execute()

type OwnPage = {
  readonly after: string | undefined
  readonly limit: number
  readonly isAscending: boolean
}

/** A user's own jobs after a cursor. Undefined if the cursor does not exist. */
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

/** Deletes a job that has ended. False if it has not ended, or was deleted before. */
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
  /** Failed after payment, and not refunded. */
  readonly isUnrefunded?: boolean | undefined
  /** Includes jobs that their owners have deleted. */
  readonly isWithDeleted?: boolean | undefined
}

export type VideoWithNames = VideoRow & {
  readonly username: string | null
  readonly channel_name: string | null
  readonly channel_type: number | null
}

const withNames = (db: Db) =>
  db
    .selectFrom('videos')
    .leftJoin('users', 'users.id', 'videos.user_id')
    .leftJoin('channels', 'channels.id', 'videos.channel_id')

/** The jobs of all users, newest first. */
export function listVideos(db: Db, filter: VideoFilter, paging: Paging): Promise<Page<VideoWithNames>> {
  let query = withNames(db)
  if (!filter.isWithDeleted) query = query.where('videos.deleted_time', 'is', null)
  if (filter.userId !== undefined) query = query.where('videos.user_id', '=', filter.userId)
  if (filter.channelId !== undefined) query = query.where('videos.channel_id', '=', filter.channelId)
  if (filter.status !== undefined) query = query.where('videos.status', '=', filter.status)
  if (filter.id !== undefined) query = query.where('videos.id', '=', filter.id)
  if (filter.channelType !== undefined) query = query.where('channels.type', '=', filter.channelType)
  if (filter.isRemix !== undefined)
    query = query.where('videos.remixed_from', filter.isRemix ? 'is not' : 'is', null)
  const { model } = filter
  if (isPattern(model)) query = query.where(matchesPattern('videos.model', model))
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

/** Also finds a deleted job. */
export const findVideoWithNames = (db: Db, id: string): Promise<VideoWithNames | undefined> =>
  withNames(db)
    .where('videos.id', '=', id)
    .selectAll('videos')
    .select(['users.username', 'channels.name as channel_name', 'channels.type as channel_type'])
    .executeTakeFirst()

type VideoRefund = { readonly time: number; readonly by: string; readonly reason: string }

/** Marks a failed and paid job as refunded; undefined if it is no such job, or was refunded before. */
export const markRefunded = (
  trx: Trx,
  id: string,
  { time, by, reason }: VideoRefund,
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

/** Deletes the provider's key of jobs whose result can no longer be fetched. */
export const clearExpiredKeys = async (db: Db, now: number): Promise<void> =>
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
