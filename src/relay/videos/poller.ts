import { setTimeout as delay } from 'node:timers/promises'
import { SYSTEM } from '../../domain/actor.ts'
import {
  hasEnded,
  laterStatus,
  RESULT_LIFETIME_S,
  THOUSANDTHS,
  type VideoStatus,
} from '../../domain/video.ts'
import { AnswerError } from '../../media/dialect.ts'
import type { UpstreamJob, VideoDialect, VideoState } from '../../media/video.ts'
import { charge } from '../../store/books/accounts.ts'
import { closeSuspense, leaveOpen } from '../../store/books/suspense.ts'
import type { VideoRow } from '../../store/engine/schema.ts'
import { transact } from '../../store/engine/store.ts'
import {
  clearExpiredKeys,
  type DueVideo,
  dueVideos,
  findVideo,
  leaseVideo,
  progressVideo,
  startResolvedVideo,
  suspenseOfRequest,
  type VideoProgress,
} from '../../store/records/videos.ts'
import { insertLog, LOG_TYPE } from '../../store/usage/logs.ts'
import { withoutSecrets } from '../answer/upstream-error.ts'
import type { ChannelSecrets } from '../catalog/channel-secrets.ts'
import type { VideoDeps } from './deps.ts'
import type { Search } from './search.ts'
import { LOST } from './suspense.ts'
import { openAccess, secretsOf, type VendorAccess, VendorError, videoDialect } from './vendor.ts'
import { factsIn, type StoredResult } from './video-view.ts'

const TICK_MS = 1_000
/** Concurrent polls, in total and per channel: a provider that does not answer must not delay the jobs of others. */
const AT_ONCE = 32
const AT_ONCE_OF_CHANNEL = 8
/** Longer than a poll can take, so that two polls of a job never overlap. */
const LEASE_MS = 90_000
const MIN_PAUSE_MS = 2_000
const MAX_PAUSE_MS = 30_000
const MAX_ERROR_PAUSE_MS = 120_000
/** A client's request for a job polls it, but at most this often. */
const REFRESH_MS = 3_000
const REFRESH_WAIT_MS = 5_000
/** After this many consecutive 404 responses the gateway considers the job lost. */
const MAX_MISSES = 10
const SWEEP_MS = 3_600_000

const FORGOTTEN = { code: 'video_not_found', message: 'The provider no longer knows the job.' }
const TOO_LATE = { code: 'timeout', message: 'The video was not finished within the time limit.' }

type Failing = { readonly code: string; readonly message: string }

/**
 * Merges the states of a provider's jobs that belong to one job of ours. It ends when all have ended, and succeeds if one
 * has.
 */
function mergeStates(states: readonly VideoState[]): VideoState {
  const [first] = states
  if (states.length === 1 && first) return first
  const isOver = states.every(({ status }) => hasEnded(status))
  const good = states.filter(({ status }) => status === 'completed')
  const parts = states.map(({ status, progress }) => (hasEnded(status) ? 1 : (progress ?? 0)))
  const status: VideoStatus = isOver
    ? good.length > 0
      ? 'completed'
      : 'failed'
    : states.every(each => each.status === 'queued')
      ? 'queued'
      : 'processing'
  const expiring = states.flatMap(({ expiresTime }) => expiresTime ?? [])
  return {
    ...(good[0] ?? first),
    status,
    progress: parts.reduce((sum, part) => sum + part, 0) / Math.max(1, parts.length),
    error: status === 'failed' ? states.find(({ error }) => error)?.error : undefined,
    expiresTime: expiring.length > 0 ? Math.min(...expiring) : undefined,
  }
}

/**
 * Polls running jobs until they end. A lease ensures that one process polls a job at a time, and another one takes over
 * after a crash.
 */
export function createPoller(deps: VideoDeps, search: Search) {
  const { db, nowMs, nodeId, keyring, vendor } = deps
  /** The running polls of this process, by job. A lease of this process without an entry here is void. */
  const polls = new Map<string, { readonly channelId: number; readonly done: Promise<void> }>()
  let isClosed = false
  /** More jobs are due than there are free slots. */
  let isShort = false

  const lease = (id: string, polledBeforeMs?: number) =>
    leaseVideo(db, id, { by: nodeId, nowMs: nowMs(), untilMs: nowMs() + LEASE_MS }, polledBeforeMs)

  /** The pause until the next poll grows with the age of a job; a delay that the vendor requests counts too. */
  function pauseMs({ created_time, sent_model }: VideoRow, access: VendorAccess | undefined): number {
    const ageMs = nowMs() - created_time * 1000
    const wishS = (access && videoDialect(access.provider, sent_model)?.pauseS) ?? 0
    return Math.max(MIN_PAUSE_MS, wishS * 1000, Math.min(MAX_PAUSE_MS, Math.round(ageMs / 20)))
  }

  /** A failed poll doubles the pause. */
  function failedPoll(row: VideoRow, message: string, access?: VendorAccess): VideoProgress {
    const last = row.poll_error === '' ? 0 : row.next_poll_ms - row.polled_ms
    const pause = Math.max(pauseMs(row, access), Math.min(MAX_ERROR_PAUSE_MS, last * 2))
    return { poll_error: message.slice(0, 200), polled_ms: nowMs(), next_poll_ms: nowMs() + pause }
  }

  /** The secrets that the job was sent with, and those of its channel now. */
  function secretsAt({ channel_id }: VideoRow, access: VendorAccess): Pick<ChannelSecrets, 'scrub'> {
    const accessSecrets = secretsOf(access)
    const current = deps.catalog.table().channel(channel_id)?.secrets
    return { scrub: text => accessSecrets.scrub(current?.scrub(text) ?? text) }
  }

  const isTooLate = ({ created_time }: VideoRow) => nowMs() >= created_time * 1000 + deps.deadlineMs

  function failed(
    row: VideoRow,
    { code, message }: Failing,
    access: VendorAccess | undefined,
  ): VideoProgress {
    const time = Math.floor(nowMs() / 1000)
    const clean = (text: string) =>
      access ? withoutSecrets(text, { secrets: secretsAt(row, access), baseUrl: access.baseUrl }) : text
    return {
      phase: 'ended',
      status: 'failed',
      states: JSON.stringify({ ...JSON.parse(row.states), failed: time }),
      completed_time: time,
      error_code: clean(code).slice(0, 128),
      error_message: clean(message),
    }
  }

  /** The progress of our job, derived from the states of the provider's jobs. */
  function progressed(
    row: VideoRow,
    state: VideoState,
    results: readonly StoredResult[],
    access: VendorAccess,
  ): VideoProgress {
    const time = Math.floor(nowMs() / 1000)
    const nextMs = nowMs() + pauseMs(row, access)
    const polled = { polled_ms: nowMs(), misses: 0, poll_error: '', next_poll_ms: nextMs }
    if (state.status === 'failed')
      return {
        ...polled,
        ...failed(
          row,
          state.error ?? { code: 'video_failed', message: 'The provider could not create the video.' },
          access,
        ),
      }
    const status = laterStatus(row.status, state.status)
    const isDone = status === 'completed'
    const progress = Math.round(Math.min(1, Math.max(0, state.progress ?? 0)) * THOUSANDTHS)
    return {
      ...polled,
      status,
      phase: isDone ? 'ended' : 'running',
      // Only a finished job shows 100 %: until then the progress stays one thousandth below.
      progress: isDone ? THOUSANDTHS : Math.max(row.progress, Math.min(progress, THOUSANDTHS - 1)),
      states: JSON.stringify({ [status]: time, ...JSON.parse(row.states) }),
      seconds: state.seconds ?? row.seconds,
      size: state.size ?? row.size,
      started_time: row.started_time ?? (status === 'queued' ? null : time),
      ...(isDone && {
        completed_time: time,
        results: JSON.stringify(results),
        expires_time: state.expiresTime ?? Math.max(row.expires_time, time + RESULT_LIFETIME_S),
      }),
    }
  }

  async function statesOf(row: VideoRow, access: VendorAccess, dialect: VideoDialect) {
    const ids = [row.upstream_id ?? '', ...(JSON.parse(row.upstream_more) as string[])]
    return Promise.all(
      ids.map(async id => {
        const job = { id, kind: row.kind, model: row.sent_model }
        const state = dialect.state(await vendor.ask(dialect.poll(job), access, row.sent_model), job)
        return {
          id,
          state: state.status === 'completed' ? await finished(state, dialect, job, access) : state,
        }
      }),
    )
  }

  /**
   * Fetches the results of a finished job, if the vendor has a separate request for them. If the vendor refuses, the job
   * has failed.
   */
  async function finished(
    state: VideoState,
    { finish }: VideoDialect,
    job: UpstreamJob,
    access: VendorAccess,
  ) {
    if (!finish) return state
    try {
      return finish.state(await vendor.ask(finish.call(job), access, job.model))
    } catch (error) {
      if (!(error instanceof VendorError) || error.status < 400 || error.status >= 500) throw error
      return { status: 'failed', error: { code: 'video_failed', message: error.message } } as const
    }
  }

  async function pollRunning(row: VideoRow): Promise<VideoProgress> {
    if (isTooLate(row)) return failed(row, TOO_LATE, undefined)
    const access = openAccess(keyring, row.id, row.access_sealed)
    const dialect = access && videoDialect(access.provider, row.sent_model)
    if (!access || !dialect) return failed(row, FORGOTTEN, access)
    try {
      const states = await statesOf(row, access, dialect)
      const results = states.flatMap(({ id, state }) =>
        state.status === 'completed' ? (state.results ?? []).map(result => ({ ...result, job: id })) : [],
      )
      return progressed(row, mergeStates(states.map(({ state }) => state)), results, access)
    } catch (error) {
      if (!(error instanceof VendorError) && !(error instanceof AnswerError)) throw error
      const isUnknown = error instanceof VendorError && (error.status === 404 || error.status === 410)
      const misses = isUnknown ? row.misses + 1 : row.misses
      if (misses >= MAX_MISSES) return failed(row, FORGOTTEN, access)
      return { ...failedPoll(row, secretsAt(row, access).scrub(error.message), access), misses }
    }
  }

  /** Of a request for several videos, the search finds the job of one call. What the other calls may have cost stays in suspense. */
  function costOfFirstCall(row: VideoRow): number {
    const { n } = factsIn(row)
    const access = openAccess(keyring, row.id, row.access_sealed)
    const { most = 1 } = (access && videoDialect(access.provider, row.sent_model)) ?? {}
    return Math.ceil((row.estimate * Math.min(n, most)) / n)
  }

  /** Charges the suspense of a job that was found after its hold was released, as Root would decide. */
  async function chargeFound(row: VideoRow): Promise<void> {
    await deps.flushAndReturn({ kind: 'user', ownerId: row.user_id })
    await deps.flushAndReturn({ kind: 'token', ownerId: row.token_id })
    const time = Math.floor(nowMs() / 1000)
    const reason = `The video job ${row.id} was found at the provider.`
    const charged = await transact(db, async trx => {
      const [suspense] = await suspenseOfRequest(trx, row.request_id)
      if (!suspense) {
        await startResolvedVideo(trx, row.id, { cost: 0, nowMs: nowMs() })
        return 0
      }
      const closing = { closed_time: time, closed_by: SYSTEM, closed_as: 'charge', closed_reason: reason }
      // First, because Root may be resolving it, too.
      const closed = await closeSuspense(trx, suspense.id, closing)
      if (!closed) {
        await startResolvedVideo(trx, row.id, { cost: 0, nowMs: nowMs() })
        return 0
      }
      const amount = Math.min(closed.amount, costOfFirstCall(row))
      if (amount < closed.amount) await leaveOpen(trx, closed, amount)
      const outcome = await charge(trx, {
        userId: row.user_id,
        tokenId: row.token_id,
        channelId: row.channel_id,
        amount,
        requestId: row.request_id,
        actor: SYSTEM,
        reason,
        time,
      })
      if (!outcome.isCharged) throw new NotCovered()
      await insertLog(trx, {
        created_time: time,
        type: LOG_TYPE.consume,
        user_id: row.user_id,
        token_id: row.token_id,
        token_name: row.token_name,
        channel_id: row.channel_id,
        model_name: row.model,
        cost: amount,
        content: reason,
        request_id: row.request_id,
        other: JSON.stringify({ source: 'suspense', video_id: row.id }),
      })
      await startResolvedVideo(trx, row.id, { cost: amount, nowMs: nowMs() })
      return amount
    }).catch(error => {
      if (error instanceof NotCovered) return undefined
      throw error
    })
    if (charged !== undefined) deps.onLateCharge(charged)
    // The job runs anyway; its cost stays in suspense until Root decides.
    else await transact(db, trx => startResolvedVideo(trx, row.id, { cost: 0, nowMs: nowMs() }))
  }

  async function pollUnanswered(row: VideoRow): Promise<VideoProgress | undefined> {
    const isOver = nowMs() >= row.created_time * 1000 + deps.searchMs
    const upstreamId = await search(row).catch(error => {
      deps.onProblem(error, 'The search for an unconfirmed video job failed.', row.id)
      return undefined
    })
    if (upstreamId !== undefined) {
      await chargeFound({ ...row, upstream_id: upstreamId })
      return undefined
    }
    if (isOver) return failed(row, LOST, undefined)
    return { polled_ms: nowMs(), next_poll_ms: nowMs() + pauseMs(row, undefined) }
  }

  async function poll(row: VideoRow): Promise<void> {
    const at = row.phase === 'doubt' ? pollUnanswered(row) : pollRunning(row)
    const updated = await at.catch(error => {
      deps.onProblem(error as Error, 'A video job could not be polled.', row.id)
      return failedPoll(row, 'The gateway could not poll the job.')
    })
    if (updated) await progressVideo(db, row, updated)
  }

  /** Polls a job if this process gets its lease and is not polling it already. */
  function pollJob({ id, channel_id: channelId }: DueVideo, polledBeforeMs?: number): Promise<void> {
    if (polls.has(id)) return Promise.resolve()
    const done = lease(id, polledBeforeMs)
      .then(row => (row ? poll(row) : undefined))
      .then(
        () => {
          polls.delete(id)
          if (isShort) take()
        },
        // The next turn tries again.
        error => {
          polls.delete(id)
          deps.onProblem(error as Error, 'The state of a video job could not be saved.', id)
        },
      )
    polls.set(id, { channelId, done })
    return done
  }

  const fullChannels = () =>
    [...Map.groupBy(polls.values(), ({ channelId }) => channelId)]
      .filter(([, running]) => running.length >= AT_ONCE_OF_CHANNEL)
      .map(([channelId]) => channelId)

  /** Fills the free slots with jobs that are due. */
  async function turn(): Promise<void> {
    const started = new Set<string>()
    for (;;) {
      const excludedChannels = fullChannels()
      const free = AT_ONCE - polls.size
      isShort = free <= 0 || excludedChannels.length > 0
      if (isClosed || free <= 0) return
      const query = {
        by: nodeId,
        nowMs: nowMs(),
        limit: free,
        excludedChannels,
        inProgress: [...polls.keys()],
      }
      const before = started.size
      for (const due of await dueVideos(db, query)) {
        if (started.has(due.id) || fullChannels().includes(due.channel_id)) continue
        started.add(due.id)
        pollJob(due)
      }
      if (started.size === before) return
    }
  }

  let turning: Promise<void> | undefined
  function take(): void {
    if (isClosed) return
    turning ??= turn()
      .catch(error => deps.onProblem(error as Error, 'Video jobs could not be read.', ''))
      .finally(() => {
        turning = undefined
      })
  }
  const timer = setInterval(take, TICK_MS)
  const sweeper = setInterval(() => {
    clearExpiredKeys(db, Math.floor(nowMs() / 1000)).catch(error =>
      deps.onProblem(error as Error, 'Keys of finished video jobs could not be removed.', ''),
    )
  }, SWEEP_MS)
  timer.unref()
  sweeper.unref()

  return {
    /** The current job, polled again unless it was polled just now. Waits a few seconds at most. */
    async refresh(row: VideoRow): Promise<VideoRow> {
      if (row.phase !== 'running' || row.polled_ms > nowMs() - REFRESH_MS) return row
      const late = new AbortController()
      const isLate = delay(REFRESH_WAIT_MS, undefined, { signal: late.signal, ref: false }).catch(() => {})
      await Promise.race([pollJob(row, nowMs() - REFRESH_MS), isLate])
      late.abort()
      return (await findVideo(db, row.id)) ?? row
    },
    async close(): Promise<void> {
      isClosed = true
      clearInterval(timer)
      clearInterval(sweeper)
      await turning
      await Promise.all([...polls.values()].map(({ done }) => done))
    },
  }
}

class NotCovered extends Error {}
