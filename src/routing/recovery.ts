import { CHANNEL_STATUS } from '../domain/channel.ts'
import { KEY_STATUS } from '../domain/channel-key.ts'
import { createMonotonicClock } from './clock.ts'
import { NO_KEY, type RoutedChannel, type RoutedKey } from './table.ts'

/** A channel and one of its keys, at least one of which the gateway disabled. */
export type Candidate<C extends RoutedChannel> = { readonly channel: C; readonly key: RoutedKey }

/** Without `key`, the channel itself recovered. */
export type Recovered = { readonly channelId: number; readonly key?: RoutedKey }

export type Recovery<C extends RoutedChannel> = {
  /** At most `limit` candidates whose test is due. Each counts as tested from now on, so that a hanging test is not repeated. */
  due(channels: readonly C[], limit: number): readonly Candidate<C>[]
  /** Records a successful test, scheduled or requested by an administrator. */
  passed(candidate: Candidate<C>): void
}

const FIRST_TEST_MS = 300_000
const MAX_WAIT_MS = 3_600_000

type Schedule = { waitMs: number; dueMs: number }

/**
 * Schedules tests of channels and keys that the gateway disabled (status 3): the first after five minutes, then at
 * intervals that double up to an hour. The first success enables the channel again. No client request is used for this.
 */
export function createRecovery<C extends RoutedChannel>(deps: {
  readonly nowMs: () => number
  readonly onRecover: (recovered: Recovered) => void
}): Recovery<C> {
  const now = createMonotonicClock(deps.nowMs)
  let schedules = new Map<string, Schedule>()

  return {
    due: (channels, limit) => {
      const atMs = now()
      const nextSchedules = new Map<string, Schedule>()
      const candidates = channels.flatMap(candidatesOf).filter(candidate => {
        const name = nameOf(candidate)
        const schedule = schedules.get(name) ?? { waitMs: FIRST_TEST_MS, dueMs: atMs + FIRST_TEST_MS }
        nextSchedules.set(name, schedule)
        return schedule.dueMs <= atMs
      })
      // Channels that are no longer candidates are dropped with the old map.
      schedules = nextSchedules
      const chosen = candidates.slice(0, limit)
      for (const candidate of chosen) postpone(nextSchedules.get(nameOf(candidate)), atMs)
      return chosen
    },

    passed: candidate => {
      const { channel, key } = candidate
      schedules.delete(nameOf(candidate))
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

/** A channel or key that an administrator disabled is not tested. */
function candidatesOf<C extends RoutedChannel>(channel: C): readonly Candidate<C>[] {
  if (channel.status === CHANNEL_STATUS.disabled) return []
  const isDisabled = channel.status === CHANNEL_STATUS.disabledByGateway
  if (channel.keys.length === 0) return isDisabled ? [{ channel, key: NO_KEY }] : []
  return channel.keys
    .filter(key =>
      isDisabled ? key.status !== KEY_STATUS.disabled : key.status === KEY_STATUS.disabledByGateway,
    )
    .map(key => ({ channel, key }))
}

const nameOf = ({ channel, key }: Candidate<RoutedChannel>) => `${channel.id}:${key.value}`
