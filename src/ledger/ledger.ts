import { Refusal } from '../domain/errors.ts'
import type { Doubt, UsageLog, VideoNote } from '../domain/settled.ts'
import type { AccountName, Batch, Books } from './books.ts'
import type { Journal } from './journal.ts'
import { lagTimeout } from './lag-timeout.ts'
import { createLeases, type LeasedBalance } from './leases.ts'
import { createLowBalance, type Neighbours } from './low-balance.ts'
import type { OpenRecord, SettleRecord } from './record.ts'
import { recover } from './recovery.ts'
import { JournalDamageError } from './segments.ts'

export type LedgerDeps = {
  readonly nodeId: string
  readonly journal: Journal
  readonly books: Books
  readonly neighbours: Neighbours
  nowMs(): number
  onFailure(error: Error, message: string): void
}

export type HoldRequest = Omit<OpenRecord, 'kind' | 'timeMs' | 'userLeased' | 'tokenLeased'>

export type HoldEnding = {
  readonly channelId: number
  /** What the answer cost, whatever was held. */
  readonly cost: number
  readonly doubts?: readonly Doubt[]
  readonly log: UsageLog
  readonly video?: VideoNote
}

/** A request's hold on the accounts of its user and its token. It ends exactly once. */
export type Hold = {
  /** Says that a channel is about to be sent the request; once the promise resolves, it may be. */
  attempt(channelId: number, estimate: number): Promise<void>
  progress(cost: number): void
  /** Makes room for a cost above the hold; false when user or token have no more. */
  extend(amount: number): Promise<boolean>
  held(): number
  /** Once it resolves, the last byte may go out. Answers what user and token pay. */
  settle(ending: HoldEnding): Promise<number>
  /** Nothing was sent. A hold that has ended is left alone. */
  release(): void
}

/** Reading one account applies at once; everything else may lag this much behind. */
const APPLY_EVERY_MS = 200
const SWEEP_EVERY_MS = 500
const MAX_BATCH = 256
/** With this much not yet in the store, no new paid work is taken: the journal is for riding out, not for moving in. */
const MAX_UNAPPLIED = 200_000
/** So many changes of leases a process may make before another that has the node would number its own like them. */
const CHANGES_A_LIFE = 2 ** 32
/** So many records may wait for a disk that refuses them. */
const MAX_UNWRITTEN = 10_000
const ASK_TIMEOUT_MS = 1_000

/** The least that an account can have left. */
const LEAST_AMOUNT = 1

type Pair = readonly [user: LeasedBalance, token: LeasedBalance]

/** Which state of the two accounts a hold was taken under. */
type Editions = { readonly user: number; readonly token: number }

type Held = {
  readonly open: OpenRecord
  /** Where the record stands in the journal. */
  readonly lsn: number
  readonly user: LeasedBalance
  readonly token: LeasedBalance
  readonly editions: Editions
}

const insufficient = () =>
  new Refusal('insufficient_quota', 'the token or its user has not enough quota left for this request')
const unavailable = () =>
  new Refusal('ledger_unavailable', 'the books cannot be reached; nothing was sent', { retryAfterS: 5 })

const within = <T>(promise: Promise<T>, ms: number): Promise<T> => {
  const late = Promise.withResolvers<never>()
  const stop = lagTimeout(ms, () => late.reject(unavailable()))
  return Promise.race([promise, late.promise]).finally(stop)
}

/** The books of a node: holds in memory, every step in the journal, settled requests applied to the store. */
export async function openLedger({ nodeId, journal, books, neighbours, nowMs, onFailure }: LedgerDeps) {
  const purses = createLeases({
    find: account => books.findAccount(account),
    lease: (account, want, number) => books.lease(nodeId, account, want, number),
    giveBack: (account, amount, number) => books.giveBack(nodeId, account, amount, number),
    nextNumber: () => ++lastNumber,
    nowMs,
  })
  const rounds = createLowBalance({ purses, neighbours })
  let unapplied: { lsn: number; body: string }[] = []
  /** On its way into the store. */
  let batch: Batch | undefined
  let applying: Promise<void> | undefined
  /** Where running requests began, oldest first: recovery reads from there. */
  const openLsns = new Set<number>()

  const onLost = (what: string) =>
    onFailure(new JournalDamageError(what), 'records in the books are gone from the journal')
  const recovered = await recover({ nodeId, journal, books, nowMs, onLost })
  let { appliedLsn } = recovered
  let lastNumber = recovered.epoch * CHANGES_A_LIFE

  function nextBatch(): Batch {
    const records = unapplied.slice(0, MAX_BATCH)
    const lastLsn = records.at(-1)?.lsn ?? appliedLsn
    const [oldestOpenLsn = lastLsn + 1] = openLsns
    return { settled: records.map(({ body }) => body), afterLsn: appliedLsn, lastLsn, oldestOpenLsn }
  }

  /** Applies what is settled so far, in order, at most a batch a transaction. */
  async function applyAll(): Promise<void> {
    while (unapplied.length > 0) {
      // One that failed may be in the store all the same: it goes again as it was, or some of it would be in twice.
      batch ??= nextBatch()
      const { settled, lastLsn, oldestOpenLsn } = batch
      await books.apply(nodeId, batch)
      batch = undefined
      appliedLsn = lastLsn
      unapplied = unapplied.slice(settled.length)
      journal.markNeededAfter(Math.min(lastLsn, oldestOpenLsn - 1))
    }
  }

  function apply(): Promise<void> {
    applying ??= applyAll().finally(() => {
      applying = undefined
    })
    return applying
  }

  const applySoon = () => {
    apply().catch(error => onFailure(error, 'settled requests wait: the store cannot take them'))
  }
  const applyTimer = setInterval(() => {
    if (unapplied.length > 0) applySoon()
  }, APPLY_EVERY_MS)
  const sweepTimer = setInterval(() => {
    purses.sweep().catch(error => onFailure(error, 'idle leases wait: the store cannot take them back'))
  }, SWEEP_EVERY_MS)
  applyTimer.unref()
  sweepTimer.unref()

  /** Both purses, or what is wrong. Known purses cost no turn of the event loop. */
  function pursesOf(userId: number, tokenId: number): Pair | Promise<Pair> {
    const user = purses.open({ kind: 'user', ownerId: userId })
    const token = purses.open({ kind: 'token', ownerId: tokenId })
    if (!(user instanceof Promise) && !(token instanceof Promise)) return [user, token]
    return Promise.all([user, token]).then(([u, t]) => {
      if (!u || !t) throw new Refusal('invalid_api_key', 'the token was deleted')
      return [u, t]
    })
  }

  /** Asks the store for more where a lease does not cover the amount; false when it has no more. */
  async function askFor(pair: Pair, amount: number): Promise<boolean> {
    const short = pair.filter(purse => !purses.covers(purse, amount))
    try {
      const answers = await within(Promise.all(short.map(purse => purses.ask(purse, amount))), ASK_TIMEOUT_MS)
      return short.every((purse, index) => purses.covers(purse, amount) || !answers[index]?.())
    } catch (error) {
      onFailure(error as Error, 'no lease could be had')
      throw unavailable()
    }
  }

  /**
   * True as soon as both cover the amount, false when they cannot. Whoever gets true must take it in the same turn:
   * others who waited for the same lease run next, and look again for themselves.
   */
  async function makeRoom(pair: Pair, amount: number, take: () => void): Promise<boolean> {
    while (!pair.every(purse => purses.covers(purse, amount))) {
      if (pair.some(purses.isLow)) return waitForRound(pair, amount, take)
      if (await askFor(pair, amount)) continue
      return neighbours.areNone ? false : waitForRound(pair, amount, take)
    }
    take()
    return true
  }

  async function waitForRound([user, token]: Pair, amount: number, take: () => void): Promise<boolean> {
    const isCovered = await rounds.wait(user, token, amount, take, ASK_TIMEOUT_MS).catch(error => {
      onFailure(error, 'no lease could be had')
      return undefined
    })
    if (isCovered === undefined) throw unavailable()
    return isCovered
  }

  const hasSome = ({ isUnlimited, lease, held }: LeasedBalance) => isUnlimited || lease > 0 || held > 0

  /** Whether user and token have anything left to spend. Nothing is held. */
  async function canSpend(userId: number, tokenId: number): Promise<boolean> {
    const found = pursesOf(userId, tokenId)
    const pair = found instanceof Promise ? await within(found, ASK_TIMEOUT_MS) : found
    return pair.every(hasSome) || makeRoom(pair, LEAST_AMOUNT, () => {})
  }

  async function hold(request: HoldRequest): Promise<Hold> {
    if (unapplied.length >= MAX_UNAPPLIED || journal.unwritten() >= MAX_UNWRITTEN || !journal.hasRoom())
      throw unavailable()
    const found = pursesOf(request.userId, request.tokenId)
    const [user, token] = found instanceof Promise ? await within(found, ASK_TIMEOUT_MS) : found
    let userLeased = 0
    let tokenLeased = 0
    let editions: Editions = { user: user.edition, token: token.edition }
    // User and token are checked and held together: nobody else runs between the look and the hold.
    const take = () => {
      editions = { user: user.edition, token: token.edition }
      userLeased = purses.take(user, request.amount)
      tokenLeased = purses.take(token, request.amount)
    }
    if (purses.covers(user, request.amount) && purses.covers(token, request.amount)) take()
    else if (!(await makeRoom([user, token], request.amount, take))) throw insufficient()
    const open: OpenRecord = { kind: 'open', timeMs: nowMs(), ...request, userLeased, tokenLeased }
    const { lsn } = journal.append(open)
    openLsns.add(lsn)
    return createHold({ open, lsn, user, token, editions })
  }

  function createHold({ open, lsn, user, token, editions }: Held): Hold {
    const { rid } = open
    let amount = open.amount
    let userLeased = open.userLeased
    let tokenLeased = open.tokenLeased
    let hasEnded = false

    function take(more: number): void {
      userLeased += purses.take(user, more)
      tokenLeased += purses.take(token, more)
      amount += more
    }

    function end(cost: number) {
      hasEnded = true
      openLsns.delete(lsn)
      return {
        userLeased: purses.end(user, { amount, leased: userLeased, edition: editions.user }, cost),
        tokenLeased: purses.end(token, { amount, leased: tokenLeased, edition: editions.token }, cost),
      }
    }

    const extend = (more: number) => makeRoom([user, token], more, () => take(more))

    /** Usage above the hold is paid from what user and token still have, the smaller of the two. */
    async function payable(cost: number): Promise<number> {
      if (cost <= amount) return cost
      // Out of reach is the same as having no more: the request has been served and must be settled now.
      if (await extend(cost - amount).catch(() => false)) return cost
      const free = [user, token].map(purse => (purse.isUnlimited ? Number.MAX_SAFE_INTEGER : purse.lease))
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
      async settle({ channelId, cost, doubts = [], log, video }) {
        if (hasEnded) return 0
        const paid = cost <= amount ? cost : await payable(cost)
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
          doubts,
          log,
          ...(video && { video }),
        }
        const { lsn: settledLsn, body, committed } = journal.append(record)
        unapplied.push({ lsn: settledLsn, body })
        await committed
        // A full batch goes at once: texts that wait longer outlive the young generation, and memory grows.
        if (unapplied.length >= MAX_BATCH && !applying) applySoon()
        return paid
      },
      release() {
        if (hasEnded) return
        end(0)
        journal.append({ kind: 'release', rid })
      },
    }
  }

  return {
    hold,
    canSpend,
    heldOf: (account: AccountName) => purses.heldOf(account),
    /** Everything settled when this was called is in the store when it resolves. */
    async barrier(): Promise<void> {
      // One in flight may have begun before the newest record; the second is sure to hold it.
      await apply()
      await apply()
    },
    /** Brings the store up to what this node knows of an account, before somebody changes it there. */
    async surrender(account: AccountName): Promise<void> {
      await apply()
      await apply()
      await purses.recall(account)
    },
    /** Accounts that a neighbour needs: what is free goes back, and little is taken for a while. */
    async yieldTo(accounts: readonly AccountName[]): Promise<void> {
      for (const account of accounts) await purses.yieldTo(account)
    },
    refresh: purses.refresh,
    pending: () => ({ unapplied: unapplied.length, openHolds: openLsns.size }),
    async close(): Promise<void> {
      clearInterval(applyTimer)
      clearInterval(sweepTimer)
      journal.flush()
      await apply()
      await purses.returnAll()
      journal.close()
    },
  }
}

export type Ledger = Awaited<ReturnType<typeof openLedger>>
