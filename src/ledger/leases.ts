import type { AccountId } from '../domain/account.ts'
import { NO_TOKEN } from '../domain/token.ts'
import { createRecentUse, type RecentUse, type UseCounters } from './recent-use.ts'

/** The part of an account that is leased to this node, which may spend it without the store, and the holds on it. */
export type LeasedBalance = {
  readonly account: AccountId
  isUnlimited: boolean
  /** Leased and not held. */
  free: number
  /** Leased before the account changed and released since. It must be returned to the store and is not spent here. */
  surplus: number
  /** Held by running requests. */
  held: number
  /** The number of these requests. A request may hold 0 and extend its hold later. */
  holds: number
  /** The part of it that was taken from the lease. */
  leasedHolds: number
  /** The part of that which the store does not know any more, because it has lost the lease. Ending holds reduce it. */
  lostHolds: number
  lastUsedMs: number
  /** A running lease request. Resolves to whether the store granted less than requested: all that was left. */
  leaseRequest: Promise<boolean> | undefined
  /** Settles when the previous lease change has completed or failed. Changes of one account are serialized. */
  lastChange: Promise<void> | undefined
  /** A change that was sent and not acknowledged. It is retried, unchanged, before the next change. */
  unacknowledged: LeaseChange | undefined
  /** Counts changes of the account in the store. */
  version: number
  /** Counts refreshes. */
  refreshes: number
  /** The refresh that set `isUnlimited`; 0 if none has. */
  appliedRefresh: number
  /** Counts how often the free part of the lease was withdrawn. */
  withdrawals: number
  /** Until then this node leases only what it needs, because another node needed the free part. */
  lowUntilMs: number
  readonly counters: UseCounters
  readonly recentUse: RecentUse
  /** The lease is not enlarged for an outage before this time. */
  enlargeAfterMs: number
}

/** A change of a lease. The store executes each number once, so a retry is safe. */
type LeaseChange = {
  readonly kind: 'lease' | 'return'
  readonly amount: number
  readonly changeNumber: number
}

type LeasesDeps = {
  /** Undefined: there is no such account. */
  find(account: AccountId): Promise<{ isUnlimited: boolean } | undefined>
  /** Leases up to `want` from the account and returns the granted amount. */
  lease(account: AccountId, want: number, changeNumber: number): Promise<number>
  returnToStore(account: AccountId, amount: number, changeNumber: number): Promise<void>
  /** Makes the lease in the store this large if the account allows it, and returns the new amount. */
  setLease(account: AccountId, amount: number, changeNumber: number): Promise<number>
  /**
   * The store may be away for this long: the lease of an account that was used in this time is kept, and covers what the
   * account is expected to use in it. 0 if the store is on this machine.
   */
  readonly outageMs: number
  /** Larger than every earlier number of this process and of earlier processes of the node. */
  nextChangeNumber(): number
  /** By a clock that is never corrected: an account that a request waits for must not look idle. */
  nowMs(): number
}

/** The part of a lease that an account does not cover any more, and the part of that which settled requests have spent. */
type LostLease = { readonly missing: number; readonly uncoveredBySettled: number }
const NOTHING_LOST: LostLease = { missing: 0, uncoveredBySettled: 0 }

/** A lease covers this many requests of the current size. Holds are far above real costs, so a lease lasts long. */
const LEASE_FACTOR = 16
const RETURN_IDLE_MS = 1_000
const LOW_MS = 1_000
const EVICT_IDLE_MS = 60_000
/** A lease that covers less than this many times the expected use in an outage is enlarged: use varies. */
const MIN_OUTAGE_FACTOR = 1.5
/** It is enlarged to this many times the expected use, so that it is not enlarged often. */
const OUTAGE_FACTOR = 2
/** After an account could not cover the lease for an outage, or another node needed its quota, it is not tried for this long. */
const ENLARGE_AGAIN_MS = 10_000
const RETRY_ENLARGE_MS = 2_000

/** A number, because every request looks up two accounts. */
const keyOf = ({ kind, ownerId }: AccountId) => 2 * ownerId + (kind === 'user' ? 0 : 1)

const emptyBalance = (account: AccountId, isUnlimited: boolean, lastUsedMs: number): LeasedBalance => ({
  account,
  isUnlimited,
  free: 0,
  surplus: 0,
  held: 0,
  holds: 0,
  leasedHolds: 0,
  lostHolds: 0,
  lastUsedMs,
  leaseRequest: undefined,
  lastChange: undefined,
  unacknowledged: undefined,
  version: 0,
  refreshes: 0,
  appliedRefresh: 0,
  withdrawals: 0,
  lowUntilMs: Number.NEGATIVE_INFINITY,
  counters: { spent: 0, largestHold: 0 },
  recentUse: createRecentUse(),
  enlargeAfterMs: 0,
})

export function createLeases(deps: LeasesDeps) {
  const { find, lease, returnToStore, setLease, outageMs, nextChangeNumber, nowMs } = deps
  const returnIdleMs = Math.max(RETURN_IDLE_MS, outageMs)
  const balances = new Map<number, LeasedBalance>()
  const opening = new Map<number, Promise<LeasedBalance | undefined>>()
  /** Accounts that another node needed and this node has not opened: the time until which this node leases only what it needs. */
  const lowUntilMs = new Map<number, number>()

  async function load(account: AccountId): Promise<LeasedBalance | undefined> {
    const row = await find(account)
    if (!row) return undefined
    const key = keyOf(account)
    const balance = emptyBalance(account, row.isUnlimited, nowMs())
    balance.lowUntilMs = lowUntilMs.get(key) ?? Number.NEGATIVE_INFINITY
    lowUntilMs.delete(key)
    balances.set(key, balance)
    return balance
  }

  /** The unlimited balance of requests without a token. It belongs to no account. */
  const noTokenBalance = emptyBalance({ kind: 'token', ownerId: NO_TOKEN }, true, 0)

  /** Returns a cached balance synchronously, because this is the hot path of every request. */
  function open(account: AccountId): LeasedBalance | Promise<LeasedBalance | undefined> {
    if (account.kind === 'token' && account.ownerId === NO_TOKEN) return noTokenBalance
    const key = keyOf(account)
    const cached = balances.get(key)
    if (cached) {
      cached.lastUsedMs = nowMs()
      return cached
    }
    const running = opening.get(key)
    if (running) return running
    const promise = load(account).finally(() => opening.delete(key))
    opening.set(key, promise)
    return promise
  }

  /** A request holds from its token as well; only users have money. */
  const sumOfUsers = (amountOf: (balance: LeasedBalance) => number): number =>
    balances.values().reduce((sum, each) => sum + (each.account.kind === 'user' ? amountOf(each) : 0), 0)

  const covers = (balance: LeasedBalance, amount: number) => balance.isUnlimited || balance.free >= amount

  /**
   * Leases more from the store, or joins a running lease request. The returned function reports whether the account is
   * exhausted, because the store granted all that was left. It returns false if the account has changed or the grant was
   * withdrawn since.
   */
  async function requestMore(balance: LeasedBalance, amount: number): Promise<() => boolean> {
    const { version, withdrawals } = balance
    balance.leaseRequest ??= requestLease(balance, Math.min(amount * LEASE_FACTOR, Number.MAX_SAFE_INTEGER))
    const isExhausted = await balance.leaseRequest
    return () => isExhausted && balance.version === version && balance.withdrawals === withdrawals
  }

  async function send(balance: LeasedBalance, change: LeaseChange): Promise<number> {
    balance.unacknowledged = change
    const { account } = balance
    let granted = 0
    if (change.kind === 'lease') granted = await lease(account, change.amount, change.changeNumber)
    else await returnToStore(account, change.amount, change.changeNumber)
    balance.unacknowledged = undefined
    balance.free += granted
    return granted
  }

  /**
   * Changes the lease in the store. Changes are serialized: otherwise a lease request could find the account empty while
   * an amount is being returned. An unacknowledged change is retried first, unchanged, so that the store executes it once.
   * Until it is acknowledged, no node can spend its amount. `amountToLease` is called when the earlier changes are complete;
   * it may also withdraw the free part, which this change then returns.
   */
  async function change(balance: LeasedBalance, amountToLease: () => number): Promise<number> {
    const previousChange = balance.lastChange
    const { promise, resolve } = Promise.withResolvers<void>()
    balance.lastChange = promise
    try {
      await previousChange
      if (balance.unacknowledged) await send(balance, balance.unacknowledged)
      const want = amountToLease()
      const surplus = balance.surplus
      balance.surplus = 0
      if (surplus > 0)
        await send(balance, { kind: 'return', amount: surplus, changeNumber: nextChangeNumber() })
      return want > 0
        ? await send(balance, { kind: 'lease', amount: want, changeNumber: nextChangeNumber() })
        : 0
    } finally {
      resolve()
    }
  }

  const leaseFor = (balance: LeasedBalance, want: number) => change(balance, () => want)

  /**
   * Stops spending the free part of the lease, which `change` then returns to the store. Returns 0 because it is passed as
   * `amountToLease`: nothing is leased at the same time.
   */
  function withdraw(balance: LeasedBalance): 0 {
    if (balance.free > 0) balance.withdrawals += 1
    balance.surplus += balance.free
    balance.free = 0
    return 0
  }

  /** Withdraws the lease after a change of the account: amounts that running requests release are not spent here either. */
  function invalidate(balance: LeasedBalance): 0 {
    balance.version += 1
    return withdraw(balance)
  }

  const requestLease = (balance: LeasedBalance, want: number) =>
    leaseFor(balance, want)
      .then(granted => granted < want)
      .finally(() => {
        balance.leaseRequest = undefined
      })

  /** Ends a hold on an account whose lease the store has lost in part: that part is neither returned nor reported as spent. */
  function endLostHold(balance: LeasedBalance, spent: number, rest: number): number {
    const lostRest = Math.min(balance.lostHolds, rest)
    const lostSpent = Math.min(balance.lostHolds - lostRest, spent)
    balance.lostHolds -= lostRest + lostSpent
    balance.surplus += rest - lostRest
    return spent - lostSpent
  }

  /**
   * Makes the lease in the store equal to what this node has leased, after the store has lost changes. `unapplied` is what
   * settled requests have spent of it and the store has not applied. If the account cannot cover the amount any more, the
   * free part is reduced, then that of running requests; the rest was spent by settled requests.
   */
  async function restore(balance: LeasedBalance, unapplied: () => number): Promise<LostLease> {
    const previousChange = balance.lastChange
    const { promise, resolve } = Promise.withResolvers<void>()
    balance.lastChange = promise
    try {
      await previousChange
      // Superseded by the higher number of this change.
      balance.unacknowledged = undefined
      // Requests that start or end meanwhile do not change the sum.
      const total = balance.free + balance.surplus + balance.leasedHolds - balance.lostHolds + unapplied()
      const missing = total - (await setLease(balance.account, total, nextChangeNumber()))
      let remaining = missing
      const reduce = (available: number) => {
        const part = Math.min(remaining, available)
        remaining -= part
        return part
      }
      balance.surplus -= reduce(balance.surplus)
      if (remaining > 0 && balance.free > 0) balance.withdrawals += 1
      balance.free -= reduce(balance.free)
      balance.lostHolds += reduce(balance.leasedHolds - balance.lostHolds)
      return { missing, uncoveredBySettled: remaining }
    } finally {
      resolve()
    }
  }

  /** Makes the lease cover an outage of the store: what is used in it, and the holds of requests that run at the same time. */
  function enlarge(balance: LeasedBalance): void {
    const now = nowMs()
    const { counters, recentUse } = balance
    recentUse.sample(counters, now)
    if (balance.isUnlimited || balance.leaseRequest || now < balance.enlargeAfterMs) return
    const expected = recentUse.spentIn(outageMs, counters, now)
    if (expected === 0 || now < balance.lowUntilMs + ENLARGE_AGAIN_MS) return
    const holds = recentUse.largestHold(counters) * LEASE_FACTOR
    if (balance.free >= expected * MIN_OUTAGE_FACTOR + holds) return
    const want = Math.ceil(expected * OUTAGE_FACTOR) + holds - balance.free
    balance.leaseRequest = requestLease(balance, Math.min(want, Number.MAX_SAFE_INTEGER))
    balance.leaseRequest
      .then(isExhausted => (isExhausted ? ENLARGE_AGAIN_MS : 0))
      // The store is away, and the lease lasts for a while. A request that needs more reports the failure.
      .catch(() => RETRY_ENLARGE_MS)
      .then(waitMs => {
        balance.enlargeAfterMs = nowMs() + waitMs
      })
  }

  async function returnLease(balance: LeasedBalance): Promise<void> {
    await balance.leaseRequest?.catch(() => false)
    await change(balance, () => withdraw(balance))
  }

  /** Extends a hold and returns the part of the amount that was taken from the lease. */
  function extend(balance: LeasedBalance, amount: number): number {
    const leased = balance.isUnlimited ? 0 : amount
    // The time of the last use is not set: `open` has set it, and a balance with a hold is not idle.
    balance.held += amount
    balance.leasedHolds += leased
    balance.free -= leased
    if (leased > balance.counters.largestHold) balance.counters.largestHold = leased
    return leased
  }

  return {
    open,
    covers,
    requestMore,
    /** Takes the hold of a new request and returns the part of it that was taken from the lease. */
    take(balance: LeasedBalance, amount: number): number {
      balance.holds += 1
      return extend(balance, amount)
    },
    extend,
    /**
     * Ends a hold and returns the spent part of the lease. The remainder becomes free, unless the account changed after the
     * hold was taken: then it is returned to the store, which knows the new balance.
     */
    end(
      balance: LeasedBalance,
      hold: { amount: number; leased: number; version: number },
      cost: number,
    ): number {
      const spent = Math.min(cost, hold.leased)
      const rest = hold.leased - spent
      balance.lastUsedMs = nowMs()
      balance.held -= hold.amount
      balance.holds -= 1
      balance.leasedHolds -= hold.leased
      balance.counters.spent += spent
      if (balance.lostHolds > 0) return endLostHold(balance, spent, rest)
      if (hold.version === balance.version) balance.free += rest
      else balance.surplus += rest
      return spent
    },
    heldOf: (account: AccountId) => balances.get(keyOf(account))?.held ?? 0,
    heldInAll: () => sumOfUsers(({ held }) => held),
    /** An unlimited account is not leased from. */
    leasedInAll: () =>
      sumOfUsers(({ isUnlimited, free, surplus, held }) => free + surplus + (isUnlimited ? 0 : held)),
    /** Returns the free part of the lease, so that the store has the whole balance of the account. */
    async returnIdle(account: AccountId): Promise<void> {
      const balance = balances.get(keyOf(account))
      if (balance) await returnLease(balance)
    },
    isLow: (balance: LeasedBalance) => balance.lowUntilMs > nowMs(),
    /** Like `returnIdle`, for another node that needs the quota. For a while this node leases only what it needs. */
    async returnIdleForPeer(account: AccountId): Promise<void> {
      const key = keyOf(account)
      // Also without a balance: otherwise this node could open the account now and lease all that is left.
      if (!balances.has(key)) lowUntilMs.set(key, nowMs() + LOW_MS)
      const balance = balances.get(key) ?? (await opening.get(key))
      if (!balance) return
      balance.lowUntilMs = nowMs() + LOW_MS
      await returnLease(balance)
    },
    /**
     * Leases exactly the amount that is missing. The lease is not returned before `used` resolves. True if the store granted
     * less: all that was left.
     */
    async fill(balance: LeasedBalance, amount: number, used: Promise<void>): Promise<boolean> {
      await balance.leaseRequest?.catch(() => false)
      balance.lowUntilMs = nowMs() + LOW_MS
      const missing = Math.min(amount, Number.MAX_SAFE_INTEGER) - balance.free
      const filled = missing > 0 ? leaseFor(balance, missing) : Promise.resolve(0)
      balance.leaseRequest = filled
        .then(() => used)
        .then(() => true)
        .finally(() => {
          balance.leaseRequest = undefined
        })
      // An unhandled rejection would end the process. The caller gets the error from `filled`.
      balance.leaseRequest.catch(() => {})
      return (await filled) < missing
    },
    /**
     * Invalidates the cached state of an account after a change in the store. The free part of the lease is returned, so
     * that the new balance decides the next request.
     */
    async refresh(account: AccountId): Promise<void> {
      const balance = balances.get(keyOf(account)) ?? (await opening.get(keyOf(account)))
      if (!balance) return
      invalidate(balance)
      balance.refreshes += 1
      const refreshNumber = balance.refreshes
      const row = await find(account)
      // Refreshes may overlap: a read that began earlier can end later, with an older state.
      if (row && refreshNumber > balance.appliedRefresh) {
        balance.isUnlimited = row.isUnlimited
        balance.appliedRefresh = refreshNumber
      }
      await balance.leaseRequest?.catch(() => false)
      // A lease request that ran during the change has completed by now, so its grant is withdrawn too.
      await change(balance, () => invalidate(balance))
    },
    async sweep(): Promise<void> {
      for (const [key, untilMs] of lowUntilMs) if (untilMs < nowMs()) lowUntilMs.delete(key)
      for (const [key, balance] of balances) {
        const idleMs = () => nowMs() - balance.lastUsedMs
        if (balance.surplus > 0) await change(balance, () => 0)
        const isUsed = idleMs() < returnIdleMs || balance.holds > 0
        if (outageMs > 0 && isUsed) enlarge(balance)
        if (isUsed) continue
        await returnLease(balance)
        // Checked again after the await: a request may have opened this balance and leased for it.
        if (
          idleMs() > Math.max(EVICT_IDLE_MS, returnIdleMs) &&
          balance.holds === 0 &&
          balance.free + balance.surplus === 0
        )
          balances.delete(key)
      }
    },
    /** The accounts whose balances are in memory. */
    accounts: (): AccountId[] => [...balances.values()].map(({ account }) => account),
    /** See `restore`. There is nothing to restore for an account without a lease here and in the store, or a deleted one. */
    async restoreLease(account: AccountId, unapplied: () => number, isInStore: boolean): Promise<LostLease> {
      const balance = await open(account)
      if (!balance || balance === noTokenBalance) return NOTHING_LOST
      const isLeased = balance.free + balance.surplus + balance.leasedHolds + unapplied() > 0
      const isChanging = balance.lastChange !== undefined || balance.unacknowledged !== undefined
      return isInStore || isLeased || isChanging ? restore(balance, unapplied) : NOTHING_LOST
    },
    async returnAll(): Promise<void> {
      for (const balance of balances.values()) await returnLease(balance)
    },
  }
}

export type Leases = ReturnType<typeof createLeases>
