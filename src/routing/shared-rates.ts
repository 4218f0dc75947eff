import type { RateLimits } from './meter.ts'
import {
  type Admission,
  isLimited,
  type RateLimiter,
  type Release,
  type Remaining,
  type Subject,
  type Ticket,
  unlimited,
} from './rates.ts'

/** The answer of the supervisor, which counts for all workers. */
export type RateReport =
  | { readonly ok: true; readonly id: number; readonly remaining: Remaining }
  | Extract<Admission, { ok: false }>

/** The supervisor's side for one worker. `close` frees the slots of a worker that died. */
export function createRateServer(rates: Pick<RateLimiter, 'admit'>) {
  const tickets = new Map<number, Ticket>()
  let nextId = 1
  let isClosed = false
  return {
    async admit(subjects: readonly Subject[], countedInput: number): Promise<RateReport> {
      const admission = await rates.admit(subjects, countedInput)
      // The worker has died meanwhile.
      if (isClosed && admission.ok) admission.ticket.end(0)
      if (!admission.ok) return admission
      const id = nextId++
      tickets.set(id, admission.ticket)
      return { ok: true, id, remaining: admission.ticket.remaining() }
    },
    leave(id: number): void {
      tickets.get(id)?.leave()
    },
    end(id: number, realTokens: number): void {
      tickets.get(id)?.end(realTokens)
      tickets.delete(id)
    },
    close(): void {
      isClosed = true
      for (const ticket of tickets.values()) ticket.end(0)
      tickets.clear()
    },
  }
}

export type SharedRatesDeps = {
  admit(subjects: readonly Subject[], countedInput: number): Promise<RateReport>
  /** `leave` and `end` resolve when the supervisor has counted them. */
  leave(id: number): Promise<void>
  end(id: number, realTokens: number): Promise<void>
  nowMs(): number
}

/** `limits`: those that were exhausted. An administrator may raise them. */
type FullChannel = { readonly limits: RateLimits; readonly untilMs: number }

const hasSameLimits = ({ limits }: FullChannel, { rpm, tpm }: RateLimits) =>
  limits.rpm === rpm && limits.tpm === tpm

/** The worker's side of rate limits that the supervisor counts for all workers. Subjects without limits need no call. */
export function createSharedRates({ admit, leave, end, nowMs }: SharedRatesDeps): RateLimiter {
  /**
   * Channels whose rpm or tpm is used up by requests that have ended, cached so that not every request has to call the
   * supervisor. Concurrency and the tokens of running requests are not cached: they may become free at any moment.
   */
  const fullChannels = new Map<number, FullChannel>()

  async function ask(subjects: readonly Subject[], countedInput: number): Promise<Admission> {
    const report = await admit(subjects, countedInput)
    if (!report.ok) {
      const { subject, certainS } = report
      if (subject.kind === 'channel' && certainS > 0)
        fullChannels.set(subject.id, { limits: subject.limits, untilMs: nowMs() + certainS * 1_000 })
      return report
    }
    let isEnded = false
    const isCounted = subjects.some(({ limits }) => limits.concurrency !== null)
    /** A failed call means that the supervisor has ended: then there is no slot to wait for. */
    const released = (acknowledged: Promise<void>): Release => {
      const settled = acknowledged.catch(() => {})
      return isCounted ? settled : undefined
    }
    return {
      ok: true,
      ticket: {
        leave: () => (isEnded ? undefined : released(leave(report.id))),
        end(realTokens) {
          if (isEnded) return undefined
          isEnded = true
          return released(end(report.id, realTokens))
        },
        remaining: () => report.remaining,
      },
    }
  }

  return {
    admit(subjects, countedInput) {
      const limited = subjects.filter(subject => isLimited(subject.limits))
      return limited.length === 0 ? unlimited : ask(limited, countedInput)
    },
    fullForS({ kind, id, limits }) {
      const full = kind === 'channel' && isLimited(limits) ? fullChannels.get(id) : undefined
      if (full === undefined) return 0
      const leftS = hasSameLimits(full, limits) ? Math.ceil((full.untilMs - nowMs()) / 1_000) : 0
      if (leftS <= 0) fullChannels.delete(id)
      return Math.max(0, leftS)
    },
  }
}
