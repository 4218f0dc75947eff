import { NO_TOKEN } from '../domain/token.ts'
import type { AccountName } from './books.ts'

/** What this node may spend of an account without asking the store, and what its running requests hold of it. */
export type LeasedBalance = {
  readonly account: AccountName
  isUnlimited: boolean
  /** Leased and free. */
  lease: number
  /** Leased before the account was changed, and released since: it goes back to the store and is never spent here. */
  surplus: number
  /** Of running requests. */
  held: number
  lastUsedMs: number
  asking: Promise<boolean> | undefined
  /** When the last word to the store has been answered, or has failed: only then is the next one said. */
  spoken: Promise<void> | undefined
  /** What the store was told, and of which nobody heard whether it was done. */
  unheard: Word | undefined
  /** Counts changes of the account in the store. */
  edition: number
  /** Counts how often the free part of the lease was withdrawn. */
  withdrawals: number
  /** Until then nothing is leased ahead: a neighbour needed what was free. */
  lowUntilMs: number
}

/** A change of a lease. The store does it once, whatever its number was told before and is told again. */
type Word = { readonly kind: 'lease' | 'give back'; readonly amount: number; readonly number: number }

export type LeasesDeps = {
  /** Undefined: there is no such account. */
  find(account: AccountName): Promise<{ isUnlimited: boolean } | undefined>
  /** Leases up to `want` from the account; answers how much it got. */
  lease(account: AccountName, want: number, number: number): Promise<number>
  giveBack(account: AccountName, amount: number, number: number): Promise<void>
  /** Larger than any before it, in this process and in those that had the node before. */
  nextNumber(): number
  nowMs(): number
}

/** Room for so many requests of the size at hand: their bounds are far above their costs, so a lease lasts long. */
const WANT_TIMES = 16
const IDLE_MS = 1_000
const LOW_MS = 1_000
const FORGET_MS = 60_000

const nameOf = ({ kind, ownerId }: AccountName) => `${kind}:${ownerId}`

export function createLeases({ find, lease, giveBack, nextNumber, nowMs }: LeasesDeps) {
  const purses = new Map<string, LeasedBalance>()
  const opening = new Map<string, Promise<LeasedBalance | undefined>>()

  async function load(account: AccountName): Promise<LeasedBalance | undefined> {
    const found = await find(account)
    if (!found) return undefined
    const purse = {
      account,
      ...found,
      lease: 0,
      surplus: 0,
      held: 0,
      lastUsedMs: nowMs(),
      asking: undefined,
      spoken: undefined,
      unheard: undefined,
      edition: 0,
      withdrawals: 0,
      lowUntilMs: 0,
    }
    purses.set(nameOf(account), purse)
    return purse
  }

  /** For requests under no token: nothing limits them here, and no account stands behind it. */
  const boundless: LeasedBalance = {
    account: { kind: 'token', ownerId: NO_TOKEN },
    isUnlimited: true,
    lease: 0,
    surplus: 0,
    held: 0,
    lastUsedMs: 0,
    asking: undefined,
    spoken: undefined,
    unheard: undefined,
    edition: 0,
    withdrawals: 0,
    lowUntilMs: 0,
  }

  /** The purse at once if it is known: the hot path does not wait. */
  function open(account: AccountName): LeasedBalance | Promise<LeasedBalance | undefined> {
    if (account.kind === 'token' && account.ownerId === NO_TOKEN) return boundless
    const name = nameOf(account)
    const known = purses.get(name)
    if (known) {
      known.lastUsedMs = nowMs()
      return known
    }
    const running = opening.get(name)
    if (running) return running
    const promise = load(account).finally(() => opening.delete(name))
    opening.set(name, promise)
    return promise
  }

  const covers = (purse: LeasedBalance, amount: number) => purse.isUnlimited || purse.lease >= amount

  /**
   * Asks the store for more, or joins a question that runs already. The answer says, whenever it is called, whether the
   * account is exhausted: the store gave all it had, so a request that is not covered cannot be. Nothing is known of that
   * if the account was changed since, or if what was granted has gone back.
   */
  async function ask(purse: LeasedBalance, amount: number): Promise<() => boolean> {
    const { edition, withdrawals } = purse
    purse.asking ??= question(purse, Math.min(amount * WANT_TIMES, Number.MAX_SAFE_INTEGER))
    const hasGivenAll = await purse.asking
    return () => hasGivenAll && purse.edition === edition && purse.withdrawals === withdrawals
  }

  async function say(purse: LeasedBalance, word: Word): Promise<number> {
    purse.unheard = word
    const { account } = purse
    let granted = 0
    if (word.kind === 'lease') granted = await lease(account, word.amount, word.number)
    else await giveBack(account, word.amount, word.number)
    purse.unheard = undefined
    purse.lease += granted
    return granted
  }

  /**
   * Changes the lease in the store, one change after the other: asked while some is on its way back, the store would seem
   * empty. A change of which nobody heard is said again first, as it was: it may have been made, and must not be made
   * twice. What was to be given back is nobody's until that is known.
   */
  async function change(purse: LeasedBalance, wanted: () => number): Promise<number> {
    const before = purse.spoken
    const { promise, resolve } = Promise.withResolvers<void>()
    purse.spoken = promise
    try {
      await before
      if (purse.unheard) await say(purse, purse.unheard)
      const want = wanted()
      const surplus = purse.surplus
      purse.surplus = 0
      if (surplus > 0) await say(purse, { kind: 'give back', amount: surplus, number: nextNumber() })
      return want > 0 ? await say(purse, { kind: 'lease', amount: want, number: nextNumber() }) : 0
    } finally {
      resolve()
    }
  }

  const leaseFor = (purse: LeasedBalance, want: number) => change(purse, () => want)

  /** From here on the free part of the lease is not spent here any more; the next change returns it to the store. */
  function withdraw(purse: LeasedBalance): 0 {
    if (purse.lease > 0) purse.withdrawals += 1
    purse.surplus += purse.lease
    purse.lease = 0
    return 0
  }

  /** The same after a change of the account: what running requests release of their holds is not spent either. */
  function invalidate(purse: LeasedBalance): 0 {
    purse.edition += 1
    return withdraw(purse)
  }

  const question = (purse: LeasedBalance, want: number) =>
    leaseFor(purse, want)
      .then(granted => granted < want)
      .finally(() => {
        purse.asking = undefined
      })

  async function returnLease(purse: LeasedBalance): Promise<void> {
    await purse.asking?.catch(() => false)
    await change(purse, () => withdraw(purse))
  }

  return {
    open,
    covers,
    ask,
    /** Holds an amount and answers how much of it came out of the lease. */
    take(purse: LeasedBalance, amount: number): number {
      const leased = purse.isUnlimited ? 0 : amount
      purse.lastUsedMs = nowMs()
      purse.held += amount
      purse.lease -= leased
      return leased
    },
    /**
     * Ends a hold and returns what was spent of the lease. The rest is free again, unless the account was changed after
     * the hold was taken: then only the store knows whether there is anything left to spend.
     */
    end(
      purse: LeasedBalance,
      held: { amount: number; leased: number; edition: number },
      cost: number,
    ): number {
      const spent = Math.min(cost, held.leased)
      purse.lastUsedMs = nowMs()
      purse.held -= held.amount
      if (held.edition === purse.edition) purse.lease += held.leased - spent
      else purse.surplus += held.leased - spent
      return spent
    },
    heldOf: (account: AccountName) => purses.get(nameOf(account))?.held ?? 0,
    /** Gives back what is free, so that the store alone says what an account has. */
    async recall(account: AccountName): Promise<void> {
      const purse = purses.get(nameOf(account))
      if (purse) await returnLease(purse)
    },
    isLow: (purse: LeasedBalance) => purse.lowUntilMs > nowMs(),
    /** The same for a neighbour in need: for a while every request here waits for its round too. */
    async yieldTo(account: AccountName): Promise<void> {
      const purse = purses.get(nameOf(account)) ?? (await opening.get(nameOf(account)))
      if (!purse) return
      purse.lowUntilMs = nowMs() + LOW_MS
      await returnLease(purse)
    },
    /** Leases what is missing to the amount, and nothing ahead. Nobody calls it back before it is `used`. */
    async fill(purse: LeasedBalance, amount: number, used: Promise<void>): Promise<void> {
      await purse.asking?.catch(() => false)
      purse.lowUntilMs = nowMs() + LOW_MS
      const missing = Math.min(amount, Number.MAX_SAFE_INTEGER) - purse.lease
      const filled = missing > 0 ? leaseFor(purse, missing) : Promise.resolve(0)
      purse.asking = filled
        .then(() => used)
        .then(() => true)
        .finally(() => {
          purse.asking = undefined
        })
      // Often nobody waits for it; that it failed is heard below.
      purse.asking.catch(() => {})
      await filled
    },
    /**
     * Invalidates what is known of an account after it was changed in the store. A request may have leased from it just
     * before the change: what is free of such a lease goes back, so that the next request is decided by the new balance.
     */
    async refresh(account: AccountName): Promise<void> {
      const purse = purses.get(nameOf(account)) ?? (await opening.get(nameOf(account)))
      if (!purse) return
      invalidate(purse)
      const found = await find(account)
      if (found) purse.isUnlimited = found.isUnlimited
      await purse.asking?.catch(() => false)
      // A lease that was on its way when the account changed has arrived by now.
      await change(purse, () => invalidate(purse))
    },
    async sweep(): Promise<void> {
      for (const [name, purse] of purses) {
        const idleMs = () => nowMs() - purse.lastUsedMs
        if (purse.surplus > 0) await change(purse, () => 0)
        if (idleMs() < IDLE_MS || purse.held > 0) continue
        await returnLease(purse)
        // Looked at anew: what is leased for whoever opened it meanwhile would be in a purse that nobody finds.
        if (idleMs() > FORGET_MS && purse.held === 0 && purse.lease + purse.surplus === 0) purses.delete(name)
      }
    },
    async returnAll(): Promise<void> {
      for (const purse of purses.values()) await returnLease(purse)
    },
  }
}

export type Leases = ReturnType<typeof createLeases>
