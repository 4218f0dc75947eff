import type { Channel, ChannelHealth } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'

const REFRESH_MS = 10_000

/** Current health of channels, by id. */
export function useHealth(): ReadonlyMap<number, ChannelHealth> {
  const { data } = useCall('channelHealth', {}, { refetchMs: REFRESH_MS })
  return new Map(data?.map(health => [health.channel_id, health]))
}

/** The cooldown of an enabled channel; undefined: requests use it. Health is newer than the channel. */
export function cooldownOf(channel: Channel, health: ChannelHealth | undefined) {
  if (channel.status !== 1) return undefined
  if (health) return health.state === 'ready' ? undefined : health
  const { state, cooldown_until, cooldown_reason } = channel
  return state === 'cooling_down' || state === 'trial'
    ? { cooldown_until, reason: cooldown_reason }
    : undefined
}
