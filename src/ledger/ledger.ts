import type { AccountId } from '../domain/account.ts'
import { Refusal, StorePositionError, UnreachableError } from '../domain/errors.ts'
import { usdText } from '../domain/money.ts'
import { CHANGES_PER_EPOCH } from '../domain/node.ts'
import { systemTimers, type Timers } from '../host/timers.ts'
import type { Batch, Books } from './books.ts'
import { type AccountPair, type Hold, type HoldLedger, type HoldRequest, takeHold } from './hold.ts'
import type { Journal } from './journal.ts'
import { JournalDamageError } from './journal-damage.ts'
import { lagTimeout } from './lag-timeout.ts'
import { createLeases, type LeasedBalance } from './leases.ts'
import { createLowBalance, type OtherNodes } from './low-balance.ts'
import { recover } from './recovery.ts'
import { type HealOutcome, requeue, restoreLeases } from './rollback.ts'
import { createSettledQueue } from './settled-queue.ts'

export type { Hold, HoldRequest } from './hold.ts'

type LedgerDeps = {
  readonly nodeId: string
  readonly journal: Journal
  readonly books: Books
  readonly otherNodes: OtherNodes
  /** How long the store may be away without effect on accounts that were used recently. 0 if it is on this machine. */
  readonly outageMs: number
  /** Settled requests reach the store after at most this long. A read of a single account applies them first. */
  readonly applyEveryMs?: number
  nowMs(): number
  /** Not affected by corrections of the system clock, which must not make leases look idle. */
  monotonicMs?(): number
  readonly timers?: Timers
  onFailure(error: Error, message: string): void
  /** Registers a listener that is called when the store may have lost transactions that it had acknowledged. */
  onFailover?(listener: () => void): void
  /** The store was compared with this node, and what it had lost was applied again. */
  onHealed(outcome: HealOutcome): void
}

const APPLY_EVERY_MS = 150
const SWEEP_EVERY_MS = 500
/**
 * A commit writes every changed index page: with many tokens, a request takes 5 µs less of SQLite's thread than in batches of 1,024. A full
 * batch of them occupies the thread for 0.1 s, in which leases and changes of the management API wait.
 */
const MAX_BATCH = 2_048
/** With more unapplied records, new requests are refused: the journal can bridge a store outage of minutes, not of days. */
const MAX_UNAPPLIED = 200_000
/** The maximum number of records that wait in memory while the disk refuses writes. */
const MAX_UNWRITTEN = 10_000
const LEASE_TIMEOUT_MS = 1_000

/** One nanodollar: the smallest positive balance. */
const SMALLEST_AMOUNT = 1

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

const withTimeout = <T>(promise: Promise<T>, ms: number, timers: Timers): Promise<T> => {
  const timeout = Promise.withResolvers<never>()
  const stop = lagTimeout(ms, () => timeout.reject(ledgerUnavailable()), timers)
  return Promise.race([promise, timeout.promise]).finally(stop)
}

/** The ledger of a node: holds are in memory, every step is journaled, and settled requests are applied to the store. */
export async function openLedger(deps: LedgerDeps) {
  const {
    nodeId,
    journal,
    books,
    otherNodes,
    outageMs,
    applyEveryMs = APPLY_EVERY_MS,
    nowMs,
    monotonicMs = () => performance.now(),
    timers = systemTimers,
    onFailure,
    onFailover,
    onHealed,
  } = deps
  /** The store may have lost transactions that it had acknowledged. */
  let mayBeBehind = false
  let failovers = 0
  const checkStore = () => {
    mayBeBehind = true
    failovers += 1
  }
  // Before the recovery: the store may lose the start of this node while it recovers.
  onFailover?.(checkStore)
  const leases = createLeases({
    find: account => books.findAccount(account),
    lease: (account, want, number) => books.lease(nodeId, account, want, number),
    returnToStore: (account, amount, number) => books.returnLease(nodeId, account, amount, number),
    setLease: (account, amount, number) => books.setLease(nodeId, account, amount, number),
    outageMs,
    nextChangeNumber: () => ++lastChangeNumber,
    nowMs: monotonicMs,
  })
  const lowBalance = createLowBalance({ leases, otherNodes, timers })
  const unapplied = createSettledQueue(MAX_BATCH)
  /** The batch that was sent to the store and is not acknowledged yet. */
  let batch: Batch | undefined
  let applying: Promise<void> | undefined
  /** The last record that is to be applied now. Later ones wait for the next interval, or for a full batch. */
  let dueLsn = 0
  let waits: ApplyWait[] = []
  /** The open records of running requests, oldest first. Recovery reads the journal from the oldest. */
  const openLsns = new Set<number>()

  const onMissingRecords = (what: string) =>
    onFailure(new JournalDamageError(what), 'The journal lacks records that are in the store.')
  const onEpochFailure = (error: Error) =>
    onFailure(error, 'The start of this node could not be recorded beside its journal.')
  const recovered = await recover({ nodeId, journal, books, nowMs, onMissingRecords, onEpochFailure })
  let { appliedLsn } = recovered
  let lastChangeNumber = recovered.epoch * CHANGES_PER_EPOCH

  /** A settlement that is not on the disk may be lost: then recovery needs the open record of its request. */
  function oldestNeededLsn(): number {
    const [oldest = Number.POSITIVE_INFINITY] = openLsns
    return Math.min(oldest, journal.oldestOpenLsn())
  }

  function nextBatch(): Batch | undefined {
    const page = unapplied.first()
    if (!page) return undefined
    const { json, lastLsn } = page
    return {
      settled: json,
      afterLsn: appliedLsn,
      lastLsn,
      oldestOpenLsn: Math.min(lastLsn + 1, oldestNeededLsn()),
    }
  }

  /** What the running comparison has found so far. It is repeated if the store becomes unavailable. */
  let isBehind = false
  let lostSettlements = 0

  const markDue = () => {
    dueLsn = unapplied.lastLsn() ?? dueLsn
  }

  const heal = async () => {
    mayBeBehind = true
    const failoversBefore = failovers
    journal.flush()
    const position = await books.reopenNode(nodeId, recovered.epoch, Math.floor(nowMs() / 1000))
    const before = unapplied.openList()
    const records = requeue({ journal, storedLsn: position.appliedLsn, appliedLsn, unapplied: before })
    unapplied.setList(records)
    markDue()
    if (position.appliedLsn < appliedLsn) {
      isBehind = true
      lostSettlements += records.length - before.length
    }
    batch = undefined
    appliedLsn = position.appliedLsn
    // A batch that was committed without an acknowledgement is applied, and is not sent again.
    endWaits(({ lsn }) => lsn <= position.appliedLsn)
    journal.markNeededAfter(Math.min(appliedLsn, oldestNeededLsn() - 1))
    const uncoveredNanos = await restoreLeases({ nodeId, books, leases, unapplied: records })
    // After another failover meanwhile, the comparison is repeated.
    mayBeBehind = failovers > failoversBefore
    onHealed({ isBehind, settlements: lostSettlements, uncoveredNanos })
    isBehind = false
    lostSettlements = 0
  }

  const isDue = () => unapplied.length() >= MAX_BATCH || (unapplied.length() > 0 && appliedLsn < dueLsn)

  /**
   * Applies the requests that are due, in order, each batch in one transaction. A batch has a cost of its own, so those that are
   * settled meanwhile do not become a small batch at once.
   */
  async function applyDue(): Promise<void> {
    if (mayBeBehind) await heal()
    while (isDue()) {
      // A failed batch may have been committed without an acknowledgement. It is retried unchanged, and `apply` is idempotent.
      batch ??= nextBatch()
      if (!batch) return
      const { lastLsn, oldestOpenLsn } = batch
      try {
        await books.apply(nodeId, batch)
      } catch (error) {
        // A store that has lost a lease refuses to make it negative, so any refusal is a reason to compare.
        if (!(error instanceof UnreachableError)) mayBeBehind = true
        if (!(error instanceof StorePositionError)) throw error
        await heal()
        continue
      }
      batch = undefined
      appliedLsn = lastLsn
      unapplied.removeFirst()
      journal.markNeededAfter(Math.min(lastLsn, oldestOpenLsn - 1))
      endWaits(({ lsn }) => lsn <= lastLsn)
    }
  }

  /** Applies every request that is settled now. */
  function apply(): Promise<void> {
    markDue()
    applying ??= applyDue().then(
      () => {
        applying = undefined
        // A request became due after the last look.
        return isDue() ? apply() : undefined
      },
      error => {
        applying = undefined
        endWaits(() => true, error)
        throw error
      },
    )
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
    const lsn = unapplied.lastLsn()
    // The store may have lost what it had applied.
    if (lsn === undefined) return mayBeBehind ? apply() : Promise.resolve()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    waits.push({ lsn, resolve, reject })
    // Its error is that of the wait.
    apply().catch(() => {})
    return promise
  }

  const applySoon = () => {
    apply().catch(error => onFailure(error, 'Settled requests could not be applied to the store. Retrying.'))
  }
  const stopApplying = timers.every(applyEveryMs, () => {
    if (unapplied.length() > 0 || mayBeBehind) applySoon()
  })
  const stopSweeping = timers.every(SWEEP_EVERY_MS, () => {
    leases
      .sweep()
      .catch(error => onFailure(error, 'Idle leases could not be returned to the store. Retrying.'))
  })

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
        timers,
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
      return (await otherNodes.isEmpty()) ? false : takeWithReturns(pair, amount, take)
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
    const pair = opened instanceof Promise ? await withTimeout(opened, LEASE_TIMEOUT_MS, timers) : opened
    return pair.every(hasQuota) || coverAndTake(pair, SMALLEST_AMOUNT, () => {})
  }

  /** Synchronous if the leases cover the amount. */
  function hold(request: HoldRequest): Hold | Promise<Hold> {
    if (unapplied.length() >= MAX_UNAPPLIED || journal.unwritten() >= MAX_UNWRITTEN || !journal.hasRoom())
      throw ledgerUnavailable()
    const pair = balancesOf(request.userId, request.tokenId)
    if (pair instanceof Promise)
      return withTimeout(pair, LEASE_TIMEOUT_MS, timers).then(each => holdFrom(request, each))
    return holdFrom(request, pair)
  }

  /** User and token are checked and held in one turn of the event loop, so no other request can intervene. */
  function holdFrom(request: HoldRequest, pair: AccountPair): Hold | Promise<Hold> {
    const [user, token] = pair
    if (leases.covers(user, request.amount) && leases.covers(token, request.amount))
      return takeHold(holdLedger, request, pair)
    return holdWithLease(request, pair)
  }

  async function holdWithLease(request: HoldRequest, pair: AccountPair): Promise<Hold> {
    let newHold: Hold | undefined
    await coverAndTake(pair, request.amount, () => {
      newHold = takeHold(holdLedger, request, pair)
    })
    if (newHold === undefined) throw insufficientQuota(request.amount)
    return newHold
  }

  const holdLedger: HoldLedger = {
    journal,
    leases,
    openLsns,
    nowMs,
    coverAndTake,
    onSettled: unapplied.push,
    /** A full batch is applied at once. */
    onCommitted() {
      if (unapplied.length() >= MAX_BATCH && !applying) applySoon()
    },
  }

  return {
    /** Counts the starts of this node. */
    epoch: recovered.epoch,
    hold,
    canSpend,
    heldOf: (account: AccountId) => leases.heldOf(account),
    /** The sum that running requests hold on their users. */
    heldInAll: leases.heldInAll,
    /** The sum that users have leased to this node: held by running requests, or free. */
    leasedInAll: leases.leasedInAll,
    /** The age of the oldest settled request that is not applied to the store. */
    lagMs: () => Math.max(0, nowMs() - (unapplied.oldestMs() ?? nowMs())),
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
    async refreshAll(): Promise<void> {
      for (const account of leases.accounts()) await leases.refresh(account)
    },
    /** Compares the store with this node, and applies again what the store has lost, soon. */
    checkStore,
    async close(): Promise<void> {
      stopApplying()
      stopSweeping()
      journal.flush()
      await apply()
      await leases.returnAll()
      journal.close()
    },
  }
}

export type Ledger = Awaited<ReturnType<typeof openLedger>>
