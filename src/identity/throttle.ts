import { Refusal } from '../domain/errors.ts'

type Bucket = { failures: number; lastMs: number; blockedUntilMs: number }
type Rule = { readonly free: number; readonly forgetMs: number; readonly maxWaitMs: number }

const MINUTE_MS = 60_000

/**
 * After `free` failures every further one doubles the wait, up to `maxWaitMs`; quiet for `forgetMs` forgets them.
 * Attacks from many addresses slow an account by seconds only, so its owner is never locked out for long;
 * an address that keeps failing waits much longer.
 */
const RULES = {
  accountAndAddress: { free: 5, forgetMs: 5 * MINUTE_MS, maxWaitMs: 15 * MINUTE_MS },
  account: { free: 20, forgetMs: 5 * MINUTE_MS, maxWaitMs: 15_000 },
  address: { free: 50, forgetMs: 60 * MINUTE_MS, maxWaitMs: 15 * MINUTE_MS },
} as const satisfies Record<string, Rule>

const MAX_BUCKETS = 50_000
const KEPT_BUCKETS = 45_000

const tooMany = (retryAfterS: number) =>
  new Refusal('rate_limited', `too many failed attempts; try again in ${retryAfterS} s`, { retryAfterS })

/**
 * Slows guessing of passwords by account and by address. An attempt counts as a failure until it has succeeded, so
 * that many at once are no way around the wait.
 */
export function createThrottle(now: () => number) {
  const buckets = new Map<string, Bucket>()

  const keysOf = (account: string, address: string) =>
    [
      [`both|${account}|${address}`, RULES.accountAndAddress],
      [`account|${account}`, RULES.account],
      [`address|${address}`, RULES.address],
    ] as const

  function bucketOf(key: string, rule: Rule): Bucket {
    const found = buckets.get(key)
    const at = now()
    if (found && at - found.lastMs <= rule.forgetMs + Math.max(0, found.blockedUntilMs - found.lastMs))
      return found
    const fresh = { failures: 0, lastMs: at, blockedUntilMs: 0 }
    buckets.delete(key)
    buckets.set(key, fresh)
    if (buckets.size > MAX_BUCKETS) forgetOldest()
    return fresh
  }

  /** Memory stays bounded whatever names and addresses are tried. Many at a time, for finding the oldest is a walk. */
  function forgetOldest(): void {
    for (const key of buckets.keys()) {
      if (buckets.size <= KEPT_BUCKETS) return
      buckets.delete(key)
    }
  }

  return {
    /** How long this account or address has to wait; 0: it may try, and has. */
    attempt(account: string, address: string): number {
      const waitMs = Math.max(
        ...keysOf(account, address).map(([key, rule]) => bucketOf(key, rule).blockedUntilMs - now()),
      )
      if (waitMs > 0) return Math.ceil(waitMs / 1000)
      for (const [key, rule] of keysOf(account, address)) {
        const bucket = bucketOf(key, rule)
        bucket.failures += 1
        bucket.lastMs = now()
        const over = bucket.failures - rule.free
        if (over >= 0)
          bucket.blockedUntilMs = now() + Math.min(rule.maxWaitMs, 1000 * 2 ** Math.min(over, 20))
      }
      return 0
    },
    succeed(account: string, address: string): void {
      buckets.delete(`both|${account}|${address}`)
      buckets.delete(`account|${account}`)
      // One right password does not excuse the wrong ones: of the address, only this attempt is taken back.
      const bucket = bucketOf(`address|${address}`, RULES.address)
      bucket.failures = Math.max(0, bucket.failures - 1)
      bucket.blockedUntilMs = 0
    },
  }
}

/** Kept in one place for all workers. */
export type Throttle = {
  attempt(account: string, address: string): number | Promise<number>
  succeed(account: string, address: string): void
}

/** Throws 429 while this account or address has to wait. */
export async function mustBeAllowed(throttle: Throttle, account: string, address: string): Promise<void> {
  const waitS = await throttle.attempt(account, address)
  if (waitS > 0) throw tooMany(waitS)
}
