import { setTimeout as delay } from 'node:timers/promises'
import { EMPTY } from '../../domain/usage.ts'
import type { VideoRow } from '../../store/engine/schema.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { Trace } from '../request.ts'
import { settle } from '../settlement.ts'
import type { VideoRequest } from './attempt.ts'
import type { VideoDeps } from './deps.ts'
import type { Search } from './search.ts'

type UnansweredSubmission = {
  readonly videoRequest: VideoRequest
  readonly row: VideoRow
  readonly channel: RelayChannel
  /** The number of videos that it would generate. */
  readonly videos: number
  readonly reason: string
  readonly trace: Trace
}

const FIRST_LOOK_MS = 1_000
const MOST_MS = 30_000

export const LOST = {
  code: 'upstream_timeout',
  message: 'The provider did not confirm the job, and the job was not found there.',
}

/**
 * Keeps the holds of unanswered submissions while it searches for their jobs. A job that is found is charged. A job that
 * is not found in time has failed: its hold is released, and its estimate goes to suspense
 * (docs/reference/videos.md: Unresolved submissions).
 */
export function createSuspenseBook(deps: VideoDeps, search: Search) {
  const stopping = new AbortController()
  const running = new Set<Promise<void>>()

  const suspenseOf = ({ videoRequest, channel, videos, reason }: UnansweredSubmission) => [
    {
      channelId: channel.id,
      amount: videoRequest.priced.costOf(channel, videoRequest.priced.usageOn(channel, videos)),
      reason: `The provider did not confirm the video job: ${reason}`,
    },
  ]

  async function searchOnce({ row }: UnansweredSubmission): Promise<string | undefined> {
    try {
      return await search(row)
    } catch (error) {
      deps.onProblem(error as Error, 'The search for an unconfirmed video job failed.', row.id)
      return undefined
    }
  }

  async function watch(unanswered: UnansweredSubmission): Promise<void> {
    const { row, channel, videos, trace } = unanswered
    // The request has been reported without a settlement, or is about to be.
    const report = { ...unanswered.videoRequest.report }
    const videoRequest = { ...unanswered.videoRequest, report }
    const untilMs = videoRequest.startedMs + deps.searchMs
    const video = { id: row.id }
    let waitMs = FIRST_LOOK_MS
    while (deps.nowMs() < untilMs && !stopping.signal.aborted) {
      const remainingMs = Math.max(1, untilMs - deps.nowMs())
      await delay(Math.min(waitMs, remainingMs), undefined, { signal: stopping.signal, ref: false }).catch(
        () => {},
      )
      if (stopping.signal.aborted) break
      const upstreamId = await searchOnce(unanswered)
      if (upstreamId !== undefined) {
        await settle(videoRequest, {
          channel,
          usage: videoRequest.priced.usageOn(channel, videos),
          source: 'provider',
          trace,
          video: { ...video, outcome: 'accepted', upstreamIds: [upstreamId] },
        })
        deps.onLateSettlement(report)
        return
      }
      waitMs = Math.min(MOST_MS, waitMs * 2)
    }
    const isLost = deps.nowMs() >= untilMs
    await settle(videoRequest, {
      channel,
      usage: EMPTY,
      source: 'zero',
      trace,
      error: unanswered.reason,
      errorCode: LOST.code,
      suspense: suspenseOf(unanswered),
      // After a restart the poller continues the search. From now on the amount is in suspense.
      video: isLost ? { ...video, outcome: 'lost', ...LOST } : { ...video, outcome: 'doubt' },
    })
    deps.onLateSettlement(report)
  }

  return {
    keep(unanswered: UnansweredSubmission): void {
      const watching = watch(unanswered)
        .catch(error =>
          deps.onProblem(error as Error, 'An unresolved charge could not be settled.', unanswered.row.id),
        )
        .finally(() => running.delete(watching))
      running.add(watching)
    },
    async close(): Promise<void> {
      stopping.abort()
      await Promise.all(running)
    },
  }
}

export type SuspenseBook = ReturnType<typeof createSuspenseBook>
