import { CHANNEL_STATUS } from '../domain/channel.ts'
import { KEY_STATUS } from '../domain/channel-key.ts'
import { type Cooldown, newCooldown } from './cooldown.ts'
import { NO_KEY, type RoutedChannel, type RoutedKey } from './table.ts'

/** The cooldowns of channels and keys that failed since their last success. Healthy ones are absent. */
export type CooldownBook = {
  ofChannel(channelId: number): Cooldown | undefined
  ofKey(channelId: number, key: RoutedKey): Cooldown | undefined
  addChannel(channelId: number): Cooldown
  addKey(channelId: number, key: RoutedKey): Cooldown
  forgetChannel(channelId: number): void
  forgetKey(channelId: number, value: string): void
  /** Removes deleted and disabled channels and keys: a channel that is enabled again starts without a cooldown. */
  prune(find: (channelId: number) => RoutedChannel | undefined): void
  size(): number
}

export function createCooldownBook(): CooldownBook {
  const channels = new Map<number, Cooldown>()
  // By the value of the key: positions shift when a key is deleted, and a replaced key must not inherit a cooldown.
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
      const cooldown = channels.get(channelId) ?? newCooldown()
      channels.set(channelId, cooldown)
      return cooldown
    },

    addKey: (channelId, key) => {
      const ofChannel = keys.get(channelId) ?? new Map<string, Cooldown>()
      keys.set(channelId, ofChannel)
      const cooldown = ofChannel.get(key.value) ?? newCooldown()
      ofChannel.set(key.value, cooldown)
      return cooldown
    },

    forgetChannel: channelId => {
      channels.delete(channelId)
    },

    forgetKey,

    prune: find => {
      for (const id of channels.keys()) if (find(id)?.status !== CHANNEL_STATUS.enabled) channels.delete(id)
      for (const [id, cooldowns] of keys) {
        const inUse = new Set(keysInUse(find(id)))
        for (const value of cooldowns.keys()) if (!inUse.has(value)) forgetKey(id, value)
      }
    },

    size: () => [...keys.values()].reduce((sum, cooldowns) => sum + cooldowns.size, channels.size),
  }
}

function keysInUse(channel: RoutedChannel | undefined): readonly string[] {
  if (channel?.status !== CHANNEL_STATUS.enabled) return []
  if (channel.keys.length === 0) return [NO_KEY.value]
  return channel.keys.filter(key => key.status === KEY_STATUS.enabled).map(key => key.value)
}
