import type { Channel, Health } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import type { GateState } from '../../look/status-badge.tsx'
import { gateOf } from './channel-types.ts'

const REFRESH_MS = 10_000

/** How channels fare right now, by id. */
export function useHealth(): ReadonlyMap<number, Health> {
  const { data } = useCall('channelHealth', {}, { everyMs: REFRESH_MS })
  return new Map(data?.map(health => [health.channel_id, health]))
}

/** An enabled channel may still be resting. */
export const stateOf = (channel: Channel, health: Health | undefined): GateState =>
  channel.status === 1 && health !== undefined && health.state !== 'ready' ? 'cooling_down' : gateOf(channel)
