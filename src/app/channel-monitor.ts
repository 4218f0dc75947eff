import type { Logger } from 'pino'
import { CHANNEL_STATUS } from '../domain/channel.ts'
import type { ChannelCondition, HealthEvent } from '../domain/channel-condition.ts'
import { KEY_STATUS } from '../domain/channel-key.ts'
import type { KeyTestResult, TestOptions } from '../relay/channel-test.ts'
import { conditionOf } from '../routing/condition.ts'
import { createHealth, type StartedCooldown } from '../routing/health.ts'
import { createRecovery } from '../routing/recovery.ts'
import { NO_KEY, type RoutedChannel, type RoutedKey } from '../routing/table.ts'
import { cooldownTarget } from './invalidation.ts'

const RECOVERY_EVERY_MS = 15_000
const MAX_RECOVERY_TESTS = 5
const LOG_COOLDOWN_EVERY_MS = 30_000

export type ChannelDecision = {
  readonly channelId: number
  /** Undefined: the whole channel. */
  readonly key: RoutedKey | undefined
  readonly status: 1 | 3
  readonly reason: string
}

type State = 'enabled' | 'disabled' | 'auto_disabled' | 'cooling_down'

/** The state of a channel, and how many of its keys are in each state. */
export type ChannelState = {
  readonly id: number
  readonly state: State
  readonly keys: Readonly<Record<State, number>>
}

/** The same statuses for channels and keys. */
const STATES = {
  [CHANNEL_STATUS.enabled]: 'enabled',
  [CHANNEL_STATUS.disabled]: 'disabled',
  [CHANNEL_STATUS.disabledByGateway]: 'auto_disabled',
} as const

const hasNoEnabledKey = (channel: RoutedChannel | undefined) =>
  channel !== undefined && !channel.keys.some(({ status }) => status === KEY_STATUS.enabled)

function countKeys(keys: RoutedChannel['keys'], unready: ReadonlySet<number>): ChannelState['keys'] {
  const counts = { enabled: 0, disabled: 0, auto_disabled: 0, cooling_down: 0 }
  for (const { index, status } of keys) {
    const state = STATES[status]
    counts[state === 'enabled' && unready.has(index) ? 'cooling_down' : state] += 1
  }
  return counts
}

export type ChannelMonitorDeps<C extends RoutedChannel> = {
  channels(): readonly C[]
  channel(id: number): C | undefined
  /** Sends a test request to a channel. */
  testChannel(id: number, options: TestOptions): Promise<KeyTestResult>
  /** Stores the decision. False if an administrator has changed the channel in the meantime. */
  saveDecision(decision: ChannelDecision): Promise<boolean>
  saveTest(channelId: number, responseMs: number): Promise<void>
  announce(targets: readonly string[]): Promise<void>
  /** Reports a change of the health of a channel or key to all other nodes. */
  shareHealth(event: HealthEvent): void
  /** Whether this node runs the recovery tests for all nodes now; undefined: it never does. */
  readonly runsRecovery: (() => boolean) | undefined
  readonly nowMs: () => number
  readonly log: Pick<Logger, 'warn' | 'error'>
}

/** Disables channels and keys that keep failing, and enables them again when a test succeeds. */
export function createChannelMonitor<C extends RoutedChannel>(deps: ChannelMonitorDeps<C>) {
  const { log } = deps

  /** Saves a decision in the store, then updates every worker. */
  async function decide(decision: ChannelDecision): Promise<void> {
    const { channelId, key, status, reason } = decision
    try {
      if (!(await deps.saveDecision(decision))) return
      await deps.announce([`channel:${channelId}`])
      log.warn(
        { channel_id: channelId, key_index: key?.index, status, reason },
        status === 3
          ? 'A channel or key was auto-disabled.'
          : 'A channel or key was enabled after a successful test.',
      )
      // Keys that are rejected at the same time do not know of each other's decision.
      const isLastKey = status === 3 && key !== undefined && hasNoEnabledKey(deps.channel(channelId))
      if (isLastKey) await decide({ ...decision, key: undefined })
    } catch (error) {
      log.error({ err: error, channel_id: channelId }, 'The status of a channel could not be saved.')
    }
  }

  /** When a cooldown of each channel was last logged. A provider that limits the rate causes many short ones. */
  const loggedMs = new Map<number, number>()
  function logCooldown({ channelId, key, reason, forMs }: StartedCooldown): void {
    const nowMs = deps.nowMs()
    if (nowMs - (loggedMs.get(channelId) ?? 0) < LOG_COOLDOWN_EVERY_MS) return
    loggedMs.set(channelId, nowMs)
    log.warn(
      { channel_id: channelId, key_index: key?.index, seconds: Math.ceil(forMs / 1000), reason },
      'A channel or key is cooling down.',
    )
  }

  const health = createHealth({
    nowMs: deps.nowMs,
    currentChannel: deps.channel,
    onCooldown: logCooldown,
    onChange: deps.shareHealth,
    onDisable: ({ channelId, key, reason }) => void decide({ channelId, key, status: 3, reason }),
  })
  const recovery = createRecovery<C>({
    nowMs: deps.nowMs,
    onRecover({ channelId, key }) {
      // The positions of keys shift when one is deleted during the test.
      const current = key && deps.channel(channelId)?.keys.find(({ value }) => value === key.value)
      if (key && !current) return
      void decide({ channelId, key: current, status: 1, reason: '' })
    },
  })

  /** Runs a test that an administrator requested. */
  async function test(id: number, options: TestOptions = {}): Promise<KeyTestResult> {
    const result = await deps.testChannel(id, options)
    await deps.saveTest(id, result.latencyMs)
    const channel = deps.channel(id)
    if (result.isGood && channel) {
      recovery.passed({ channel, key: result.key })
      await deps.announce([cooldownTarget(id, result.key)])
      deps.shareHealth({ channelId: id })
      deps.shareHealth({ channelId: id, keyIndex: result.key.index, keyId: result.key.id })
    }
    return result
  }

  async function testRecovery(channel: C, key: RoutedKey): Promise<void> {
    try {
      const { isGood } = await deps.testChannel(channel.id, { key })
      if (isGood) recovery.passed({ channel, key })
    } catch (error) {
      log.error({ err: error, channel_id: channel.id }, 'A recovery test could not be run.')
    }
  }

  /** Tests auto-disabled channels and keys whose next test is due. */
  async function recover(): Promise<void> {
    const due = recovery.due(deps.channels(), MAX_RECOVERY_TESTS)
    await Promise.all(due.map(({ channel, key }) => testRecovery(channel, key)))
  }

  const enabled = () => deps.channels().filter(({ status }) => status === 1)
  const { runsRecovery } = deps
  const timer =
    runsRecovery &&
    setInterval(() => {
      if (runsRecovery()) void recover()
    }, RECOVERY_EVERY_MS)
  timer?.unref()
  /** The key that an event is about; undefined: the whole channel. Null: there is no such key here. */
  const keyOf = (channel: C, { keyIndex, keyId }: HealthEvent) => {
    if (keyIndex === undefined) return undefined
    const keys = channel.keys.length === 0 ? [NO_KEY] : channel.keys
    return keys.find(key => (keyId === undefined ? key.index === keyIndex : key.id === keyId)) ?? null
  }

  return {
    health,
    /** Takes over what other nodes have found out about channels and keys. */
    adoptHealth(events: readonly HealthEvent[]): void {
      for (const event of events) {
        const channel = deps.channel(event.channelId)
        const key = channel && keyOf(channel, event)
        if (channel && key !== null) health.adopt(event, { channel, ...(key && { key }) })
      }
    },
    /** All running cooldowns, for a node that has just started. */
    cooldowns: (): HealthEvent[] =>
      enabled().flatMap(channel =>
        [undefined, ...(channel.keys.length === 0 ? [NO_KEY] : channel.keys)].flatMap(
          key => health.cooldownOf({ channel, ...(key && { key }) }) ?? [],
        ),
      ),
    test,
    recover,
    enabledIds: () => enabled().map(({ id }) => id),
    /** The enabled channels of this worker that are not ready, or have keys that are not. */
    conditions: (): ChannelCondition[] =>
      enabled()
        .map(channel => conditionOf(health, channel))
        .filter(({ channel, keys }) => channel.state !== 'ready' || keys.length > 0),
    /** The state of every channel and of its keys, by the conditions of all workers. */
    states(conditions: readonly ChannelCondition[]): ChannelState[] {
      const unready = new Map(conditions.map(condition => [condition.id, condition]))
      return deps.channels().map(({ id, status, keys }) => {
        const condition = unready.get(id)
        const isCooling =
          status === CHANNEL_STATUS.enabled && condition !== undefined && condition.channel.state !== 'ready'
        return {
          id,
          state: isCooling ? 'cooling_down' : STATES[status],
          keys: countKeys(keys, new Set(condition?.keys.map(({ index }) => index))),
        }
      })
    },
    close: () => clearInterval(timer),
  }
}
