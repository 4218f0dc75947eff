import { CHANNEL_STATUS } from '../domain/channel.ts'
import { KEY_STATUS } from '../domain/channel-key.ts'
import { type Cooldown, newCooldown } from './cooldown.ts'
import { NO_KEY, type RoutedChannel, type RoutedKey } from './table.ts'

/** Channels and keys that failed since they last succeeded; all others are absent, so it holds the sick only. */
export type CooldownBook = {
  ofChannel(channelId: number): Cooldown | undefined
  ofKey(channelId: number, key: RoutedKey): Cooldown | undefined
  addChannel(channelId: number): Cooldown
  addKey(channelId: number, key: RoutedKey): Cooldown
  forgetChannel(channelId: number): void
  forgetKey(channelId: number, value: string): void
  /** Forgets what is gone, and what is disabled, so that it begins anew when it comes back. */
  keep(find: (channelId: number) => RoutedChannel | undefined): void
  size(): number
}

export function createCooldownBook(): CooldownBook {
  const channels = new Map<number, Cooldown>()
  // Keys are known by value: places move up when one is deleted, and a replaced key must not inherit a rest.
  const keys = new Map<number, Map<string, Cooldown>>()

  function forgetKey(channelId: number, value: string): void {
    const ofChannel = keys.get(channelId)
    ofChannel?.delete(value)
    if (ofChannel?.size === 0) keys.delete(channelId)
  }

  return {
    ofChannel: channelId => channels.get(channelId),
    ofKey: (channelId, key) => keys.get(channelId)?.get(key.value),

    addChannel: channelId => {
      const rest = channels.get(channelId) ?? newCooldown()
      channels.set(channelId, rest)
      return rest
    },

    addKey: (channelId, key) => {
      const ofChannel = keys.get(channelId) ?? new Map<string, Cooldown>()
      keys.set(channelId, ofChannel)
      const rest = ofChannel.get(key.value) ?? newCooldown()
      ofChannel.set(key.value, rest)
      return rest
    },

    forgetChannel: channelId => {
      channels.delete(channelId)
    },

    forgetKey,

    keep: find => {
      for (const id of channels.keys()) if (find(id)?.status !== CHANNEL_STATUS.enabled) channels.delete(id)
      for (const [id, rests] of keys) {
        const inUse = new Set(keysInUse(find(id)))
        for (const value of rests.keys()) if (!inUse.has(value)) forgetKey(id, value)
      }
    },

    size: () => [...keys.values()].reduce((sum, rests) => sum + rests.size, channels.size),
  }
}

function keysInUse(channel: RoutedChannel | undefined): readonly string[] {
  if (channel?.status !== CHANNEL_STATUS.enabled) return []
  if (channel.keys.length === 0) return [NO_KEY.value]
  return channel.keys.filter(key => key.status === KEY_STATUS.enabled).map(key => key.value)
}
