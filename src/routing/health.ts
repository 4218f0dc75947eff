import { KEY_STATUS } from '../domain/channel-key.ts'
import { steady } from './clock.ts'
import {
  beginCooldown,
  beginTrial,
  type Cooldown,
  endTrial,
  MAX_COOLDOWN_MS,
  nextCooldownMs,
  READY,
  type Readiness,
  readinessOf,
} from './cooldown.ts'
import { createCooldownBook } from './cooldown-book.ts'
import type { RoutedChannel, RoutedKey } from './table.ts'

/** How an attempt ended, in the words that health knows. */
export type AttemptOutcome =
  | { readonly kind: 'ok' }
  /** Trouble of the channel, whichever key was used. */
  | { readonly kind: 'connect' | 'timeout' | '5xx' }
  | { readonly kind: '429'; readonly retryAfterMs?: number | undefined }
  /** 401 and 403; 402 and what a provider's file names as trouble of credit. `detail` is told to administrators. */
  | { readonly kind: 'auth' | 'credit'; readonly detail?: string | undefined }
  /** Any other 4xx, or a client that left: says nothing about the channel. */
  | { readonly kind: 'client' }

/** Without a key: the whole channel. */
export type Disabling = { readonly channelId: number; readonly key?: RoutedKey; readonly reason: string }

export type Attempt = {
  /**
   * The first byte of a good answer came: others may follow. What was held against the channel stays until the whole
   * answer was good, so one that always breaks off halfway rests again.
   */
  answered(): void
  /** Counts the first time it is called. */
  end(outcome: AttemptOutcome): void
}

export type Health = {
  ofChannel(channelId: number): Readiness
  ofKey(channelId: number, key: RoutedKey): Readiness
  /** The place of the key whose turn it is. */
  turn(channelId: number): number
  /** To be called in the turn of the event loop that chose the channel: it takes the place of a trial. */
  begin(used: Used): Attempt
  /** What was held against a channel was held against what it was: it is asked otherwise now. */
  renew(channelId: number): void
  /** A test has shown that it works: a rest has no reason left. */
  forgive(used: Used): void
  /** After a new table: forgets what is gone, and what is disabled, so that it begins anew when it comes back. */
  keep(find: (channelId: number) => RoutedChannel | undefined): void
  /** How many channels and keys are remembered. */
  size(): number
}

type Used = { readonly channel: RoutedChannel; readonly key: RoutedKey }

/** An attempt on its way; `serial` is that of the latest rest when it began. */
type Going = Used & { readonly serial: number }

const STRIKES_TO_REST = 5
const REFUSALS_TO_DISABLE = 3
const UNNAMED_RETRY_MS = 5_000

const DISABLE_REASONS = {
  auth: 'the provider refused the key (401/403), and again at each trial',
  credit: 'the provider reported missing credit, and again at each trial',
} as const

/** A hundred requests that fail together are one failure once the first of them has begun a rest. */
const isOldNews = (rest: Cooldown | undefined, going: Going) =>
  rest !== undefined && going.serial < rest.serial

const isGivenUp = (rest: Cooldown | undefined) => rest !== undefined && rest.strikes >= REFUSALS_TO_DISABLE

/**
 * The health of channels and keys, in memory. A channel rests after repeated failures of its own; a key at once when it
 * is refused or told to wait. A rest ends with one trial request: its success forgets everything, its failure rests
 * twice as long. A key refused at trial after trial is given up, and with the last key its channel.
 */
export function createHealth(deps: {
  readonly nowMs: () => number
  readonly onDisable: (disabling: Disabling) => void
}): Health {
  const now = steady(deps.nowMs)
  const book = createCooldownBook()
  const turns = new Map<number, number>()
  let serial = 0

  const look = (rest: Cooldown | undefined) => (rest === undefined ? READY : readinessOf(rest, now()))

  function sleep(rest: Cooldown, forMs: number): void {
    serial += 1
    beginCooldown(rest, serial, now() + forMs)
  }

  /** Both things an attempt can tell about: its channel and its key. */
  const restsOf = ({ channel, key }: Used) => [book.ofChannel(channel.id), book.ofKey(channel.id, key)]

  function wake(going: Going): void {
    for (const rest of restsOf(going)) if (rest && !isOldNews(rest, going)) rest.isResting = false
  }

  function succeed(going: Going): void {
    const { channel, key } = going
    if (!isOldNews(book.ofChannel(channel.id), going)) book.forgetChannel(channel.id)
    if (!isOldNews(book.ofKey(channel.id, key), going)) book.forgetKey(channel.id, key.value)
  }

  function strikeChannel(going: Going): void {
    const rest = book.addChannel(going.channel.id)
    if (isOldNews(rest, going)) return
    rest.strikes += 1
    if (rest.strikes >= STRIKES_TO_REST) sleep(rest, nextCooldownMs(rest))
  }

  function postponeKey(going: Going, retryAfterMs: number | undefined): void {
    const rest = book.addKey(going.channel.id, going.key)
    if (isOldNews(rest, going)) return
    // A key that may come back later was not refused: the row is broken.
    rest.strikes = 0
    const isNamed = retryAfterMs !== undefined && retryAfterMs >= 0
    sleep(rest, isNamed ? Math.min(MAX_COOLDOWN_MS, retryAfterMs) : UNNAMED_RETRY_MS)
  }

  function refuseKey(going: Going, reason: string): void {
    const rest = book.addKey(going.channel.id, going.key)
    if (isOldNews(rest, going)) return
    rest.strikes += 1
    sleep(rest, nextCooldownMs(rest))
    if (going.channel.autoBan && isGivenUp(rest)) disable(going, reason)
  }

  // Said again at each further failed trial, until a table shows the key disabled: the first word may have been lost.
  function disable({ channel, key }: Going, reason: string): void {
    const channelId = channel.id
    if (channel.keys.length > 1) deps.onDisable({ channelId, key, reason })
    const isAnyLeft = channel.keys.some(
      other => other.status === KEY_STATUS.enabled && !isGivenUp(book.ofKey(channelId, other)),
    )
    if (!isAnyLeft) deps.onDisable({ channelId, reason })
  }

  function learn(going: Going, outcome: AttemptOutcome): void {
    for (const rest of restsOf(going)) endTrial(rest, going)
    switch (outcome.kind) {
      case 'ok':
        succeed(going)
        break
      case 'connect':
      case 'timeout':
      case '5xx':
        strikeChannel(going)
        break
      case '429':
        postponeKey(going, outcome.retryAfterMs)
        break
      case 'auth':
      case 'credit':
        refuseKey(going, outcome.detail ?? DISABLE_REASONS[outcome.kind])
        break
      case 'client':
        break
    }
  }

  return {
    ofChannel: channelId => look(book.ofChannel(channelId)),
    ofKey: (channelId, key) => look(book.ofKey(channelId, key)),
    turn: channelId => turns.get(channelId) ?? 0,

    begin: ({ channel, key }) => {
      const going: Going = { channel, key, serial }
      if (channel.keys.length > 1) turns.set(channel.id, key.index + 1)
      for (const rest of restsOf(going)) if (rest) beginTrial(rest, going, now())
      let isEnded = false
      return {
        answered: () => {
          if (!isEnded) wake(going)
        },
        end: outcome => {
          if (isEnded) return
          isEnded = true
          learn(going, outcome)
        },
      }
    },

    renew: book.forgetChannel,

    forgive: ({ channel, key }) => {
      book.forgetChannel(channel.id)
      book.forgetKey(channel.id, key.value)
    },

    keep: find => {
      book.keep(find)
      for (const id of turns.keys()) if (find(id) === undefined) turns.delete(id)
    },

    size: () => book.size() + turns.size,
  }
}
