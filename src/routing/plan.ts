import { KEY_STATUS } from '../domain/channel-key.ts'
import { createDraw } from './draw.ts'
import type { Health } from './health.ts'
import { NO_KEY, type RoutedChannel, type RoutedKey, type RoutedModel, sentModel } from './table.ts'

export type PlanStep<C> = {
  readonly channel: C
  readonly key: RoutedKey
  /** The name of the model that goes upstream. */
  readonly sentModel: string
  /** The place of the channel's tier in the route, 0 for the highest priority. */
  readonly tier: number
  /** Its channel or key has rested, and nobody else may try it meanwhile. */
  readonly isTrial: boolean
}

/** Why a channel is not tried; a caller's own reasons stand beside these. */
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
  /** When it may take a request again; absent where nobody knows. */
  readonly againInMs?: number
}

export type PlanOptions<C extends RoutedChannel> = {
  readonly route: RoutedModel<C>
  readonly health: Pick<Health, 'ofChannel' | 'ofKey' | 'turn'>
  /** For how long the channel's own limits refuse another request; 0: they admit it. */
  readonly fullForS: (channel: C) => number
  /** Why this request cannot go there: an operation that the vendor lacks, a missing price. */
  readonly refusal?: (channel: C) => string | undefined
  readonly random: () => number
  /** At most so many steps. */
  readonly attempts: number
}

export type PlanCursor<C> = {
  /** Each step is chosen when it is asked for, by what is known at that moment. */
  readonly steps: IterableIterator<PlanStep<C>>
  /** What the walk has passed over so far. */
  readonly passedOver: readonly SkipReason[]
  /** The step just taken led to a channel that somebody else had filled meanwhile: it was none. */
  turnedAway(channel: C, againInS: number): void
  /** The step just taken turned out to be none, for this reason. */
  passOver(channel: C, reason: string): void
}

export type Plan<C> = { readonly steps: readonly PlanStep<C>[]; readonly passedOver: readonly SkipReason[] }

/** The plan for a request that is not sent. */
export type RouteExplanation<C> = Plan<C> & {
  /** The model name that the channels list; undefined when no channel serves the requested model. */
  readonly servedAs: string | undefined
  readonly price: { readonly model: string; readonly version: string } | undefined
}

/** When so many of a tier were out, the others are looked at one by one: a thousand draws in vain cost far more. */
const DRAWS_IN_VAIN = 16

/**
 * The attempts of a request, one after the other: tiers from high to low, inside a tier by weight without replacement,
 * nothing twice. It only looks at health and changes nothing; whoever takes a step begins it there.
 */
export function planCursor<C extends RoutedChannel>(options: PlanOptions<C>): PlanCursor<C> {
  const walked: Walked = { passedOver: [], taken: 0 }
  const { passedOver } = walked
  return {
    steps: stepsOf(options, walked),
    passedOver,
    turnedAway({ id }, againInS) {
      walked.taken -= 1
      passedOver.push({ channelId: id, reason: SKIP_REASONS.full, againInMs: againInS * 1_000 })
    },
    passOver({ id }, reason) {
      walked.taken -= 1
      passedOver.push({ channelId: id, reason })
    },
  }
}

type Walked = { readonly passedOver: SkipReason[]; taken: number }

/** The whole plan as it stands now, with a reason for everything that is left out. */
export function plan<C extends RoutedChannel>(options: PlanOptions<C>): Plan<C> {
  const { steps, passedOver } = planCursor(options)
  return {
    steps: [...steps],
    passedOver: [
      ...passedOver,
      ...options.route.disabled.map(channel => ({ channelId: channel.id, reason: SKIP_REASONS.disabled })),
    ],
  }
}

/** For a request that nobody could take: when the first of those passed over is back, in whole seconds. */
export function retryAfterS(passedOver: readonly SkipReason[]): number | undefined {
  let soonestMs = Number.POSITIVE_INFINITY
  for (const { againInMs } of passedOver) soonestMs = Math.min(soonestMs, againInMs ?? soonestMs)
  return Number.isFinite(soonestMs) ? Math.max(1, Math.ceil(soonestMs / 1_000)) : undefined
}

function* stepsOf<C extends RoutedChannel>(
  options: PlanOptions<C>,
  walked: Walked,
): Generator<PlanStep<C>, void, undefined> {
  const { route, attempts, random } = options
  for (const pool of route.pools) {
    const draw = createDraw(pool, random)
    let inVain = 0
    const stepOn = (channel: C): PlanStep<C> | undefined => {
      const judged = judge(options, channel, pool.tier)
      if (!('reason' in judged)) return judged
      walked.passedOver.push(judged)
      inVain += 1
      return undefined
    }
    while (walked.taken < attempts) {
      const channel = draw.next()
      if (channel === undefined) break
      const step = stepOn(channel)
      if (step !== undefined) {
        walked.taken += 1
        yield step
      } else if (inVain === DRAWS_IN_VAIN) {
        draw.sift(other => stepOn(other) !== undefined)
      }
    }
  }
}

function judge<C extends RoutedChannel>(
  { route, health, fullForS, refusal }: PlanOptions<C>,
  channel: C,
  tier: number,
): PlanStep<C> | SkipReason {
  const channelId = channel.id
  const refused = refusal?.(channel)
  if (refused !== undefined) return { channelId, reason: refused }
  const { state, againInMs } = health.ofChannel(channelId)
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

/** Keys take turns; those that are disabled or rest lose theirs. */
function chooseKey(
  health: PlanOptions<RoutedChannel>['health'],
  { id, keys }: RoutedChannel,
): { readonly key: RoutedKey; readonly isTrial: boolean } | SkipReason {
  const count = Math.max(1, keys.length)
  const turn = health.turn(id)
  let passed: SkipReason = { channelId: id, reason: SKIP_REASONS.noKey }
  for (let place = 0; place < count; place += 1) {
    const key = keys[(turn + place) % count] ?? NO_KEY
    if (key.status !== KEY_STATUS.enabled) continue
    const { state, againInMs } = health.ofKey(id, key)
    if (state === 'ready' || state === 'trial') return { key, isTrial: state === 'trial' }
    if (againInMs < (passed.againInMs ?? Number.POSITIVE_INFINITY))
      passed = { channelId: id, reason: SKIP_REASONS[state], againInMs }
  }
  return passed
}
