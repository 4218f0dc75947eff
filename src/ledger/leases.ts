import type { AccountId } from '../domain/account.ts'
import { NO_TOKEN } from '../domain/token.ts'

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
  lastUsedMs: number
  /** A running lease request. Resolves to whether the store granted less than requested: all that was left. */
  leaseRequest: Promise<boolean> | undefined
  /** Settles when the previous lease change has completed or failed. Changes of one account are serialized. */
  lastChange: Promise<void> | undefined
  /** A change that was sent and not acknowledged. It is retried, unchanged, before the next change. */
  unacknowledged: LeaseChange | undefined
  /** Counts changes of the account in the store. */
  version: number
  /** Counts how often the free part of the lease was withdrawn. */
  withdrawals: number
  /** Until then this node leases only what it needs, because another node needed the free part. */
  lowUntilMs: number
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
  /** Larger than every earlier number of this process and of earlier processes of the node. */
  nextChangeNumber(): number
  nowMs(): number
}

/** A lease covers this many requests of the current size. Holds are far above real costs, so a lease lasts long. */
const LEASE_FACTOR = 16
const RETURN_IDLE_MS = 1_000
const LOW_MS = 1_000
const EVICT_IDLE_MS = 60_000

const nameOf = ({ kind, ownerId }: AccountId) => `${kind}:${ownerId}`

const emptyBalance = (account: AccountId, isUnlimited: boolean, lastUsedMs: number): LeasedBalance => ({
  account,
  isUnlimited,
  free: 0,
  surplus: 0,
  held: 0,
  lastUsedMs,
  leaseRequest: undefined,
  lastChange: undefined,
  unacknowledged: undefined,
  version: 0,
  withdrawals: 0,
  lowUntilMs: 0,
})

export function createLeases({ find, lease, returnToStore, nextChangeNumber, nowMs }: LeasesDeps) {
  const balances = new Map<string, LeasedBalance>()
  const opening = new Map<string, Promise<LeasedBalance | undefined>>()

  async function load(account: AccountId): Promise<LeasedBalance | undefined> {
    const row = await find(account)
    if (!row) return undefined
    const balance = emptyBalance(account, row.isUnlimited, nowMs())
    balances.set(nameOf(account), balance)
    return balance
  }

  /** The unlimited balance of requests without a token. It belongs to no account. */
  const noTokenBalance = emptyBalance({ kind: 'token', ownerId: NO_TOKEN }, true, 0)

  /** Returns a cached balance synchronously, because this is the hot path of every request. */
  function open(account: AccountId): LeasedBalance | Promise<LeasedBalance | undefined> {
    if (account.kind === 'token' && account.ownerId === NO_TOKEN) return noTokenBalance
    const name = nameOf(account)
    const cached = balances.get(name)
    if (cached) {
      cached.lastUsedMs = nowMs()
      return cached
    }
    const running = opening.get(name)
    if (running) return running
    const promise = load(account).finally(() => opening.delete(name))
    opening.set(name, promise)
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

  async function returnLease(balance: LeasedBalance): Promise<void> {
    await balance.leaseRequest?.catch(() => false)
    await change(balance, () => withdraw(balance))
  }

  return {
    open,
    covers,
    requestMore,
    /** Holds an amount and returns the part of it that was taken from the lease. */
    take(balance: LeasedBalance, amount: number): number {
      const leased = balance.isUnlimited ? 0 : amount
      balance.lastUsedMs = nowMs()
      balance.held += amount
      balance.free -= leased
      return leased
    },
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
      balance.lastUsedMs = nowMs()
      balance.held -= hold.amount
      if (hold.version === balance.version) balance.free += hold.leased - spent
      else balance.surplus += hold.leased - spent
      return spent
    },
    heldOf: (account: AccountId) => balances.get(nameOf(account))?.held ?? 0,
    heldInAll: () => sumOfUsers(({ held }) => held),
    /** An unlimited account is not leased from. */
    leasedInAll: () =>
      sumOfUsers(({ isUnlimited, free, surplus, held }) => free + surplus + (isUnlimited ? 0 : held)),
    /** Returns the free part of the lease, so that the store has the whole balance of the account. */
    async returnIdle(account: AccountId): Promise<void> {
      const balance = balances.get(nameOf(account))
      if (balance) await returnLease(balance)
    },
    isLow: (balance: LeasedBalance) => balance.lowUntilMs > nowMs(),
    /** Like `returnIdle`, for another node that needs the quota. For a while this node leases only what it needs. */
    async returnIdleForPeer(account: AccountId): Promise<void> {
      const balance = balances.get(nameOf(account)) ?? (await opening.get(nameOf(account)))
      if (!balance) return
      balance.lowUntilMs = nowMs() + LOW_MS
      await returnLease(balance)
    },
    /** Leases exactly the amount that is missing. The lease is not returned before `used` resolves. */
    async fill(balance: LeasedBalance, amount: number, used: Promise<void>): Promise<void> {
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
      await filled
    },
    /**
     * Invalidates the cached state of an account after a change in the store. The free part of the lease is returned, so
     * that the new balance decides the next request.
     */
    async refresh(account: AccountId): Promise<void> {
      const balance = balances.get(nameOf(account)) ?? (await opening.get(nameOf(account)))
      if (!balance) return
      invalidate(balance)
      const row = await find(account)
      if (row) balance.isUnlimited = row.isUnlimited
      await balance.leaseRequest?.catch(() => false)
      // A lease request that ran during the change has completed by now, so its grant is withdrawn too.
      await change(balance, () => invalidate(balance))
    },
    async sweep(): Promise<void> {
      for (const [name, balance] of balances) {
        const idleMs = () => nowMs() - balance.lastUsedMs
        if (balance.surplus > 0) await change(balance, () => 0)
        if (idleMs() < RETURN_IDLE_MS || balance.held > 0) continue
        await returnLease(balance)
        // Checked again after the await: a request may have opened this balance and leased for it.
        if (idleMs() > EVICT_IDLE_MS && balance.held === 0 && balance.free + balance.surplus === 0)
          balances.delete(name)
      }
    },
    async returnAll(): Promise<void> {
      for (const balance of balances.values()) await returnLease(balance)
    },
  }
}

export type Leases = ReturnType<typeof createLeases>
