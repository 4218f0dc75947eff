import { type HealthEvent, REFUSALS_TO_DISABLE, type Readiness } from '../domain/channel-condition.ts'
import { KEY_STATUS } from '../domain/channel-key.ts'
import { createMonotonicClock } from './clock.ts'
import {
  beginCooldown,
  beginTrial,
  type Cooldown,
  endTrial,
  MAX_COOLDOWN_MS,
  nextCooldownMs,
  READY,
  readinessOf,
} from './cooldown.ts'
import { createCooldownBook } from './cooldown-book.ts'
import { healthIdOf, type RoutedChannel, type RoutedKey } from './table.ts'

/** What failed, for administrators: the provider's status, code and message. */
type Detailed = { readonly detail?: string | undefined }

/** How an attempt ended, as far as it concerns health. */
export type AttemptOutcome =
  | { readonly kind: 'ok' }
  /** A failure of the channel, with any key. */
  | ({ readonly kind: 'connect' | 'timeout' | '5xx' } & Detailed)
  | ({ readonly kind: '429'; readonly retryAfterMs?: number | undefined } & Detailed)
  /** `auth`: 401 and 403. `credit`: 402, and what the provider's file recognizes as missing credit. */
  | ({ readonly kind: 'auth' | 'credit' } & Detailed)
  /** Any other 4xx, or a client that disconnected: no evidence about the channel. */
  | { readonly kind: 'client' }

/** The decision to disable a key, or without `key` the whole channel. */
export type Disabling = { readonly channelId: number; readonly key?: RoutedKey; readonly reason: string }

/** The cooldown of a key, or without `key` of the whole channel, that has just started. */
export type StartedCooldown = Disabling & { readonly forMs: number }

export type Attempt = {
  /**
   * The first byte of a successful response arrived: other requests may use the channel again. Its strikes are kept until
   * the whole response succeeded, so a channel that always breaks off halfway cools down again.
   */
  answered(): void
  /** Only the first call counts. */
  end(outcome: AttemptOutcome): void
}

export type Health = {
  ofChannel(channelId: number): Readiness
  ofKey(channelId: number, key: RoutedKey): Readiness
  /** The latest failure of a channel, or of one of its keys; empty without one since the last success. */
  failureOf(channelId: number, key?: RoutedKey): string
  /** The index of the key to use next. */
  nextKeyIndex(channelId: number): number
  /** Call it synchronously after the channel was chosen: it reserves the trial. */
  begin(target: ChannelAndKey): Attempt
  /** Forgets the failures of a channel whose address or keys have changed. */
  forgetChannel(channelId: number): void
  /** Ends the cooldown of a channel and key after a successful test. */
  endCooldown(target: ChannelAndKey): void
  /** Takes over what another node has found out. */
  adopt(event: HealthEvent, target: FailedTarget): void
  /** The running cooldown of a channel, or of one of its keys, for a node that does not know it. */
  cooldownOf(target: FailedTarget): HealthEvent | undefined
  /** Call it with every new table: removes deleted and disabled channels and keys. */
  prune(find: (channelId: number) => RoutedChannel | undefined): void
  /** The number of channels and keys in memory. */
  size(): number
}

type ChannelAndKey = { readonly channel: RoutedChannel; readonly key: RoutedKey }

/** A channel, or one of its keys. */
export type FailedTarget = { readonly channel: RoutedChannel; readonly key?: RoutedKey }

/** `serial` is that of the latest cooldown when the attempt began. */
type RunningAttempt = ChannelAndKey & { readonly serial: number }

const STRIKES_TO_COOLDOWN = 5
const DEFAULT_RETRY_MS = 5_000

const DISABLE_REASONS = {
  auth: 'The provider rejected the key (401 or 403), and again at each trial.',
  credit: 'The provider reported insufficient credit, and again at each trial.',
} as const

/** Failures without a detail. */
const FAILURES = {
  connect: 'The provider could not be reached.',
  timeout: 'The provider timed out.',
  '5xx': 'The provider failed.',
  '429': 'The provider limits the rate of this key.',
} as const

/** Attempts that began before the latest cooldown do not count, so that concurrent failures cause one cooldown. */
const isOutdated = (cooldown: Cooldown | undefined, attempt: RunningAttempt) =>
  cooldown !== undefined && attempt.serial < cooldown.serial

const hasCooledDown = ({ serial }: Cooldown) => serial > 0

const eventOf = ({ channel, key }: FailedTarget, cooldown: Cooldown, forMs: number): HealthEvent => ({
  channelId: channel.id,
  ...(key && { keyIndex: key.index, keyId: key.id }),
  cooldown: { forMs, reason: cooldown.reason, strikes: cooldown.strikes, cooldowns: cooldown.cooldowns },
})

/** The state of a version that a canary tries concerns this process only. */
const isVariant = ({ healthId }: RoutedChannel) => healthId !== undefined

const isGivenUp = (cooldown: Cooldown | undefined) =>
  cooldown !== undefined && cooldown.strikes >= REFUSALS_TO_DISABLE

/**
 * The health of channels and keys, in memory: a circuit breaker. A channel cools down after repeated failures; a key cools
 * down at once when the provider rejects it or answers 429. A cooldown ends with one trial request: success clears the
 * state, failure doubles the cooldown. A key that is rejected at every trial is disabled, and with its last key the channel.
 */
export function createHealth(deps: {
  readonly nowMs: () => number
  /** The channel as it is now: its keys may have changed since an attempt began. Absent: channels do not change. */
  readonly currentChannel?: (channelId: number) => RoutedChannel | undefined
  readonly onDisable: (disabling: Disabling) => void
  readonly onCooldown?: (cooldown: StartedCooldown) => void
  /** A cooldown has started here, or ended by a success. Other nodes need to know. */
  readonly onChange?: (event: HealthEvent) => void
}): Health {
  const now = createMonotonicClock(deps.nowMs)
  const book = createCooldownBook()
  const nextKeyIndexes = new Map<number, number>()
  let serial = 0

  const readiness = (cooldown: Cooldown | undefined) =>
    cooldown === undefined ? READY : readinessOf(cooldown, now())

  function startCooldown(cooldown: Cooldown, forMs: number, { channel, key }: FailedTarget): void {
    serial += 1
    beginCooldown(cooldown, serial, now() + forMs)
    if (isVariant(channel)) return
    deps.onCooldown?.({ channelId: channel.id, ...(key && { key }), reason: cooldown.reason, forMs })
    deps.onChange?.(eventOf({ channel, ...(key && { key }) }, cooldown, forMs))
  }

  /** The cooldowns that an attempt is evidence for: of its channel and of its key. */
  const cooldownsOf = ({ channel, key }: ChannelAndKey) => [
    book.ofChannel(healthIdOf(channel)),
    book.ofKey(healthIdOf(channel), key),
  ]

  function allowRequests(attempt: RunningAttempt): void {
    for (const cooldown of cooldownsOf(attempt))
      if (cooldown && !isOutdated(cooldown, attempt)) cooldown.isCoolingDown = false
  }

  function succeed(attempt: RunningAttempt): void {
    const { channel, key } = attempt
    const id = healthIdOf(channel)
    const ofChannel = book.ofChannel(id)
    if (ofChannel && !isOutdated(ofChannel, attempt)) {
      book.forgetChannel(id)
      if (hasCooledDown(ofChannel) && !isVariant(channel)) deps.onChange?.({ channelId: channel.id })
    }
    const ofKey = book.ofKey(id, key)
    if (ofKey && !isOutdated(ofKey, attempt)) {
      book.forgetKey(id, key.value)
      if (hasCooledDown(ofKey) && !isVariant(channel))
        deps.onChange?.({ channelId: channel.id, keyIndex: key.index, keyId: key.id })
    }
  }

  function strikeChannel(attempt: RunningAttempt, reason: string): void {
    const cooldown = book.addChannel(healthIdOf(attempt.channel))
    if (isOutdated(cooldown, attempt)) return
    cooldown.reason = reason
    cooldown.strikes += 1
    if (cooldown.strikes >= STRIKES_TO_COOLDOWN)
      startCooldown(cooldown, nextCooldownMs(cooldown), { channel: attempt.channel })
  }

  function postponeKey(attempt: RunningAttempt, reason: string, retryAfterMs: number | undefined): void {
    const cooldown = book.addKey(healthIdOf(attempt.channel), attempt.key)
    if (isOutdated(cooldown, attempt)) return
    cooldown.reason = reason
    // A rate-limited key was not rejected, so the rejections are no longer consecutive.
    cooldown.strikes = 0
    const hasRetryAfter = retryAfterMs !== undefined && retryAfterMs >= 0
    const forMs = hasRetryAfter ? Math.min(MAX_COOLDOWN_MS, retryAfterMs) : DEFAULT_RETRY_MS
    startCooldown(cooldown, forMs, attempt)
  }

  function refuseKey(attempt: RunningAttempt, reason: string): void {
    const cooldown = book.addKey(healthIdOf(attempt.channel), attempt.key)
    if (isOutdated(cooldown, attempt)) return
    cooldown.reason = reason
    cooldown.strikes += 1
    startCooldown(cooldown, nextCooldownMs(cooldown), attempt)
    if (attempt.channel.autoBan && isGivenUp(cooldown)) disable(attempt, reason)
  }

  // The status may fail to be saved. Then the key stays in the routing table, and the next failed trial calls this again.
  function disable(attempt: RunningAttempt, reason: string): void {
    const channelId = attempt.channel.id
    const { keys } = deps.currentChannel?.(channelId) ?? attempt.channel
    // The positions of keys shift when one is deleted.
    const key = keys.find(({ value }) => value === attempt.key.value)
    if (key === undefined && keys.length > 0) return
    if (keys.length > 1) deps.onDisable({ channelId, ...(key && { key }), reason })
    const hasUsableKey = keys.some(
      other => other.status === KEY_STATUS.enabled && !isGivenUp(book.ofKey(channelId, other)),
    )
    if (!hasUsableKey) deps.onDisable({ channelId, reason })
  }

  function recordOutcome(attempt: RunningAttempt, outcome: AttemptOutcome): void {
    for (const cooldown of cooldownsOf(attempt)) endTrial(cooldown, attempt)
    switch (outcome.kind) {
      case 'ok':
        succeed(attempt)
        break
      case 'connect':
      case 'timeout':
      case '5xx':
        strikeChannel(attempt, outcome.detail ?? FAILURES[outcome.kind])
        break
      case '429':
        postponeKey(attempt, outcome.detail ?? FAILURES['429'], outcome.retryAfterMs)
        break
      case 'auth':
      case 'credit':
        refuseKey(attempt, outcome.detail ?? DISABLE_REASONS[outcome.kind])
        break
      case 'client':
        break
    }
  }

  return {
    ofChannel: channelId => readiness(book.ofChannel(channelId)),
    ofKey: (channelId, key) => readiness(book.ofKey(channelId, key)),
    failureOf: (channelId, key) =>
      (key ? book.ofKey(channelId, key) : book.ofChannel(channelId))?.reason ?? '',
    nextKeyIndex: channelId => nextKeyIndexes.get(channelId) ?? 0,

    begin: ({ channel, key }) => {
      const attempt: RunningAttempt = { channel, key, serial }
      if (channel.keys.length > 1) nextKeyIndexes.set(healthIdOf(channel), key.index + 1)
      for (const cooldown of cooldownsOf(attempt)) if (cooldown) beginTrial(cooldown, attempt, now())
      let isEnded = false
      return {
        answered: () => {
          if (!isEnded) allowRequests(attempt)
        },
        end: outcome => {
          if (isEnded) return
          isEnded = true
          recordOutcome(attempt, outcome)
        },
      }
    },

    forgetChannel: book.forgetChannel,

    endCooldown: ({ channel, key }) => {
      book.forgetChannel(channel.id)
      book.forgetKey(channel.id, key.value)
    },

    adopt: ({ cooldown }, { channel, key }) => {
      if (!cooldown) {
        if (key) book.forgetKey(channel.id, key.value)
        else book.forgetChannel(channel.id)
        return
      }
      const own = key ? book.addKey(channel.id, key) : book.addChannel(channel.id)
      serial += 1
      own.reason = cooldown.reason
      own.strikes = Math.max(own.strikes, cooldown.strikes)
      own.cooldowns = Math.max(own.cooldowns, cooldown.cooldowns)
      // A node may report a cooldown that this node has extended meanwhile.
      const untilMs = now() + cooldown.forMs
      beginCooldown(own, serial, own.isCoolingDown ? Math.max(own.untilMs, untilMs) : untilMs)
    },

    cooldownOf: target => {
      const { channel, key } = target
      const cooldown = key ? book.ofKey(channel.id, key) : book.ofChannel(channel.id)
      const leftMs = cooldown?.isCoolingDown ? cooldown.untilMs - now() : 0
      return cooldown && leftMs > 0 ? eventOf(target, cooldown, leftMs) : undefined
    },

    prune: find => {
      book.prune(find)
      for (const id of nextKeyIndexes.keys()) if (find(id) === undefined) nextKeyIndexes.delete(id)
    },

    size: () => book.size() + nextKeyIndexes.size,
  }
}
