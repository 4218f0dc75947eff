import { CHANNEL_STATUS } from '../domain/channel.ts'
import { KEY_STATUS } from '../domain/channel-key.ts'
import { steady } from './clock.ts'
import { NO_KEY, type RoutedChannel, type RoutedKey } from './table.ts'

/** A key of a channel, one of them disabled by the gateway. */
export type Suspect<C extends RoutedChannel> = { readonly channel: C; readonly key: RoutedKey }

/** Without a key: the channel itself. */
export type Recovered = { readonly channelId: number; readonly key?: RoutedKey }

export type Recovery<C extends RoutedChannel> = {
  /** At most `limit` suspects whose test is due. Each counts as tested from now on, so that one that hangs is not repeated. */
  due(channels: readonly C[], limit: number): readonly Suspect<C>[]
  /** A test succeeded, whoever asked for it. */
  passed(suspect: Suspect<C>): void
}

const FIRST_TEST_MS = 300_000
const MAX_WAIT_MS = 3_600_000

type Schedule = { waitMs: number; dueMs: number }

/**
 * The way back for what the gateway disabled (status 3). No client's request is spent on it: a channel test asks, first
 * after five minutes, then at intervals that double up to an hour, and the first success brings it back.
 */
export function createRecovery<C extends RoutedChannel>(deps: {
  readonly nowMs: () => number
  readonly onRecover: (recovered: Recovered) => void
}): Recovery<C> {
  const now = steady(deps.nowMs)
  let schedules = new Map<string, Schedule>()

  return {
    due: (channels, limit) => {
      const atMs = now()
      const kept = new Map<string, Schedule>()
      const suspects = channels.flatMap(suspectsOf).filter(suspect => {
        const name = nameOf(suspect)
        const schedule = schedules.get(name) ?? { waitMs: FIRST_TEST_MS, dueMs: atMs + FIRST_TEST_MS }
        kept.set(name, schedule)
        return schedule.dueMs <= atMs
      })
      // Whatever is no suspect any more is forgotten with the old map.
      schedules = kept
      const chosen = suspects.slice(0, limit)
      for (const suspect of chosen) postpone(kept.get(nameOf(suspect)), atMs)
      return chosen
    },

    passed: suspect => {
      const { channel, key } = suspect
      schedules.delete(nameOf(suspect))
      if (key.status === KEY_STATUS.disabledByGateway) deps.onRecover({ channelId: channel.id, key })
      if (channel.status === CHANNEL_STATUS.disabledByGateway) deps.onRecover({ channelId: channel.id })
    },
  }
}

function postpone(schedule: Schedule | undefined, atMs: number): void {
  if (schedule === undefined) return
  schedule.waitMs = Math.min(MAX_WAIT_MS, schedule.waitMs * 2)
  schedule.dueMs = atMs + schedule.waitMs
}

/** What an administrator switched off, channel or key, stays off. */
function suspectsOf<C extends RoutedChannel>(channel: C): readonly Suspect<C>[] {
  if (channel.status === CHANNEL_STATUS.disabled) return []
  const isDisabled = channel.status === CHANNEL_STATUS.disabledByGateway
  if (channel.keys.length === 0) return isDisabled ? [{ channel, key: NO_KEY }] : []
  return channel.keys
    .filter(key =>
      isDisabled ? key.status !== KEY_STATUS.disabled : key.status === KEY_STATUS.disabledByGateway,
    )
    .map(key => ({ channel, key }))
}

const nameOf = ({ channel, key }: Suspect<RoutedChannel>) => `${channel.id}:${key.value}`
