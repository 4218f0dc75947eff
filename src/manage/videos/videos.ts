import { type Actor, actorLabel } from '../../domain/actor.ts'
import { type ManagementCode, notFound, Refusal } from '../../domain/errors.ts'
import { unitsUsed, usdText } from '../../domain/money.ts'
import { isAdmin } from '../../domain/role.ts'
import { THOUSANDTHS } from '../../domain/video.ts'
import { refund } from '../../store/books/accounts.ts'
import { entriesOfRequest } from '../../store/books/entries.ts'
import {
  deleteVideo,
  findVideoWithNames,
  listVideos,
  markRefunded,
  type VideoWithNames,
} from '../../store/records/videos.ts'
import { insertLog, LOG_TYPE } from '../../store/usage/logs.ts'
import type { videoContract } from '../contract/videos.ts'
import { presentEntry } from '../money/ledger.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'

/** The default reason; a ledger entry always has one. */
const NO_REASON = 'video job failed'

const isRefundable = (row: VideoWithNames) =>
  row.status === 'failed' && row.cost > 0 && row.refunded_time === null

/** Only administrators see how a job was routed. */
const presentTo = (actor: Pick<Actor, 'role'>) => (row: VideoWithNames) => ({
  id: row.id,
  request_id: row.request_id,
  user_id: row.user_id,
  username: row.username ?? '',
  token_id: row.token_id,
  token_name: row.token_name,
  channel: isAdmin(actor) ? row.channel_id : 0,
  channel_name: isAdmin(actor) ? (row.channel_name ?? '') : '',
  model: row.model,
  upstream_model: isAdmin(actor) ? row.sent_model : '',
  status: row.status,
  progress: row.progress / THOUSANDTHS,
  created_at: row.created_time,
  started_at: row.started_time,
  completed_at: row.completed_time,
  expires_at: row.expires_time,
  seconds: row.seconds,
  size: row.size,
  n: Number(JSON.parse(row.parameters).n ?? 1),
  results: (JSON.parse(row.results) as unknown[]).length,
  quota: unitsUsed(row.cost),
  cost: usdText(row.cost),
  is_in_doubt: row.phase === 'doubt',
  error:
    row.status === 'failed'
      ? { code: row.error_code ?? 'video_failed', message: row.error_message ?? '' }
      : null,
  refund:
    row.refunded_time === null
      ? null
      : {
          time: row.refunded_time,
          by: row.refunded_by ?? '',
          reason: row.refund_reason ?? '',
          cost: usdText(row.cost),
        },
  is_refundable: isRefundable(row),
})

/** Video jobs in the management API, and refunds of failed ones. */
export function createVideoHandlers({
  db,
  now,
  ledger,
  announce,
  videos,
}: Deps): Handlers<typeof videoContract> {
  /**
   * Every job for administrators, only their own for users. A deleted failed job can still be refunded:
   * administrators still find it.
   */
  async function visible(id: string, actor: Actor): Promise<VideoWithNames> {
    const row = await findVideoWithNames(db, id)
    const isThere = row?.deleted_time === null || (isAdmin(actor) && row?.status === 'failed' && row.cost > 0)
    if (!row || !isThere || (!isAdmin(actor) && row.user_id !== actor.id)) throw notFound('video job')
    return row
  }

  return {
    listVideos: async ({ actor, query }) => {
      const { paging, status, model, channel, user_id, start_timestamp, end_timestamp, unrefunded } = query
      const filter = {
        userId: isAdmin(actor) ? user_id : actor.id,
        channelId: isAdmin(actor) ? channel : undefined,
        status,
        model,
        from: start_timestamp,
        to: end_timestamp,
        isUnrefunded: unrefunded,
        isWithDeleted: unrefunded && isAdmin(actor),
      }
      return presentPage(await listVideos(db, filter, paging), paging, presentTo(actor))
    },

    getVideo: async ({ actor, params }) => {
      await videos.refresh(await visible(params.id, actor))
      const row = await visible(params.id, actor)
      const entries = isAdmin(actor) ? await entriesOfRequest(db, row) : []
      return {
        ...presentTo(actor)(row),
        parameters: JSON.parse(row.parameters),
        states: JSON.parse(row.states),
        remixed_from: row.remixed_from,
        poll_error: isAdmin(actor) ? row.poll_error : '',
        upstream_id: isAdmin(actor) ? (row.upstream_id ?? '') : '',
        price: row.price,
        entries: entries.map(presentEntry),
      }
    },

    videoContent: async ({ actor, params, reply, requestId }) => {
      const row = await visible(params.id, actor)
      await videos
        .fetchContent({
          row,
          request: reply.request.raw,
          response: reply.raw,
          headers: { 'x-request-id': requestId },
          // From the first byte on, the response is written without the framework.
          onStart: () => void reply.hijack(),
        })
        .catch(throwManagementError)
      return undefined
    },

    deleteVideo: async ({ actor, params, change }) => {
      const row = await visible(params.id, actor)
      if (row.user_id !== actor.id) throw notFound('video job')
      await change(async ({ trx, audit }) => {
        if (!(await deleteVideo(trx, row.id, now())))
          throw new Refusal('conflict', `Only finished jobs can be deleted; this one is ${row.status}.`)
        audit({ action: 'video.delete', target: `video:${row.id}`, before: presentTo(actor)(row) })
        return undefined
      })
      videos.forget(row)
      return undefined
    },

    refundVideo: async ({ actor, params, body, change }) => {
      const before = await visible(params.id, actor)
      const reason = body?.reason || NO_REASON
      await ledger.flushAndReturn({ kind: 'user', ownerId: before.user_id })
      await ledger.flushAndReturn({ kind: 'token', ownerId: before.token_id })
      const refunded = await change(async ({ trx, audit }) => {
        const by = actorLabel(actor)
        const row = await markRefunded(trx, params.id, { time: now(), by, reason })
        if (!row) throw new Refusal('conflict', whyNot(before))
        await refund(trx, {
          userId: row.user_id,
          tokenId: row.token_id,
          channelId: row.channel_id,
          amount: row.cost,
          requestId: row.request_id,
          actor: by,
          reason,
          time: now(),
        })
        await insertLog(trx, {
          created_time: now(),
          type: LOG_TYPE.refund,
          user_id: row.user_id,
          token_id: row.token_id,
          token_name: row.token_name,
          channel_id: row.channel_id,
          model_name: row.model,
          cost: row.cost,
          content: reason,
          request_id: row.request_id,
          other: JSON.stringify({ video_id: row.id }),
        })
        const after = { ...before, ...row }
        audit({
          action: 'video.refund',
          target: `video:${row.id}`,
          before: presentTo(actor)(before),
          after: presentTo(actor)(after),
        })
        return presentTo(actor)(after)
      })
      await announce([`user:${before.user_id}`, `token:${before.token_id}`])
      return refunded
    },
  }
}

/** Codes of the relay, as codes of the management API. */
const NAMES: Readonly<Record<string, ManagementCode>> = {
  video_not_ready: 'conflict',
  video_expired: 'not_found',
  invalid_parameter: 'invalid_request',
  upstream_timeout: 'upstream_error',
}

function throwManagementError(error: unknown): never {
  if (!(error instanceof Refusal)) throw error
  const errors = error.errors === undefined ? {} : { errors: error.errors }
  throw new Refusal(NAMES[error.code] ?? error.code, error.message, errors)
}

function whyNot(row: VideoWithNames): string {
  if (row.status !== 'failed') return `Only failed jobs can be refunded; this one is ${row.status}.`
  if (row.cost === 0) return 'This job was not billed, so there is nothing to refund.'
  return 'This job is already refunded.'
}
