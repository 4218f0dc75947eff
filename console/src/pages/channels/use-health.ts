import type { Channel, ChannelHealth } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import type { StatusName } from '../../look/status-badge.tsx'
import { statusOf } from './channel-types.ts'

const REFRESH_MS = 10_000

/** Current health of channels, by id. */
export function useHealth(): ReadonlyMap<number, ChannelHealth> {
  const { data } = useCall('channelHealth', {}, { refetchMs: REFRESH_MS })
  return new Map(data?.map(health => [health.channel_id, health]))
}

/** An enabled channel may be cooling down. */
export const stateOf = (channel: Channel, health: ChannelHealth | undefined): StatusName =>
  channel.status === 1 && health !== undefined && health.state !== 'ready'
    ? 'cooling_down'
    : statusOf(channel)
