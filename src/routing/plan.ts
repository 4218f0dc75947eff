import type { CanarySide } from '../domain/canary.ts'
import { KEY_STATUS } from '../domain/channel-key.ts'
import { createDraw, type Draw } from './draw.ts'
import type { Health } from './health.ts'
import {
  healthIdOf,
  NO_KEY,
  type RoutedChannel,
  type RoutedKey,
  type RoutedModel,
  sentModel,
} from './table.ts'

export type PlanStep<C> = {
  readonly channel: C
  readonly key: RoutedKey
  /** The model name that is sent upstream. */
  readonly sentModel: string
  /** The index of the channel's tier in the route, 0 for the highest priority. */
  readonly tier: number
  /** The cooldown of the channel or key is over, and this is the only request that tries it. */
  readonly isTrial: boolean
}

/** Why a channel is skipped. Callers add reasons of their own. */
export const SKIP_REASONS = {
  resting: 'resting',
  trying: 'trying',
  full: 'full',
  noKey: 'no_key',
  disabled: 'disabled',
} as const

export type SkipReason = {
  readonly channelId: number
  readonly reason: string
  /** When the channel may take a request again; absent if unknown. */
  readonly againInMs?: number
}

export type PlanOptions<C extends RoutedChannel> = {
  readonly route: RoutedModel<C>
  readonly health: Pick<Health, 'ofChannel' | 'ofKey' | 'nextKeyIndex'>
  /** Seconds until the channel's own rate limits admit another request; 0: now. */
  readonly fullForS: (channel: C) => number
  /** Why this channel cannot serve the request, such as an unsupported operation or a missing price. */
  readonly skipReason?: (channel: C) => string | undefined
  readonly random: () => number
  /** The maximum number of steps. */
  readonly attempts: number
}

export type Plan<C> = { readonly steps: readonly PlanStep<C>[]; readonly passedOver: readonly SkipReason[] }

/** The plan for a request that is not sent. */
export type RouteExplanation<C> = Plan<C> & {
  /** The model name that the channels list; undefined when no channel serves the requested model. */
  readonly servedAs: string | undefined
  readonly price: { readonly model: string; readonly version: string } | undefined
  /** The running canaries on the way of the request, and why it tries their changes or not. */
  readonly canaries: readonly ExplainedCanary[]
}

export type ExplainedCanary = {
  readonly id: number
  /** Null: the canary does not concern the request. */
  readonly side: CanarySide | null
  readonly reason: string
}

/** After so many skipped channels of a tier, the others are filtered in one pass, which is faster than single draws. */
const MAX_MISSES = 16

/**
 * The attempts of a request, one after the other: tiers from high to low priority, inside a tier by weight without
 * replacement, each channel at most once. Each step is chosen when it is requested, by the health at that moment. It reads
 * health and does not change it: the caller calls `health.begin`. An object of a class, because every request has one.
 */
export class PlanCursor<C extends RoutedChannel> {
  /** The channels skipped so far. */
  readonly passedOver: SkipReason[] = []
  readonly #options: PlanOptions<C>
  #poolIndex = 0
  /** Of the current pool; undefined before its first draw. */
  #draw: Draw<C> | undefined
  #misses = 0
  #taken = 0

  constructor(options: PlanOptions<C>) {
    this.#options = options
  }

  /** Undefined: no step is left. */
  next(): PlanStep<C> | undefined {
    const { route, attempts, random } = this.#options
    while (this.#taken < attempts) {
      const pool = route.pools[this.#poolIndex]
      if (pool === undefined) return undefined
      this.#draw ??= createDraw(pool, random)
      const channel = this.#draw.next()
      if (channel === undefined) {
        this.#poolIndex += 1
        this.#draw = undefined
        this.#misses = 0
        continue
      }
      const step = this.#stepOn(channel, pool.tier)
      if (step !== undefined) {
        this.#taken += 1
        return step
      }
      if (this.#misses === MAX_MISSES)
        this.#draw.removeUnless(other => this.#stepOn(other, pool.tier) !== undefined)
    }
    return undefined
  }

  /** Undoes the last step, because its channel reached a rate limit in the meantime. */
  passOverFull({ id }: C, againInS: number): void {
    this.#taken -= 1
    this.passedOver.push({ channelId: id, reason: SKIP_REASONS.full, againInMs: againInS * 1_000 })
  }

  /** Undoes the last step, because the request cannot use its channel for this reason. */
  passOver({ id }: C, reason: string): void {
    this.#taken -= 1
    this.passedOver.push({ channelId: id, reason })
  }

  #stepOn(channel: C, tier: number): PlanStep<C> | undefined {
    const candidate = stepOrSkip(this.#options, channel, tier)
    if (!('reason' in candidate)) return candidate
    this.passedOver.push(candidate)
    this.#misses += 1
    return undefined
  }
}

/** The whole plan at this moment, with a reason for every skipped channel. */
export function plan<C extends RoutedChannel>(options: PlanOptions<C>): Plan<C> {
  const cursor = new PlanCursor(options)
  const steps: PlanStep<C>[] = []
  for (let step = cursor.next(); step !== undefined; step = cursor.next()) steps.push(step)
  return {
    steps,
    passedOver: [
      ...cursor.passedOver,
      ...options.route.disabled.map(channel => ({ channelId: channel.id, reason: SKIP_REASONS.disabled })),
    ],
  }
}

/** For a request that no channel could take: whole seconds until the first skipped channel is available again. */
export function retryAfterS(passedOver: readonly SkipReason[]): number | undefined {
  let soonestMs = Number.POSITIVE_INFINITY
  for (const { againInMs } of passedOver) soonestMs = Math.min(soonestMs, againInMs ?? soonestMs)
  return Number.isFinite(soonestMs) ? Math.max(1, Math.ceil(soonestMs / 1_000)) : undefined
}

function stepOrSkip<C extends RoutedChannel>(
  { route, health, fullForS, skipReason }: PlanOptions<C>,
  channel: C,
  tier: number,
): PlanStep<C> | SkipReason {
  const channelId = channel.id
  const refused = skipReason?.(channel)
  if (refused !== undefined) return { channelId, reason: refused }
  const { state, againInMs } = health.ofChannel(healthIdOf(channel))
  if (state === 'resting' || state === 'trying') return { channelId, reason: SKIP_REASONS[state], againInMs }
  const fullS = fullForS(channel)
  if (fullS > 0) return { channelId, reason: SKIP_REASONS.full, againInMs: fullS * 1_000 }
  const chosen = chooseKey(health, channel)
  if ('reason' in chosen) return chosen
  return {
    channel,
    key: chosen.key,
    sentModel: sentModel(channel, route.model),
    tier,
    isTrial: state === 'trial' || chosen.isTrial,
  }
}

/** Round robin over the keys, without those that are disabled or cooling down. */
function chooseKey(
  health: PlanOptions<RoutedChannel>['health'],
  channel: RoutedChannel,
): { readonly key: RoutedKey; readonly isTrial: boolean } | SkipReason {
  const { id, keys } = channel
  const healthId = healthIdOf(channel)
  const count = Math.max(1, keys.length)
  const first = health.nextKeyIndex(healthId)
  let skip: SkipReason = { channelId: id, reason: SKIP_REASONS.noKey }
  for (let offset = 0; offset < count; offset += 1) {
    const key = keys[(first + offset) % count] ?? NO_KEY
    if (key.status !== KEY_STATUS.enabled) continue
    const { state, againInMs } = health.ofKey(healthId, key)
    if (state === 'ready' || state === 'trial') return { key, isTrial: state === 'trial' }
    if (againInMs < (skip.againInMs ?? Number.POSITIVE_INFINITY))
      skip = { channelId: id, reason: SKIP_REASONS[state], againInMs }
  }
  return skip
}
