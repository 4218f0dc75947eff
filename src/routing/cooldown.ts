/** What is known of a channel or key that failed since it last succeeded. */
export type Cooldown = {
  /** Failures in a row that count against it. */
  strikes: number
  /** Rests in a row: each is twice as long as the one before. */
  rests: number
  isResting: boolean
  untilMs: number
  /** The number of the latest rest, 0 before the first. Attempts that began before it bear a lower one. */
  serial: number
  /** Who is trying it after the rest, and until when nobody else may. */
  trial: object | undefined
  trialUntilMs: number
}

export type Readiness = {
  /** `trial`: its rest is over, and one request may try it. `trying`: one is doing so. */
  readonly state: 'ready' | 'trial' | 'resting' | 'trying'
  /** When to look again; 0 for what can be used now. */
  readonly againInMs: number
}

const FIRST_REST_MS = 30_000
export const MAX_COOLDOWN_MS = 300_000

/** A trial whose end nobody tells must not keep a channel out for ever. */
const TRIAL_LEASE_MS = 120_000
const TRYING_MS = 1_000

export const READY: Readiness = { state: 'ready', againInMs: 0 }
const TRIAL: Readiness = { state: 'trial', againInMs: 0 }
const TRYING: Readiness = { state: 'trying', againInMs: TRYING_MS }

export const newCooldown = (): Cooldown => ({
  strikes: 0,
  rests: 0,
  isResting: false,
  untilMs: 0,
  serial: 0,
  trial: undefined,
  trialUntilMs: 0,
})

export function readinessOf(rest: Cooldown, nowMs: number): Readiness {
  if (!rest.isResting) return READY
  if (rest.untilMs > nowMs) return { state: 'resting', againInMs: rest.untilMs - nowMs }
  return rest.trial !== undefined && rest.trialUntilMs > nowMs ? TRYING : TRIAL
}

/** Twice as long each time, until a success. */
export function nextCooldownMs(rest: Cooldown): number {
  rest.rests += 1
  return Math.min(MAX_COOLDOWN_MS, FIRST_REST_MS * 2 ** (rest.rests - 1))
}

export function beginCooldown(rest: Cooldown, serial: number, untilMs: number): void {
  rest.serial = serial
  rest.isResting = true
  rest.untilMs = untilMs
}

export function beginTrial(rest: Cooldown, trial: object, nowMs: number): void {
  if (readinessOf(rest, nowMs).state !== 'trial') return
  rest.trial = trial
  rest.trialUntilMs = nowMs + TRIAL_LEASE_MS
}

export function endTrial(rest: Cooldown | undefined, trial: object): void {
  if (rest?.trial === trial) rest.trial = undefined
}
