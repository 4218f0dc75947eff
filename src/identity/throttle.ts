import { Refusal } from '../domain/errors.ts'
import { networkOf, siteOf } from './network.ts'

/** The failed attempts of an account or a network. Times are Unix milliseconds. */
export type FailureBucket = {
  readonly failures: number
  readonly lastMs: number
  readonly blockedUntilMs: number
}
type Rule = { readonly free: number; readonly forgetMs: number; readonly maxWaitMs: number }

const MINUTE_MS = 60_000

/**
 * After `free` failures every further one doubles the wait, up to `maxWaitMs`. After `forgetMs` without a failure the count
 * is reset. The maximum wait of an account is short, so that attacks from many addresses cannot lock its owner out; the
 * maximum wait of a network is much longer.
 */
const RULES = {
  accountAndNetwork: { free: 5, forgetMs: 5 * MINUTE_MS, maxWaitMs: 15 * MINUTE_MS },
  account: { free: 20, forgetMs: 5 * MINUTE_MS, maxWaitMs: 15_000 },
  network: { free: 50, forgetMs: 60 * MINUTE_MS, maxWaitMs: 15 * MINUTE_MS },
  site: { free: 500, forgetMs: 60 * MINUTE_MS, maxWaitMs: 15 * MINUTE_MS },
} as const satisfies Record<string, Rule>

const MAX_BUCKETS = 50_000
const BUCKETS_AFTER_EVICTION = 45_000

const tooMany = (retryAfterS: number) =>
  new Refusal('rate_limited', `Too many failed attempts. Try again in ${retryAfterS} s.`, { retryAfterS })

const NO_FAILURES: FailureBucket = { failures: 0, lastMs: 0, blockedUntilMs: 0 }

function bucketsOf(account: string, address: string) {
  const network = networkOf(address)
  const site = siteOf(address)
  return [
    [`both|${account}|${network}`, RULES.accountAndNetwork],
    [`account|${account}`, RULES.account],
    [`network|${network}`, RULES.network],
    ...(site === network ? [] : ([[`site|${site}`, RULES.site]] as const)),
  ] as const
}

/** The bucket, or an empty one after the time in which failures are forgotten. */
function currentBucket(bucket: FailureBucket | undefined, rule: Rule, nowMs: number): FailureBucket {
  if (!bucket) return NO_FAILURES
  const lifetimeMs = rule.forgetMs + Math.max(0, bucket.blockedUntilMs - bucket.lastMs)
  return nowMs - bucket.lastMs <= lifetimeMs ? bucket : NO_FAILURES
}

/** The bucket after another failure. */
function withFailure(bucket: FailureBucket, rule: Rule, nowMs: number): FailureBucket {
  const failures = bucket.failures + 1
  const over = failures - rule.free
  const waitsMs = Math.min(rule.maxWaitMs, 1000 * 2 ** Math.min(over, 20))
  return { failures, lastMs: nowMs, blockedUntilMs: over >= 0 ? nowMs + waitsMs : bucket.blockedUntilMs }
}

/** The bucket after a success; undefined: it is empty. One success does not clear the failures of a network. */
function withSuccess({ failures, lastMs }: FailureBucket, rule: Rule): FailureBucket | undefined {
  const isOfAccount = rule === RULES.accountAndNetwork || rule === RULES.account
  return isOfAccount || failures <= 1 ? undefined : { failures: failures - 1, lastMs, blockedUntilMs: 0 }
}

const waitS = (buckets: readonly FailureBucket[], nowMs: number) =>
  Math.max(0, ...buckets.map(({ blockedUntilMs }) => Math.ceil((blockedUntilMs - nowMs) / 1000)))

/** The buckets of all gateways that share a database. */
export type FailureStore = {
  /** Reads and writes these buckets in one transaction, in which no other gateway changes them. */
  change(
    keys: readonly string[],
    work: (
      buckets: readonly (FailureBucket | undefined)[],
      nowMs: number,
    ) => readonly (FailureBucket | undefined)[],
  ): Promise<void>
}

/** Attempts of one network that wait for the store. More are refused for a second. */
const MAX_WAITING_OF_ONE = 10
const MAX_WAITING = 500
const MAX_KNOWN_BLOCKS = 10_000

/**
 * Attempts take turns, because each is a transaction that locks its buckets: a flood of them would otherwise use all connections
 * to the store, and the relay would wait for one.
 */
function createTurns() {
  const waitingOf = new Map<string, number>()
  let waiting = 0
  let last: Promise<unknown> = Promise.resolve()
  const count = (network: string, change: 1 | -1) => {
    waiting += change
    const number = (waitingOf.get(network) ?? 0) + change
    if (number === 0) waitingOf.delete(network)
    else waitingOf.set(network, number)
  }
  return {
    isFull: (network: string) =>
      waiting >= MAX_WAITING || (waitingOf.get(network) ?? 0) >= MAX_WAITING_OF_ONE,
    take<T>(network: string, work: () => Promise<T>): Promise<T> {
      count(network, 1)
      const turn = last.then(work).finally(() => count(network, -1))
      last = turn.catch(() => {})
      return turn
    },
  }
}

/** Like `createThrottle`, for several gateways together. `now` is a clock of this process, in milliseconds. */
export function createStoredThrottle(
  store: FailureStore,
  now: () => number,
  onFailure: (error: Error) => void,
): Throttle {
  const turns = createTurns()
  /** What the store has said about blocked buckets, by the clock of this process: it is not asked again meanwhile. */
  const knownBlocks = new Map<string, number>()
  const knownWaitS = (keys: readonly string[]) =>
    Math.max(0, ...keys.map(key => Math.ceil(((knownBlocks.get(key) ?? 0) - now()) / 1000)))

  function remember(keys: readonly string[], buckets: readonly FailureBucket[], nowMs: number): void {
    if (knownBlocks.size >= MAX_KNOWN_BLOCKS) knownBlocks.clear()
    for (const [index, { blockedUntilMs }] of buckets.entries())
      if (blockedUntilMs > nowMs) knownBlocks.set(keys[index] ?? '', now() + blockedUntilMs - nowMs)
  }

  return {
    async attempt(account, address) {
      const counted = bucketsOf(account, address)
      const keys = counted.map(([key]) => key)
      const network = networkOf(address)
      const knownS = knownWaitS(keys)
      if (knownS > 0) return knownS
      if (turns.isFull(network)) return 1
      return turns.take(network, async () => {
        // The attempts before may have been the last ones that are allowed.
        let seconds = knownWaitS(keys)
        if (seconds > 0) return seconds
        await store.change(keys, (buckets, nowMs) => {
          const current = counted.map(([, rule], index) => currentBucket(buckets[index], rule, nowMs))
          seconds = waitS(current, nowMs)
          if (seconds > 0) {
            remember(keys, current, nowMs)
            return buckets
          }
          return counted.map(([, rule], index) => withFailure(current[index] ?? NO_FAILURES, rule, nowMs))
        })
        return seconds
      })
    },
    succeed(account, address) {
      const counted = bucketsOf(account, address)
      const keys = counted.map(([key]) => key)
      for (const key of keys) knownBlocks.delete(key)
      store
        .change(keys, (buckets, nowMs) =>
          counted.map(([, rule], index) => withSuccess(currentBucket(buckets[index], rule, nowMs), rule)),
        )
        .catch(onFailure)
    },
  }
}

/**
 * Slows password guessing by account and by network. An attempt counts as a failure until it succeeds, so that concurrent
 * attempts cannot avoid the wait.
 */
export function createThrottle(now: () => number) {
  const buckets = new Map<string, FailureBucket>()

  /** Reads without writing: a refused attempt must not evict the buckets of others. */
  const bucketOf = (key: string, rule: Rule): FailureBucket => currentBucket(buckets.get(key), rule, now())

  /** Moves the bucket to the end, so that the oldest are evicted first. */
  function write(key: string, bucket: FailureBucket): void {
    buckets.delete(key)
    buckets.set(key, bucket)
    if (buckets.size <= MAX_BUCKETS) return
    // Bounds memory against attempts with ever new names and addresses.
    for (const oldest of buckets.keys()) {
      if (buckets.size <= BUCKETS_AFTER_EVICTION) return
      buckets.delete(oldest)
    }
  }

  return {
    /** The seconds that this account or address has to wait; 0 if it may try, and the attempt is counted. */
    attempt(account: string, address: string): number {
      const counted = bucketsOf(account, address)
      const at = now()
      const seconds = waitS(
        counted.map(([key, rule]) => bucketOf(key, rule)),
        at,
      )
      if (seconds > 0) return seconds
      for (const [key, rule] of counted) write(key, withFailure(bucketOf(key, rule), rule, at))
      return 0
    },
    succeed(account: string, address: string): void {
      for (const [key, rule] of bucketsOf(account, address)) {
        const bucket = withSuccess(bucketOf(key, rule), rule)
        if (bucket) write(key, bucket)
        else buckets.delete(key)
      }
    },
  }
}

/** One instance counts for all workers. */
export type Throttle = {
  attempt(account: string, address: string): number | Promise<number>
  succeed(account: string, address: string): void
}

/** Throws 429 while this account or address has to wait. */
export async function mustBeAllowed(throttle: Throttle, account: string, address: string): Promise<void> {
  const waitS = await throttle.attempt(account, address)
  if (waitS > 0) throw tooMany(waitS)
}
