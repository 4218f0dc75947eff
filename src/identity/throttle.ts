import { Refusal } from '../domain/errors.ts'
import { networkOf, siteOf } from './network.ts'

type Bucket = { readonly failures: number; readonly lastMs: number; readonly blockedUntilMs: number }
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

const NO_FAILURES: Bucket = { failures: 0, lastMs: 0, blockedUntilMs: 0 }

/**
 * Slows password guessing by account and by network. An attempt counts as a failure until it succeeds, so that concurrent
 * attempts cannot avoid the wait.
 */
export function createThrottle(now: () => number) {
  const buckets = new Map<string, Bucket>()

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

  /** Reads without writing: a refused attempt must not evict the buckets of others. */
  function bucketOf(key: string, rule: Rule): Bucket {
    const bucket = buckets.get(key)
    if (!bucket) return NO_FAILURES
    const lifetimeMs = rule.forgetMs + Math.max(0, bucket.blockedUntilMs - bucket.lastMs)
    return now() - bucket.lastMs <= lifetimeMs ? bucket : NO_FAILURES
  }

  /** Moves the bucket to the end, so that the oldest are evicted first. */
  function write(key: string, bucket: Bucket): void {
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
      const waitMs = Math.max(...counted.map(([key, rule]) => bucketOf(key, rule).blockedUntilMs - at))
      if (waitMs > 0) return Math.ceil(waitMs / 1000)
      for (const [key, rule] of counted) {
        const { blockedUntilMs, ...bucket } = bucketOf(key, rule)
        const failures = bucket.failures + 1
        const over = failures - rule.free
        const waitsMs = Math.min(rule.maxWaitMs, 1000 * 2 ** Math.min(over, 20))
        write(key, { failures, lastMs: at, blockedUntilMs: over >= 0 ? at + waitsMs : blockedUntilMs })
      }
      return 0
    },
    succeed(account: string, address: string): void {
      for (const [key, rule] of bucketsOf(account, address)) {
        const isOfAccount = rule === RULES.accountAndNetwork || rule === RULES.account
        // One success does not clear the failures of the network: only this attempt is subtracted there.
        const { failures, lastMs } = bucketOf(key, rule)
        if (isOfAccount || failures <= 1) buckets.delete(key)
        else write(key, { failures: failures - 1, lastMs, blockedUntilMs: 0 })
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
