/** Limits of a token, user or channel; null: none (docs/reference/limits.md: Rate limits). */
export type RateLimits = {
  readonly rpm: number | null
  readonly tpm: number | null
  readonly concurrency: number | null
}
export type LimitName = keyof RateLimits

/** The usage of one second. */
type Slot = { readonly second: number; requests: number; tokens: number }

/** The usage of a subject in the last minute, second by second, and its running requests. Seconds without usage have no slot. */
export type Meter = {
  /** Oldest first. */
  readonly slots: Slot[]
  /** Sums over the slots. */
  requests: number
  tokens: number
  running: number
  /** The counted input tokens of running requests. */
  runningInput: number
}

export type RateRefusal = { readonly limit: LimitName; readonly retryAfterS: number }

/** The remaining part of one limit. After `resetS` seconds the whole limit is available again. */
export type Allowance = { readonly limit: number; readonly remaining: number; readonly resetS: number }

const WINDOW_S = 60

/** The end of a running request cannot be predicted, so the client retries soon. */
const RUNNING_WAIT_S = 1

export const newMeter = (): Meter => ({ slots: [], requests: 0, tokens: 0, running: 0, runningInput: 0 })

const secondOf = (nowMs: number) => Math.floor(nowMs / 1_000)

/** Whole seconds until a slot leaves the window. */
const secondsUntilExpiry = (slot: Slot, nowMs: number) =>
  Math.max(1, Math.ceil(slot.second + WINDOW_S - nowMs / 1_000))

/** Drops slots that are outside the window: the current second and the 59 before it count. */
export function advance(meter: Meter, nowMs: number): void {
  const oldest = secondOf(nowMs) - WINDOW_S
  for (let slot = meter.slots[0]; slot !== undefined && slot.second <= oldest; slot = meter.slots[0]) {
    meter.requests -= slot.requests
    meter.tokens -= slot.tokens
    meter.slots.shift()
  }
}

/** Call `advance` before reading or writing a meter. */
export const isIdle = (meter: Meter) => meter.running === 0 && meter.slots.length === 0

/** Whether no request runs and none was counted for `forS` seconds. */
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

/** Call it after `leaveRequest`. The real tokens replace the counted ones, in the second in which they are known. */
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

/** The exceeded limit with the longest wait. */
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

/** Seconds for which the limits refuse requests, however soon the running ones end. */
export function certainWaitS(meter: Meter, { rpm, tpm }: RateLimits, nowMs: number): number {
  return Math.max(
    rpm !== null && meter.requests >= rpm ? waitS(meter, 'requests', rpm, nowMs) : 0,
    tpm !== null && meter.tokens >= tpm ? waitS(meter, 'tokens', tpm, nowMs) : 0,
  )
}

/** Seconds until enough of the oldest slots have expired for the sum to be below the limit. */
function waitS(meter: Meter, unit: 'requests' | 'tokens', limit: number, nowMs: number): number {
  let sum = meter[unit]
  for (const slot of meter.slots) {
    sum -= slot[unit]
    if (sum < limit) return secondsUntilExpiry(slot, nowMs)
  }
  // Running requests alone exceed the limit: when they end, their tokens count for a whole minute.
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

function resetS(meter: Meter, unit: 'requests' | 'tokens', nowMs: number): number {
  const last = meter.slots.findLast(slot => slot[unit] > 0)
  return last === undefined ? 0 : secondsUntilExpiry(last, nowMs)
}
