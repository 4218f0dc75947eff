import type { Readiness } from '../domain/channel-condition.ts'

/** The state of a channel or key that failed since its last success. */
export type Cooldown = {
  /** Consecutive failures. */
  strikes: number
  /** Consecutive cooldowns: each is twice as long as the one before. */
  cooldowns: number
  isCoolingDown: boolean
  untilMs: number
  /** The number of the latest cooldown, 0 before the first. Attempts that began earlier have a lower number. */
  serial: number
  /** The attempt that tries the channel or key after the cooldown. No other attempt may until `trialUntilMs`. */
  trial: object | undefined
  trialUntilMs: number
  /** The latest failure, in the provider's words. */
  reason: string
}

const FIRST_COOLDOWN_MS = 30_000
export const MAX_COOLDOWN_MS = 300_000

/** A trial whose end is never reported blocks the channel for at most this long. */
const TRIAL_LEASE_MS = 120_000
const TRYING_MS = 1_000

export const READY: Readiness = { state: 'ready', againInMs: 0 }
const TRIAL: Readiness = { state: 'trial', againInMs: 0 }
const TRYING: Readiness = { state: 'trying', againInMs: TRYING_MS }

export const newCooldown = (): Cooldown => ({
  strikes: 0,
  cooldowns: 0,
  isCoolingDown: false,
  untilMs: 0,
  serial: 0,
  trial: undefined,
  trialUntilMs: 0,
  reason: '',
})

export function readinessOf(cooldown: Cooldown, nowMs: number): Readiness {
  if (!cooldown.isCoolingDown) return READY
  if (cooldown.untilMs > nowMs) return { state: 'resting', againInMs: cooldown.untilMs - nowMs }
  return cooldown.trial !== undefined && cooldown.trialUntilMs > nowMs ? TRYING : TRIAL
}

/** The length doubles each time, until a success. */
export function nextCooldownMs(cooldown: Cooldown): number {
  cooldown.cooldowns += 1
  return Math.min(MAX_COOLDOWN_MS, FIRST_COOLDOWN_MS * 2 ** (cooldown.cooldowns - 1))
}

export function beginCooldown(cooldown: Cooldown, serial: number, untilMs: number): void {
  cooldown.serial = serial
  cooldown.isCoolingDown = true
  cooldown.untilMs = untilMs
}

export function beginTrial(cooldown: Cooldown, trial: object, nowMs: number): void {
  if (readinessOf(cooldown, nowMs).state !== 'trial') return
  cooldown.trial = trial
  cooldown.trialUntilMs = nowMs + TRIAL_LEASE_MS
}

export function endTrial(cooldown: Cooldown | undefined, trial: object): void {
  if (cooldown?.trial === trial) cooldown.trial = undefined
}
