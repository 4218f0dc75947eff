import type { ChannelCondition, Readiness } from '../domain/channel-condition.ts'
import { KEY_STATUS } from '../domain/channel-key.ts'
import type { Health } from './health.ts'
import { NO_KEY, type RoutedChannel } from './table.ts'

type PlanHealth = Pick<Health, 'ofChannel' | 'ofKey' | 'nextKeyIndex'>

const READY = { state: 'ready', againInMs: 0, reason: '' } as const

/** The condition of a channel for the next request: without a usable key it cools down, as it would by itself. */
export function conditionOf(
  health: Pick<Health, 'ofChannel' | 'ofKey' | 'failureOf'>,
  { id, keys }: Pick<RoutedChannel, 'id' | 'keys'>,
): ChannelCondition {
  const usable = keys.length === 0 ? [NO_KEY] : keys.filter(({ status }) => status === KEY_STATUS.enabled)
  const all = usable.map(key => {
    const readiness = health.ofKey(id, key)
    return { index: key.index, ...readiness, reason: health.failureOf(id, key) }
  })
  const unready = all.filter(({ state }) => state !== 'ready')
  const own = health.ofChannel(id)
  const soonest =
    unready.length < all.length
      ? undefined
      : unready.reduce<(typeof unready)[number] | undefined>(
          (best, key) => (best && best.againInMs <= key.againInMs ? best : key),
          undefined,
        )
  const isOwn = own.state !== 'ready' && own.againInMs >= (soonest?.againInMs ?? 0)
  const { state, againInMs, reason } = isOwn ? { ...own, reason: health.failureOf(id) } : (soonest ?? READY)
  return { id, channel: { state, againInMs, reason }, keys: keys.length === 0 ? [] : unready }
}

/** The health of channels and keys as these conditions describe it. */
export function healthOf(
  conditions: readonly ChannelCondition[],
  { nextKeyIndex }: Pick<PlanHealth, 'nextKeyIndex'>,
): PlanHealth {
  const byId = new Map(conditions.map(condition => [condition.id, condition]))
  const ofKey = (id: number, index: number): Readiness =>
    byId.get(id)?.keys.find(key => key.index === index) ?? READY
  return {
    nextKeyIndex,
    ofChannel: id => byId.get(id)?.channel ?? READY,
    ofKey: (id, { index }) => ofKey(id, index),
  }
}
