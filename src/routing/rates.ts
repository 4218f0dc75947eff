import { steady } from './clock.ts'
import {
  type Allowance,
  advance,
  beginRequest,
  endRequest,
  isIdle,
  isQuiet,
  type LimitName,
  leaveRequest,
  type Meter,
  newMeter,
  type RateLimits,
  refusedBy,
  requestsLeft,
  tokensLeft,
} from './meter.ts'

export type SubjectKind = 'token' | 'user' | 'channel'

/** Somebody whose requests are limited. */
export type Subject = { readonly kind: SubjectKind; readonly id: number; readonly limits: RateLimits }

/**
 * When a place is free again for every worker: nothing to wait for where this process counts alone, or where no limit on
 * concurrency applies. The last byte of a response waits for it, so that the client's next request finds the place free.
 */
export type Release = Promise<void> | undefined

/** A running request: `end` gives its place back, and counts the first time it is called. */
export type Ticket = {
  end(realTokens: number): Release
  /** Nothing more goes out, but its tokens are yet to be counted: the place is free, what it may use is not. */
  leave(): Release
  /** What is left under the limits it runs under. */
  remaining(): Remaining
}

export type Admission =
  | { readonly ok: true; readonly ticket: Ticket }
  | {
      readonly ok: false
      readonly subject: Subject
      readonly limit: LimitName
      readonly retryAfterS: number
      readonly remaining: Remaining
    }

/** The tightest of each, where any is set: what the `x-ratelimit-…` headers tell. */
export type Remaining = { readonly requests?: Allowance; readonly tokens?: Allowance }

export type RateLimiter = {
  /** All of them or none; whoever is refused has used nothing. At once where this process counts alone. */
  admit(subjects: readonly Subject[], countedInput: number): Admission | Promise<Admission>
  /** For how long a subject's limits refuse another request; 0: they admit it. */
  fullForS(subject: Subject): number
}

/** Counts by itself, so it knows at once. */
export type OwnRates = Pick<RateLimiter, 'fullForS'> & {
  admit(subjects: readonly Subject[], countedInput: number): Admission
  remaining(subjects: readonly Subject[]): Remaining
  /** How many subjects are remembered. */
  size(): number
}

const MAX_SUBJECTS = 100_000
const SWEEP_MS = 60_000

/** The part of the subjects that goes when there are too many, so that the next ones need no search. */
const EVICTED_SHARE = 0.1
const QUIET_S = [60, 30, 10, 0]

const UNLIMITED: Ticket = { end: () => undefined, leave: () => undefined, remaining: () => ({}) }
/** Nobody counts where there is nothing to count. */
export const unlimited: Admission = { ok: true, ticket: UNLIMITED }

export const isLimited = ({ rpm, tpm, concurrency }: RateLimits) =>
  rpm !== null || tpm !== null || concurrency !== null

/**
 * Requests and tokens of the last minute, and running requests, for everybody who has a limit. Only those are counted:
 * a limit that is new counts what comes after it.
 */
export function createRates({
  nowMs,
  maxSubjects = MAX_SUBJECTS,
}: {
  readonly nowMs: () => number
  readonly maxSubjects?: number
}): OwnRates {
  const now = steady(nowMs)
  const meters: Record<SubjectKind, Map<number, Meter>> = {
    token: new Map(),
    user: new Map(),
    channel: new Map(),
  }
  let sweptMs = now()

  const size = () => meters.token.size + meters.user.size + meters.channel.size

  function find({ kind, id }: Subject, atMs: number): Meter | undefined {
    const meter = meters[kind].get(id)
    if (meter !== undefined) advance(meter, atMs)
    return meter
  }

  /** Forgets those that match, at most so many; how many it fell short. */
  function forget(isForgotten: (meter: Meter) => boolean, atMost: number): number {
    let left = atMost
    for (const ofKind of Object.values(meters)) {
      for (const [id, meter] of ofKind) {
        if (left === 0) return 0
        if (!isForgotten(meter)) continue
        ofKind.delete(id)
        left -= 1
      }
    }
    return left
  }

  function sweep(atMs: number): void {
    sweptMs = atMs
    forget(meter => {
      advance(meter, atMs)
      return isIdle(meter)
    }, Number.POSITIVE_INFINITY)
  }

  /** Beyond the bound some lose their minute, those quiet for long before others, but nobody a place that is taken. */
  function makeRoom(atMs: number): void {
    if (atMs - sweptMs >= SWEEP_MS) sweep(atMs)
    if (size() < maxSubjects) return
    let left = Math.ceil(maxSubjects * EVICTED_SHARE)
    for (const quietS of QUIET_S) left = forget(meter => isQuiet(meter, quietS, atMs), left)
  }

  function make({ kind, id }: Subject, atMs: number): Meter {
    makeRoom(atMs)
    const meter = newMeter()
    meters[kind].set(id, meter)
    return meter
  }

  /** At once for each, so that making room for the next never finds one of them idle. */
  function begin(subject: Subject, atMs: number, countedInput: number): Meter {
    const meter = find(subject, atMs) ?? make(subject, atMs)
    beginRequest(meter, atMs, countedInput)
    return meter
  }

  function refusal(subjects: readonly Subject[], atMs: number): Admission | undefined {
    let worst: Omit<Extract<Admission, { ok: false }>, 'remaining'> | undefined
    for (const subject of subjects) {
      const meter = find(subject, atMs)
      const refused = meter && refusedBy(meter, subject.limits, atMs)
      if (refused && refused.retryAfterS > (worst?.retryAfterS ?? 0))
        worst = { ok: false, subject, ...refused }
    }
    return worst && { ...worst, remaining: remaining(subjects) }
  }

  function remaining(subjects: readonly Subject[]): Remaining {
    const atMs = now()
    let requests: Allowance | undefined
    let tokens: Allowance | undefined
    for (const subject of subjects) {
      const { rpm, tpm } = subject.limits
      const meter = find(subject, atMs) ?? newMeter()
      if (rpm !== null) requests = tighter(requests, requestsLeft(meter, rpm, atMs))
      if (tpm !== null) tokens = tighter(tokens, tokensLeft(meter, tpm, atMs))
    }
    return { ...(requests && { requests }), ...(tokens && { tokens }) }
  }

  return {
    admit: (subjects, countedInput) => {
      const limited = subjects.filter(subject => isLimited(subject.limits))
      if (limited.length === 0) return unlimited
      const atMs = now()
      const refused = refusal(limited, atMs)
      if (refused !== undefined) return refused
      const used = limited.map(subject => begin(subject, atMs, countedInput))
      let isEnded = false
      let isLeft = false
      const leave = (): undefined => {
        if (isLeft) return
        isLeft = true
        for (const meter of used) leaveRequest(meter)
      }
      const end = (realTokens: number): undefined => {
        if (isEnded) return
        isEnded = true
        leave()
        const endedMs = now()
        for (const meter of used) endRequest(meter, endedMs, countedInput, realTokens)
      }
      return { ok: true, ticket: { end, leave, remaining: () => remaining(limited) } }
    },

    fullForS: subject => {
      if (!isLimited(subject.limits)) return 0
      const atMs = now()
      const meter = find(subject, atMs)
      return (meter && refusedBy(meter, subject.limits, atMs)?.retryAfterS) ?? 0
    },

    remaining,
    size,
  }
}

const tighter = (a: Allowance | undefined, b: Allowance) =>
  a !== undefined && a.remaining <= b.remaining ? a : b
