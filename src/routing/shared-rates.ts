import {
  type Admission,
  isLimited,
  type OwnRates,
  type RateLimiter,
  type Release,
  type Remaining,
  type Subject,
  type Ticket,
  unlimited,
} from './rates.ts'

/** What the one who counts for all workers says of a request. */
export type RateReport =
  | { readonly ok: true; readonly id: number; readonly remaining: Remaining }
  | Extract<Admission, { ok: false }>

/** Counts for one worker. Its places are free again when it is gone. */
export function createRateServer(rates: OwnRates) {
  const tickets = new Map<number, Ticket>()
  let nextId = 1
  return {
    admit(subjects: readonly Subject[], countedInput: number): RateReport {
      const admission = rates.admit(subjects, countedInput)
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
      for (const ticket of tickets.values()) ticket.end(0)
      tickets.clear()
    },
  }
}

export type SharedRatesDeps = {
  admit(subjects: readonly Subject[], countedInput: number): Promise<RateReport>
  /** Both resolve when the count for all workers has changed. */
  leave(id: number): Promise<void>
  end(id: number, realTokens: number): Promise<void>
  nowMs(): number
}

/** Limits that several workers keep together: one of them counts, the others ask. Whoever has no limit is not asked about. */
export function createSharedRates({ admit, leave, end, nowMs }: SharedRatesDeps): RateLimiter {
  /**
   * Channels that have used up their minute, so that not every request has to ask to find out. A place among those that run
   * may be free again at any moment.
   */
  const fullUntilMs = new Map<number, number>()

  async function ask(subjects: readonly Subject[], countedInput: number): Promise<Admission> {
    const told = await admit(subjects, countedInput)
    if (!told.ok) {
      const { subject, limit, retryAfterS } = told
      if (subject.kind === 'channel' && limit !== 'concurrency')
        fullUntilMs.set(subject.id, nowMs() + retryAfterS * 1_000)
      return told
    }
    let isEnded = false
    const isCounted = subjects.some(({ limits }) => limits.concurrency !== null)
    /** A supervisor that is gone counts nothing any more: there is no place to wait for. */
    const released = (acknowledged: Promise<void>): Release => {
      const settled = acknowledged.catch(() => {})
      return isCounted ? settled : undefined
    }
    return {
      ok: true,
      ticket: {
        leave: () => (isEnded ? undefined : released(leave(told.id))),
        end(realTokens) {
          if (isEnded) return undefined
          isEnded = true
          return released(end(told.id, realTokens))
        },
        remaining: () => told.remaining,
      },
    }
  }

  return {
    admit(subjects, countedInput) {
      const limited = subjects.filter(subject => isLimited(subject.limits))
      return limited.length === 0 ? unlimited : ask(limited, countedInput)
    },
    fullForS({ kind, id, limits }) {
      const until = kind === 'channel' && isLimited(limits) ? fullUntilMs.get(id) : undefined
      if (until === undefined) return 0
      const leftS = Math.ceil((until - nowMs()) / 1_000)
      if (leftS <= 0) fullUntilMs.delete(id)
      return Math.max(0, leftS)
    },
  }
}
