import type { AccountId } from '../domain/account.ts'
import type { Timers } from '../host/timers.ts'
import { lagTimeout } from './lag-timeout.ts'
import type { LeasedBalance, Leases } from './leases.ts'

/** Other nodes that spend from the same accounts. */
export type OtherNodes = {
  /** Whether this node is the only one: then an account is exhausted if the store has no quota left. */
  isEmpty(): Promise<boolean>
  /** Makes the other nodes return the free part of their leases and, for a while, lease only what they need. */
  returnIdle(accounts: readonly AccountId[]): Promise<IdleReturn>
  /** Runs the work under a lock of the user that all nodes share. `mustStillHold` throws if the lock was lost. */
  exclusively<T>(
    userId: number,
    work: (lock: { readonly mustStillHold: () => void }) => Promise<T>,
  ): Promise<T>
}

/** What the nodes did that were called to return their idle leases. */
export type IdleReturn = {
  /** Rejects if a node that did not respond has leased from the accounts since: they may not be exhausted. */
  mustStillHold(): Promise<void>
}

type Waiter = {
  readonly amount: number
  hasTimedOut: boolean
  take(): void
  decide(isCovered: boolean): void
  fail(error: Error): void
}

/** Requests of a user and a token are decided together, under the lock of the user. */
type Round = {
  readonly user: LeasedBalance
  readonly token: LeasedBalance
  readonly idleReturn: IdleReturn
  /** The requests that waited when the other nodes were called. The others are admitted, or wait for the next round. */
  readonly early: ReadonlySet<Waiter>
  mustHoldLock(): void
}

type LowBalanceDeps = { readonly leases: Leases; readonly otherNodes: OtherNodes; readonly timers: Timers }

/**
 * Decides requests on accounts with a low balance. One node at a time makes the others return their idle leases, leases
 * exactly what its waiting requests need, and decides them in order. So no request is refused while another node has an
 * idle lease of the same account.
 */
export function createLowBalance({ leases, otherNodes, timers }: LowBalanceDeps) {
  /**
   * By user and token; requests without a token share one queue per user. A user and token have a queue while rounds decide
   * their requests.
   */
  const waiting = new Map<string, Waiter[]>()
  const nameOf = (user: LeasedBalance, token: LeasedBalance) =>
    `${user.account.ownerId} ${token.account.ownerId}`

  function takeWaiting(name: string): readonly Waiter[] {
    const waiters = waiting.get(name) ?? []
    waiting.set(name, [])
    return waiters.filter(waiter => !waiter.hasTimedOut)
  }

  /** Leases what the waiting requests need, and decides those that are covered. */
  async function decideCovered(
    { user, token, mustHoldLock }: Round,
    waiters: readonly Waiter[],
  ): Promise<{ readonly uncovered: readonly Waiter[]; readonly isExhausted: boolean }> {
    const needed = waiters.reduce((sum, { amount }) => sum + amount, 0)
    const limited = [user, token].filter(balance => !balance.isUnlimited)
    const used = Promise.withResolvers<void>()
    // Without the lock, another node may be about to refuse a request because it cannot see this lease.
    mustHoldLock()
    try {
      const exhausted = await Promise.all(limited.map(balance => leases.fill(balance, needed, used.promise)))
      const uncovered = waiters.filter(waiter => {
        if (waiter.hasTimedOut) return false
        const isCovered = leases.covers(user, waiter.amount) && leases.covers(token, waiter.amount)
        if (!isCovered) return true
        waiter.take()
        waiter.decide(true)
        return false
      })
      return { uncovered, isExhausted: exhausted.includes(true) }
    } finally {
      used.resolve()
    }
  }

  /** Returns the requests that the next round has to decide. */
  async function decideAll(round: Round, waiters: readonly Waiter[]): Promise<readonly Waiter[]> {
    const { user, token, idleReturn, early } = round
    let undecided = waiters
    while (undecided.length > 0) {
      const withdrawals = user.withdrawals + token.withdrawals
      const { uncovered, isExhausted } = await decideCovered(round, undecided)
      undecided = uncovered
      // Another request may have taken a part of the lease meanwhile. A change of the account, or a late call of another node,
      // may have withdrawn it. Then it is leased again.
      if (isExhausted && user.withdrawals + token.withdrawals === withdrawals) break
    }
    const { refused = [], late = [] } = Object.groupBy(undecided, waiter =>
      early.has(waiter) ? 'refused' : 'late',
    )
    if (refused.length > 0) await idleReturn.mustStillHold()
    for (const waiter of refused) waiter.decide(false)
    return late
  }

  async function decideRound(user: LeasedBalance, token: LeasedBalance): Promise<void> {
    const name = nameOf(user, token)
    let waiters: readonly Waiter[] | undefined
    try {
      const late = await otherNodes.exclusively(user.account.ownerId, async lock => {
        waiters = takeWaiting(name)
        if (waiters.length === 0) return []
        const early = new Set(waiters)
        const limited = [user, token].filter(balance => !balance.isUnlimited)
        const idleReturn = await otherNodes.returnIdle(limited.map(({ account }) => account))
        // Requests that arrived during the call. Another node may have released quota after its response and before them.
        waiters = [...waiters, ...takeWaiting(name)]
        return decideAll({ user, token, idleReturn, early, mustHoldLock: lock.mustStillHold }, waiters)
      })
      waiting.set(name, [...late, ...(waiting.get(name) ?? [])])
    } catch (error) {
      for (const waiter of waiters ?? takeWaiting(name)) waiter.fail(error as Error)
    }
  }

  async function decideWaiting(user: LeasedBalance, token: LeasedBalance): Promise<void> {
    const name = nameOf(user, token)
    while (waiting.get(name)?.length) await decideRound(user, token)
    waiting.delete(name)
  }

  return {
    /** Whether the amount was available and has been taken; undefined after the timeout. */
    wait(
      user: LeasedBalance,
      token: LeasedBalance,
      amount: number,
      take: () => void,
      withinMs: number,
    ): Promise<boolean | undefined> {
      const { promise, resolve, reject } = Promise.withResolvers<boolean | undefined>()
      const waiter: Waiter = { amount, hasTimedOut: false, take, decide: resolve, fail: reject }
      const stopWaiting = lagTimeout(
        withinMs,
        () => {
          waiter.hasTimedOut = true
          resolve(undefined)
        },
        timers,
      )
      const name = nameOf(user, token)
      const queue = waiting.get(name)
      if (queue) queue.push(waiter)
      else {
        waiting.set(name, [waiter])
        void decideWaiting(user, token)
      }
      return promise.finally(stopWaiting)
    },
  }
}
