import type { AccountId } from '../domain/account.ts'
import { Refusal } from '../domain/errors.ts'
import { usdText } from '../domain/money.ts'
import type { UnresolvedCharge, UsageLog, VideoNote } from '../domain/settled.ts'
import type { Batch, Books } from './books.ts'
import type { Journal } from './journal.ts'
import { lagTimeout } from './lag-timeout.ts'
import { createLeases, type LeasedBalance } from './leases.ts'
import { createLowBalance, type OtherNodes } from './low-balance.ts'
import type { OpenRecord, SettleRecord } from './record.ts'
import { recover } from './recovery.ts'
import { JournalDamageError } from './segments.ts'

type LedgerDeps = {
  readonly nodeId: string
  readonly journal: Journal
  readonly books: Books
  readonly otherNodes: OtherNodes
  nowMs(): number
  onFailure(error: Error, message: string): void
}

export type HoldRequest = Omit<OpenRecord, 'kind' | 'timeMs' | 'userLeased' | 'tokenLeased'>

type HoldEnding = {
  readonly channelId: number
  /** The full cost of the answer; it may exceed the hold. */
  readonly cost: number
  readonly suspense?: readonly UnresolvedCharge[]
  readonly log: UsageLog
  readonly video?: VideoNote
}

/** A request's hold on the accounts of its user and its token. It ends exactly once. */
export type Hold = {
  /** Records that the request is about to be sent to a channel. It may be sent once the promise resolves. */
  attempt(channelId: number, estimate: number): Promise<void>
  /** Records the cost of the part delivered so far, which the user pays if the process is killed. */
  progress(cost: number): void
  /** Increases the hold; false if the user or the token has not enough quota left. */
  extend(amount: number): Promise<boolean>
  held(): number
  /** Returns the amount that user and token pay. Once it resolves, the last byte may be delivered. */
  settle(ending: HoldEnding): Promise<number>
  /** Ends the hold without a charge. Has no effect on a hold that has ended, and returns false. */
  release(): boolean
}

/** Settled requests reach the store after at most this long. A read of a single account applies them first. */
const APPLY_EVERY_MS = 200
const SWEEP_EVERY_MS = 500
/** A commit writes every changed index page: with 256 a request takes 18 µs of SQLite's thread, with 1,024 it takes 12. */
const MAX_BATCH = 1_024
/** With more unapplied records, new requests are refused: the journal can bridge a store outage of minutes, not of days. */
const MAX_UNAPPLIED = 200_000
/** The lease change numbers of one process. The epoch counts the starts of the node, so later processes number higher. */
const CHANGES_PER_EPOCH = 2 ** 32
/** The maximum number of records that wait in memory while the disk refuses writes. */
const MAX_UNWRITTEN = 10_000
const LEASE_TIMEOUT_MS = 1_000

/** One nanodollar: the smallest positive balance. */
const SMALLEST_AMOUNT = 1

type AccountPair = readonly [user: LeasedBalance, token: LeasedBalance]

/** The versions of the two accounts when the hold was taken. */
type Versions = { readonly user: number; readonly token: number }

type OpenHold = {
  readonly open: OpenRecord
  /** The log sequence number of the open record. */
  readonly lsn: number
  readonly user: LeasedBalance
  readonly token: LeasedBalance
  readonly versions: Versions
}

/** A caller that waits until this record is applied to the store. */
type ApplyWait = { readonly lsn: number; resolve(): void; reject(error: Error): void }

/** `amount`: what the request can cost at most, in nanodollars. */
export const insufficientQuota = (amount: number) =>
  new Refusal(
    'insufficient_quota',
    `The token or its user does not have enough quota for this request, which can cost up to $${usdText(amount)}.`,
  )
const ledgerUnavailable = () =>
  new Refusal(
    'ledger_unavailable',
    'The ledger is unavailable, so the request was not sent to a provider. Try again in a moment.',
    {
      retryAfterS: 5,
    },
  )

const withTimeout = <T>(promise: Promise<T>, ms: number): Promise<T> => {
  const timeout = Promise.withResolvers<never>()
  const stop = lagTimeout(ms, () => timeout.reject(ledgerUnavailable()))
  return Promise.race([promise, timeout.promise]).finally(stop)
}

/** The ledger of a node: holds are in memory, every step is journaled, and settled requests are applied to the store. */
export async function openLedger({ nodeId, journal, books, otherNodes, nowMs, onFailure }: LedgerDeps) {
  const leases = createLeases({
    find: account => books.findAccount(account),
    lease: (account, want, number) => books.lease(nodeId, account, want, number),
    returnToStore: (account, amount, number) => books.returnLease(nodeId, account, amount, number),
    nextChangeNumber: () => ++lastChangeNumber,
    nowMs,
  })
  const lowBalance = createLowBalance({ leases, otherNodes })
  let unapplied: { lsn: number; body: string; timeMs: number }[] = []
  /** The batch that was sent to the store and is not acknowledged yet. */
  let batch: Batch | undefined
  let applying: Promise<void> | undefined
  let waits: ApplyWait[] = []
  /** The open records of running requests, oldest first. Recovery reads the journal from the oldest. */
  const openLsns = new Set<number>()

  const onMissingRecords = (what: string) =>
    onFailure(new JournalDamageError(what), 'The journal lacks records that are in the store.')
  const recovered = await recover({ nodeId, journal, books, nowMs, onMissingRecords })
  let { appliedLsn } = recovered
  let lastChangeNumber = recovered.epoch * CHANGES_PER_EPOCH

  function nextBatch(): Batch {
    const records = unapplied.slice(0, MAX_BATCH)
    const lastLsn = records.at(-1)?.lsn ?? appliedLsn
    const [oldestOpenLsn = lastLsn + 1] = openLsns
    return { settled: records.map(({ body }) => body), afterLsn: appliedLsn, lastLsn, oldestOpenLsn }
  }

  /** Applies the settled requests in order, each batch in one transaction. Under load there is always another batch. */
  async function applyAll(): Promise<void> {
    while (unapplied.length > 0) {
      // A failed batch may have been committed without an acknowledgement. It is retried unchanged, and `apply` is idempotent.
      batch ??= nextBatch()
      const { settled, lastLsn, oldestOpenLsn } = batch
      await books.apply(nodeId, batch)
      batch = undefined
      appliedLsn = lastLsn
      unapplied = unapplied.slice(settled.length)
      journal.markNeededAfter(Math.min(lastLsn, oldestOpenLsn - 1))
      endWaits(({ lsn }) => lsn <= lastLsn)
    }
  }

  function apply(): Promise<void> {
    applying ??= applyAll()
      .catch(error => {
        endWaits(() => true, error)
        throw error
      })
      .finally(() => {
        applying = undefined
      })
    return applying
  }

  /** Ends the waits for the application of records, with an error if there is one. */
  function endWaits(isOver: (wait: ApplyWait) => boolean, error?: Error): void {
    for (const { resolve, reject } of waits.filter(isOver))
      if (error) reject(error)
      else resolve()
    waits = waits.filter(wait => !isOver(wait))
  }

  /** Applies every request that was settled before the call. It does not wait for those that are settled meanwhile. */
  function applyUpToNow(): Promise<void> {
    const last = unapplied.at(-1)
    if (!last) return Promise.resolve()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    waits.push({ lsn: last.lsn, resolve, reject })
    // Its error is that of the wait.
    apply().catch(() => {})
    return promise
  }

  const applySoon = () => {
    apply().catch(error => onFailure(error, 'Settled requests could not be applied to the store. Retrying.'))
  }
  const applyTimer = setInterval(() => {
    if (unapplied.length > 0) applySoon()
  }, APPLY_EVERY_MS)
  const sweepTimer = setInterval(() => {
    leases
      .sweep()
      .catch(error => onFailure(error, 'Idle leases could not be returned to the store. Retrying.'))
  }, SWEEP_EVERY_MS)
  applyTimer.unref()
  sweepTimer.unref()

  /** Cached balances are returned synchronously, without a turn of the event loop. */
  function balancesOf(userId: number, tokenId: number): AccountPair | Promise<AccountPair> {
    const user = leases.open({ kind: 'user', ownerId: userId })
    const token = leases.open({ kind: 'token', ownerId: tokenId })
    if (!(user instanceof Promise) && !(token instanceof Promise)) return [user, token]
    return Promise.all([user, token]).then(([u, t]) => {
      if (!u || !t) throw new Refusal('invalid_api_key', 'The token was deleted.')
      return [u, t]
    })
  }

  /**
   * Leases more from the store where a lease does not cover the amount. True if the caller shall check again; false if the
   * store has no quota left for one of the accounts.
   */
  async function leaseMore(pair: AccountPair, amount: number): Promise<boolean> {
    const uncovered = pair.filter(balance => !leases.covers(balance, amount))
    try {
      const exhaustionChecks = await withTimeout(
        Promise.all(uncovered.map(balance => leases.requestMore(balance, amount))),
        LEASE_TIMEOUT_MS,
      )
      return uncovered.every(
        (balance, index) => leases.covers(balance, amount) || !exhaustionChecks[index]?.(),
      )
    } catch (error) {
      onFailure(error as Error, 'Quota could not be leased from the store.')
      throw ledgerUnavailable()
    }
  }

  /**
   * Calls `take` and returns true as soon as both accounts cover the amount; false if they cannot. `take` runs in the same
   * turn of the event loop as the check: otherwise another request that waited for the same lease could spend it first.
   */
  async function coverAndTake(pair: AccountPair, amount: number, take: () => void): Promise<boolean> {
    while (!pair.every(balance => leases.covers(balance, amount))) {
      if (pair.some(leases.isLow)) return takeWithReturns(pair, amount, take)
      if (await leaseMore(pair, amount)) continue
      return otherNodes.isEmpty ? false : takeWithReturns(pair, amount, take)
    }
    take()
    return true
  }

  /** Makes the other nodes return their idle leases, then takes the amount if it is covered; see `createLowBalance`. */
  async function takeWithReturns(
    [user, token]: AccountPair,
    amount: number,
    take: () => void,
  ): Promise<boolean> {
    const isCovered = await lowBalance.wait(user, token, amount, take, LEASE_TIMEOUT_MS).catch(error => {
      onFailure(error, 'Quota could not be leased from the store.')
      return undefined
    })
    if (isCovered === undefined) throw ledgerUnavailable()
    return isCovered
  }

  /** Held quota counts too: holds are far above real costs, so most of it becomes free again. */
  const hasQuota = (balance: LeasedBalance) => balance.isUnlimited || balance.free > 0 || balance.held > 0

  /** Whether user and token have any quota left. It takes no hold. */
  async function canSpend(userId: number, tokenId: number): Promise<boolean> {
    const opened = balancesOf(userId, tokenId)
    const pair = opened instanceof Promise ? await withTimeout(opened, LEASE_TIMEOUT_MS) : opened
    return pair.every(hasQuota) || coverAndTake(pair, SMALLEST_AMOUNT, () => {})
  }

  async function hold(request: HoldRequest): Promise<Hold> {
    if (unapplied.length >= MAX_UNAPPLIED || journal.unwritten() >= MAX_UNWRITTEN || !journal.hasRoom())
      throw ledgerUnavailable()
    const opened = balancesOf(request.userId, request.tokenId)
    const [user, token] = opened instanceof Promise ? await withTimeout(opened, LEASE_TIMEOUT_MS) : opened
    let userLeased = 0
    let tokenLeased = 0
    let versions: Versions = { user: user.version, token: token.version }
    // User and token are checked and held in one turn of the event loop, so no other request can intervene.
    const take = () => {
      versions = { user: user.version, token: token.version }
      userLeased = leases.take(user, request.amount)
      tokenLeased = leases.take(token, request.amount)
    }
    if (leases.covers(user, request.amount) && leases.covers(token, request.amount)) take()
    else if (!(await coverAndTake([user, token], request.amount, take)))
      throw insufficientQuota(request.amount)
    const open: OpenRecord = { kind: 'open', timeMs: nowMs(), ...request, userLeased, tokenLeased }
    const { lsn } = journal.append(open)
    openLsns.add(lsn)
    return createHold({ open, lsn, user, token, versions })
  }

  function createHold({ open, lsn, user, token, versions }: OpenHold): Hold {
    const { rid } = open
    let amount = open.amount
    let userLeased = open.userLeased
    let tokenLeased = open.tokenLeased
    let hasEnded = false

    function take(more: number): void {
      userLeased += leases.take(user, more)
      tokenLeased += leases.take(token, more)
      amount += more
    }

    function end(cost: number) {
      hasEnded = true
      openLsns.delete(lsn)
      return {
        userLeased: leases.end(user, { amount, leased: userLeased, version: versions.user }, cost),
        tokenLeased: leases.end(token, { amount, leased: tokenLeased, version: versions.token }, cost),
      }
    }

    const extend = (more: number) => coverAndTake([user, token], more, () => take(more))

    /** Extends the hold to the cost, or as far as the remaining quota of user and token allows. Returns the payable part. */
    async function coverCost(cost: number): Promise<number> {
      if (cost <= amount) return cost
      // The request has been served and must be settled now, so an unreachable store counts as an exhausted account.
      if (await extend(cost - amount).catch(() => false)) return cost
      const free = [user, token].map(balance =>
        balance.isUnlimited ? Number.MAX_SAFE_INTEGER : balance.free,
      )
      take(Math.max(0, Math.min(cost - amount, ...free)))
      return amount
    }

    return {
      attempt: (channelId, estimate) =>
        journal.append({ kind: 'attempt', rid, channelId, estimate }).committed,
      progress(cost) {
        if (!hasEnded) journal.append({ kind: 'progress', rid, cost })
      },
      extend,
      held: () => amount,
      async settle({ channelId, cost, suspense = [], log, video }) {
        if (hasEnded) return 0
        const paid = cost <= amount ? cost : await coverCost(cost)
        const record: SettleRecord = {
          kind: 'settle',
          rid,
          timeMs: nowMs(),
          userId: open.userId,
          tokenId: open.tokenId,
          channelId,
          cost: paid,
          overrun: cost - paid,
          ...end(paid),
          doubts: suspense,
          log,
          ...(video && { video }),
        }
        const { lsn: settledLsn, body, committed } = journal.append(record)
        unapplied.push({ lsn: settledLsn, body, timeMs: record.timeMs })
        await committed
        // A full batch is applied at once: records that wait longer outlive V8's young generation, and memory grows.
        if (unapplied.length >= MAX_BATCH && !applying) applySoon()
        return paid
      },
      release() {
        if (hasEnded) return false
        end(0)
        journal.append({ kind: 'release', rid })
        return true
      },
    }
  }

  return {
    hold,
    canSpend,
    heldOf: (account: AccountId) => leases.heldOf(account),
    /** The sum that running requests hold on their users. */
    heldInAll: leases.heldInAll,
    /** The sum that users have leased to this node: held by running requests, or free. */
    leasedInAll: leases.leasedInAll,
    /** The age of the oldest settled request that is not applied to the store. */
    lagMs: () => (unapplied[0] ? Math.max(0, nowMs() - unapplied[0].timeMs) : 0),
    /** Resolves when every request that was settled before the call is applied to the store. */
    barrier: applyUpToNow,
    /** Applies settled requests and returns the free lease of an account, before the account is changed in the store. */
    async flushAndReturn(account: AccountId): Promise<void> {
      await applyUpToNow()
      await leases.returnIdle(account)
    },
    /** Returns the free leases of accounts that another node needs. For a while this node leases only what it needs. */
    async returnIdle(accounts: readonly AccountId[]): Promise<void> {
      for (const account of accounts) await leases.returnIdleForPeer(account)
    },
    refresh: leases.refresh,
    async close(): Promise<void> {
      clearInterval(applyTimer)
      clearInterval(sweepTimer)
      journal.flush()
      await apply()
      await leases.returnAll()
      journal.close()
    },
  }
}

export type Ledger = Awaited<ReturnType<typeof openLedger>>
