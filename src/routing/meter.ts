/** Limits of a token, user or channel; null: none (docs/reference/limits.md: Rate limits). */
export type RateLimits = {
  readonly rpm: number | null
  readonly tpm: number | null
  readonly concurrency: number | null
}
export type LimitName = keyof RateLimits

/** What was used in one second. */
type Slot = { readonly second: number; requests: number; tokens: number }

/** The last minute of a subject, second by second, and what is running. Quiet seconds take no room. */
export type Meter = {
  /** Oldest first. */
  readonly slots: Slot[]
  /** Sums over the slots. */
  requests: number
  tokens: number
  running: number
  /** The counted input of what is running. */
  runningInput: number
}

export type RateRefusal = { readonly limit: LimitName; readonly retryAfterS: number }

/** What is left of one limit; `resetS` says when all of it is back. */
export type Allowance = { readonly limit: number; readonly remaining: number; readonly resetS: number }

const WINDOW_S = 60

/** Nobody knows when a running request ends. */
const RUNNING_WAIT_S = 1

export const newMeter = (): Meter => ({ slots: [], requests: 0, tokens: 0, running: 0, runningInput: 0 })

const secondOf = (nowMs: number) => Math.floor(nowMs / 1_000)

/** Whole seconds until what happened in that second is out of the minute. */
const gone = (slot: Slot, nowMs: number) => Math.max(1, Math.ceil(slot.second + WINDOW_S - nowMs / 1_000))

/** Drops what is older than the minute: this second and the 59 before it count. */
export function advance(meter: Meter, nowMs: number): void {
  const oldest = secondOf(nowMs) - WINDOW_S
  for (let slot = meter.slots[0]; slot !== undefined && slot.second <= oldest; slot = meter.slots[0]) {
    meter.requests -= slot.requests
    meter.tokens -= slot.tokens
    meter.slots.shift()
  }
}

/** Meters are advanced before they are read or written. */
export const isIdle = (meter: Meter) => meter.running === 0 && meter.slots.length === 0

/** Nothing runs, and nothing happened for so long. */
export const isQuiet = ({ running, slots }: Meter, forS: number, nowMs: number) =>
  running === 0 && secondOf(nowMs) - (slots.at(-1)?.second ?? 0) >= forS

export function beginRequest(meter: Meter, nowMs: number, countedInput: number): void {
  slotAt(meter, nowMs).requests += 1
  meter.requests += 1
  meter.running += 1
  meter.runningInput += countedInput
}

export function leaveRequest(meter: Meter): void {
  meter.running -= 1
}

/** Of a request that has left its place. The real tokens take the place of the counted ones, in the second in which they are known. */
export function endRequest(meter: Meter, nowMs: number, countedInput: number, realTokens: number): void {
  advance(meter, nowMs)
  meter.runningInput -= countedInput
  if (realTokens === 0) return
  slotAt(meter, nowMs).tokens += realTokens
  meter.tokens += realTokens
}

function slotAt(meter: Meter, nowMs: number): Slot {
  const second = secondOf(nowMs)
  const last = meter.slots.at(-1)
  if (last?.second === second) return last
  const slot = { second, requests: 0, tokens: 0 }
  meter.slots.push(slot)
  return slot
}

/** The limit that keeps a request out longest. */
export function refusedBy(meter: Meter, limits: RateLimits, nowMs: number): RateRefusal | undefined {
  const { rpm, tpm, concurrency } = limits
  let refused: RateRefusal | undefined
  const refuse = (limit: LimitName, retryAfterS: number) => {
    if (refused === undefined || retryAfterS > refused.retryAfterS) refused = { limit, retryAfterS }
  }
  if (concurrency !== null && meter.running >= concurrency) refuse('concurrency', RUNNING_WAIT_S)
  if (rpm !== null && meter.requests >= rpm) refuse('rpm', waitS(meter, 'requests', rpm, nowMs))
  if (tpm !== null && meter.tokens + meter.runningInput >= tpm)
    refuse('tpm', waitS(meter, 'tokens', tpm - meter.runningInput, nowMs))
  return refused
}

/** How long until enough of the oldest seconds are gone for the sum to be below the limit. */
function waitS(meter: Meter, what: 'requests' | 'tokens', limit: number, nowMs: number): number {
  let left = meter[what]
  for (const slot of meter.slots) {
    left -= slot[what]
    if (left < limit) return gone(slot, nowMs)
  }
  // Running requests alone fill it: when they end, their tokens stay for a whole minute.
  return WINDOW_S
}

export function requestsLeft(meter: Meter, rpm: number, nowMs: number): Allowance {
  return {
    limit: rpm,
    remaining: Math.max(0, rpm - meter.requests),
    resetS: resetS(meter, 'requests', nowMs),
  }
}

export function tokensLeft(meter: Meter, tpm: number, nowMs: number): Allowance {
  return {
    limit: tpm,
    remaining: Math.max(0, tpm - meter.tokens - meter.runningInput),
    resetS: meter.runningInput > 0 ? WINDOW_S : resetS(meter, 'tokens', nowMs),
  }
}

function resetS(meter: Meter, what: 'requests' | 'tokens', nowMs: number): number {
  const last = meter.slots.findLast(slot => slot[what] > 0)
  return last === undefined ? 0 : gone(last, nowMs)
}
