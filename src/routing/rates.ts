import {
  type Allowance,
  advance,
  beginRequest,
  certainWaitS,
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

/** A token, user or channel with rate limits. */
export type Subject = { readonly kind: SubjectKind; readonly id: number; readonly limits: RateLimits }

/**
 * Resolves when every worker sees the concurrency slot as free; undefined where this process counts alone, or where no
 * concurrency limit applies. The last byte of a response waits for it, so that the client's next request is admitted.
 */
export type Release = Promise<void> | undefined

/** A running request. `end` frees its concurrency slot; only the first call counts. */
export type Ticket = {
  end(realTokens: number): Release
  /** Frees the concurrency slot before the tokens are counted; the counted input stays reserved until `end`. */
  leave(): Release
  /** What remains of the limits that apply to the request. */
  remaining(): Remaining
}

export type Admission =
  | { readonly ok: true; readonly ticket: Ticket }
  | {
      readonly ok: false
      readonly subject: Subject
      readonly limit: LimitName
      readonly retryAfterS: number
      /** Seconds for which the limits of the subject refuse requests, whatever running requests and other machines do. */
      readonly certainS: number
      readonly remaining: Remaining
    }

/** The tightest limit of each kind, for the `x-ratelimit-…` headers. */
export type Remaining = { readonly requests?: Allowance; readonly tokens?: Allowance }

export type RateLimiter = {
  /** Admits the request for all subjects or none; a refused request is not counted. Synchronous where this process counts alone. */
  admit(subjects: readonly Subject[], countedInput: number): Admission | Promise<Admission>
  /** Seconds until the subject's limits admit another request; 0: now. */
  fullForS(subject: Subject): number
}

/** Rate limits counted in this process, so all answers are synchronous. */
export type OwnRates = Pick<RateLimiter, 'fullForS'> & {
  admit(subjects: readonly Subject[], countedInput: number): Admission
  remaining(subjects: readonly Subject[]): Remaining
  /** As `certainS` of a refusal. */
  certainlyFullForS(subject: Subject): number
  /** What the subject has used: requests and tokens of the last minute, and running requests. */
  used(subject: Pick<Subject, 'kind' | 'id'>): Readonly<Record<LimitName, number>>
  /** The number of subjects in memory. */
  size(): number
}

const MAX_SUBJECTS = 100_000
const SWEEP_MS = 60_000

/** The share of subjects that is evicted at the bound, so that the next subjects need no search. */
const EVICTED_SHARE = 0.1
const QUIET_S = [60, 30, 10, 0]

const UNLIMITED: Ticket = { end: () => undefined, leave: () => undefined, remaining: () => ({}) }
const NO_USE = { rpm: 0, tpm: 0, concurrency: 0 }
/** For subjects without limits. */
export const unlimited = { ok: true, ticket: UNLIMITED } as const satisfies Admission

export const isLimited = ({ rpm, tpm, concurrency }: RateLimits) =>
  rpm !== null || tpm !== null || concurrency !== null

/**
 * Counts the requests and tokens of the last minute, and running requests, of every subject that has a limit. A new limit
 * counts from the moment it is set. `nowMs` must be monotonic.
 */
export function createRates({
  nowMs,
  maxSubjects = MAX_SUBJECTS,
}: {
  readonly nowMs: () => number
  readonly maxSubjects?: number
}): OwnRates {
  const meters: Record<SubjectKind, Map<number, Meter>> = {
    token: new Map(),
    user: new Map(),
    channel: new Map(),
  }
  let sweptMs = nowMs()

  const size = () => meters.token.size + meters.user.size + meters.channel.size

  function find({ kind, id }: Pick<Subject, 'kind' | 'id'>, atMs: number): Meter | undefined {
    const meter = meters[kind].get(id)
    if (meter !== undefined) advance(meter, atMs)
    return meter
  }

  /** Removes at most `atMost` matching meters. Returns how many fewer it removed. */
  function forget(matches: (meter: Meter) => boolean, atMost: number): number {
    let toForget = atMost
    for (const ofKind of Object.values(meters)) {
      for (const [id, meter] of ofKind) {
        if (toForget === 0) return 0
        if (!matches(meter)) continue
        ofKind.delete(id)
        toForget -= 1
      }
    }
    return toForget
  }

  function sweep(atMs: number): void {
    sweptMs = atMs
    forget(meter => {
      advance(meter, atMs)
      return isIdle(meter)
    }, Number.POSITIVE_INFINITY)
  }

  /** Above the bound, evicts the meters that were idle longest. Meters with running requests stay. */
  function makeRoom(atMs: number): void {
    if (atMs - sweptMs >= SWEEP_MS) sweep(atMs)
    if (size() < maxSubjects) return
    let toForget = Math.ceil(maxSubjects * EVICTED_SHARE)
    for (const quietS of QUIET_S) toForget = forget(meter => isQuiet(meter, quietS, atMs), toForget)
  }

  function make({ kind, id }: Subject, atMs: number): Meter {
    makeRoom(atMs)
    const meter = newMeter()
    meters[kind].set(id, meter)
    return meter
  }

  /** Counts the request at once, so that `makeRoom` for the next subject does not evict this meter as idle. */
  function begin(subject: Subject, atMs: number, countedInput: number): Meter {
    const meter = find(subject, atMs) ?? make(subject, atMs)
    beginRequest(meter, atMs, countedInput)
    return meter
  }

  function refusal(subjects: readonly Subject[], atMs: number): Admission | undefined {
    let worst: Omit<Extract<Admission, { ok: false }>, 'remaining' | 'certainS'> | undefined
    for (const subject of subjects) {
      const meter = find(subject, atMs)
      const refused = meter && refusedBy(meter, subject.limits, atMs)
      if (refused && refused.retryAfterS > (worst?.retryAfterS ?? 0))
        worst = { ok: false, subject, ...refused }
    }
    return worst && { ...worst, certainS: certainlyFullForS(worst.subject), remaining: remaining(subjects) }
  }

  function certainlyFullForS(subject: Subject): number {
    const atMs = nowMs()
    const meter = find(subject, atMs)
    return meter === undefined ? 0 : certainWaitS(meter, subject.limits, atMs)
  }

  function remaining(subjects: readonly Subject[]): Remaining {
    const atMs = nowMs()
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
      const atMs = nowMs()
      const refused = refusal(limited, atMs)
      if (refused !== undefined) return refused
      const used = limited.map(subject => begin(subject, atMs, countedInput))
      let isEnded = false
      let hasLeft = false
      const leave = (): undefined => {
        if (hasLeft) return
        hasLeft = true
        for (const meter of used) leaveRequest(meter)
      }
      const end = (realTokens: number): undefined => {
        if (isEnded) return
        isEnded = true
        leave()
        const endedMs = nowMs()
        for (const meter of used) endRequest(meter, endedMs, countedInput, realTokens)
      }
      return { ok: true, ticket: { end, leave, remaining: () => remaining(limited) } }
    },

    fullForS: subject => {
      if (!isLimited(subject.limits)) return 0
      const atMs = nowMs()
      const meter = find(subject, atMs)
      return (meter && refusedBy(meter, subject.limits, atMs)?.retryAfterS) ?? 0
    },

    remaining,
    certainlyFullForS,
    used(subject) {
      const meter = find(subject, nowMs())
      if (!meter) return NO_USE
      return { rpm: meter.requests, tpm: meter.tokens + meter.runningInput, concurrency: meter.running }
    },
    size,
  }
}

export const tighter = (a: Allowance | undefined, b: Allowance) =>
  a !== undefined && a.remaining <= b.remaining ? a : b
