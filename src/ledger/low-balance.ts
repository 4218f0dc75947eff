import type { AccountName } from './books.ts'
import { lagTimeout } from './lag-timeout.ts'
import type { LeasedBalance, Leases } from './leases.ts'

/** Others who spend from the same accounts. */
export type Neighbours = {
  /** Nobody else does: what the store has not, nobody has. */
  readonly areNone: boolean
  /** They give back what is free of these accounts, and for a while take only what they need. */
  recall(accounts: readonly AccountName[]): Promise<void>
  /** One at a time, for one user. */
  exclusively<T>(userId: number, work: () => Promise<T>): Promise<T>
}

type Waiter = {
  readonly amount: number
  /** Waited too long, and was told so. */
  isGone: boolean
  take(): void
  decide(isCovered: boolean): void
  fail(error: Error): void
}

/**
 * Accounts too low to lease from ahead. Requests wait for a round; in it one node alone calls in what the others have
 * free, leases exactly what its waiting requests need, and decides all of them in order. So nobody is refused while
 * the money lies idle with a neighbour.
 */
export function createLowBalance({ purses, neighbours }: { purses: Leases; neighbours: Neighbours }) {
  /** By user and token: whoever asks for themselves has none. */
  const waiting = new Map<string, Waiter[]>()
  const nameOf = (user: LeasedBalance, token: LeasedBalance) =>
    `${user.account.ownerId} ${token.account.ownerId}`

  function called(name: string): readonly Waiter[] {
    const waiters = waiting.get(name) ?? []
    waiting.delete(name)
    return waiters.filter(waiter => !waiter.isGone)
  }

  async function decideAll(
    user: LeasedBalance,
    token: LeasedBalance,
    waiters: readonly Waiter[],
  ): Promise<void> {
    const needed = waiters.reduce((sum, { amount }) => sum + amount, 0)
    const limited = [user, token].filter(purse => !purse.isUnlimited)
    const used = Promise.withResolvers<void>()
    try {
      await Promise.all(limited.map(purse => purses.fill(purse, needed, used.promise)))
      for (const waiter of waiters) {
        if (waiter.isGone) continue
        const isCovered = purses.covers(user, waiter.amount) && purses.covers(token, waiter.amount)
        if (isCovered) waiter.take()
        waiter.decide(isCovered)
      }
    } finally {
      used.resolve()
    }
  }

  async function round(user: LeasedBalance, token: LeasedBalance): Promise<void> {
    let waiters: readonly Waiter[] = []
    try {
      await neighbours.exclusively(user.account.ownerId, async () => {
        const limited = [user, token].filter(purse => !purse.isUnlimited)
        await neighbours.recall(limited.map(({ account }) => account))
        // Whoever came while the others were asked is decided too.
        waiters = called(nameOf(user, token))
        await decideAll(user, token, waiters)
      })
    } catch (error) {
      for (const waiter of [...waiters, ...called(nameOf(user, token))]) waiter.fail(error as Error)
    }
  }

  return {
    /** Whether the amount was there and has been taken; undefined when nobody could say in time. */
    wait(
      user: LeasedBalance,
      token: LeasedBalance,
      amount: number,
      take: () => void,
      withinMs: number,
    ): Promise<boolean | undefined> {
      const { promise, resolve, reject } = Promise.withResolvers<boolean | undefined>()
      const waiter: Waiter = { amount, isGone: false, take, decide: resolve, fail: reject }
      const stopWaiting = lagTimeout(withinMs, () => {
        waiter.isGone = true
        resolve(undefined)
      })
      const name = nameOf(user, token)
      const queue = waiting.get(name)
      if (queue) queue.push(waiter)
      else {
        waiting.set(name, [waiter])
        void round(user, token)
      }
      return promise.finally(stopWaiting)
    },
  }
}
