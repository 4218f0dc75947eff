import { setTimeout as delay } from 'node:timers/promises'
import { EMPTY } from '../../domain/usage.ts'
import type { VideoRow } from '../../store/engine/schema.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { Trace } from '../request.ts'
import { settle } from '../settlement.ts'
import type { VideoRequest } from './attempt.ts'
import type { VideoDeps } from './deps.ts'
import type { Search } from './search.ts'

type Doubted = {
  readonly errand: VideoRequest
  readonly row: VideoRow
  readonly channel: RelayChannel
  /** How many videos it would make. */
  readonly videos: number
  readonly reason: string
  readonly trace: Trace
}

const FIRST_LOOK_MS = 1_000
const MOST_MS = 30_000

export const LOST = {
  code: 'upstream_timeout',
  message: 'the provider did not answer the submission, and the job was not found there',
}

/**
 * Keeps the holds of submissions that nobody answered, and looks for the jobs: found, it is paid; not found in time, it has
 * failed, the hold is released and the estimate stands in doubt (docs/reference/videos.md: Unresolved submissions).
 */
export function createSuspenseBook(deps: VideoDeps, search: Search) {
  const stopping = new AbortController()
  const running = new Set<Promise<void>>()

  const doubtsOf = ({ errand, channel, videos, reason }: Doubted) => [
    {
      channelId: channel.id,
      amount: errand.priced.costOf(channel, errand.priced.usageOn(channel, videos)),
      reason: `a video job was sent and not answered: ${reason}`,
    },
  ]

  async function lookOnce({ row }: Doubted): Promise<string | undefined> {
    try {
      return await search(row)
    } catch (error) {
      deps.onTrouble(error as Error, 'a lost video job could not be looked for', row.id)
      return undefined
    }
  }

  async function watch(doubted: Doubted): Promise<void> {
    const { errand, row, channel, videos, trace } = doubted
    const untilMs = errand.startedMs + deps.doubtMs
    const video = { id: row.id }
    let waitMs = FIRST_LOOK_MS
    while (deps.nowMs() < untilMs && !stopping.signal.aborted) {
      const remainingMs = Math.max(1, untilMs - deps.nowMs())
      await delay(Math.min(waitMs, remainingMs), undefined, { signal: stopping.signal, ref: false }).catch(
        () => {},
      )
      if (stopping.signal.aborted) break
      const upstreamId = await lookOnce(doubted)
      if (upstreamId !== undefined) {
        await settle(errand, {
          channel,
          usage: errand.priced.usageOn(channel, videos),
          source: 'provider',
          trace,
          video: { ...video, outcome: 'accepted', upstreamIds: [upstreamId] },
        })
        return
      }
      waitMs = Math.min(MOST_MS, waitMs * 2)
    }
    const isLost = deps.nowMs() >= untilMs
    await settle(errand, {
      channel,
      usage: EMPTY,
      source: 'zero',
      trace,
      error: doubted.reason,
      doubts: doubtsOf(doubted),
      // Whoever goes on after a stop looks further; the money is in doubt from now on.
      video: isLost ? { ...video, outcome: 'lost', ...LOST } : { ...video, outcome: 'doubt' },
    })
  }

  return {
    keep(doubted: Doubted): void {
      const watching = watch(doubted)
        .catch(error => deps.onTrouble(error as Error, 'a doubt could not be settled', doubted.row.id))
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
