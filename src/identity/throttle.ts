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

/** Like `createThrottle`, for several gateways together. */
export function createStoredThrottle(store: FailureStore, onFailure: (error: Error) => void): Throttle {
  return {
    async attempt(account, address) {
      const counted = bucketsOf(account, address)
      let seconds = 0
      await store.change(
        counted.map(([key]) => key),
        (buckets, nowMs) => {
          const current = counted.map(([, rule], index) => currentBucket(buckets[index], rule, nowMs))
          seconds = waitS(current, nowMs)
          if (seconds > 0) return buckets
          return counted.map(([, rule], index) => withFailure(current[index] ?? NO_FAILURES, rule, nowMs))
        },
      )
      return seconds
    },
    succeed(account, address) {
      const counted = bucketsOf(account, address)
      store
        .change(
          counted.map(([key]) => key),
          (buckets, nowMs) =>
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
