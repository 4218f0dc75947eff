import type { UnresolvedCharge, UsageLog, VideoNote } from '../domain/settled.ts'
import type { Journal } from './journal.ts'
import type { LeasedBalance, Leases } from './leases.ts'
import type { OpenRecord, SettleRecord } from './record.ts'
import type { UnappliedRecord } from './settled-queue.ts'

export type HoldRequest = Omit<OpenRecord, 'kind' | 'timeMs' | 'userLeased' | 'tokenLeased'>

type HoldEnding = {
  readonly channelId: number
  /** The full cost of the answer; it may exceed the hold. */
  readonly cost: number
  readonly suspense?: readonly UnresolvedCharge[]
  readonly log: UsageLog
  readonly video?: VideoNote | undefined
}

/** A request's hold on the accounts of its user and its token. It ends exactly once. */
export type Hold = {
  /** Records that the request is about to be sent to a channel. It may be sent once the promise resolves. */
  attempt(channelId: number, estimate: number): Promise<void>
  /** Records the cost of the part delivered so far, which the user pays if the process is killed. */
  progress(cost: number): void
  /** Increases the hold; false if the user or the token has not enough quota left. Has no effect on a hold that has ended. */
  extend(amount: number): Promise<boolean>
  held(): number
  /** Returns the amount that user and token pay. Once it resolves, the last byte may be delivered. */
  settle(ending: HoldEnding): Promise<number>
  /** Whether the hold is settled or released. */
  hasEnded(): boolean
  /** Ends the hold without a charge. Has no effect on a hold that has ended, and returns false. */
  release(): boolean
}

export type AccountPair = readonly [user: LeasedBalance, token: LeasedBalance]

/** What a hold needs of its ledger. */
export type HoldLedger = {
  readonly journal: Journal
  readonly leases: Leases
  /** The open records of running requests. */
  readonly openLsns: Set<number>
  nowMs(): number
  /** Calls `take` and returns true as soon as both accounts cover the amount; false if they cannot. */
  coverAndTake(pair: AccountPair, amount: number, take: () => void): Promise<boolean>
  /** A settle record was appended to the journal. */
  onSettled(record: UnappliedRecord): void
  /** The settle record is durable. */
  onCommitted(): void
}

const NO_SUSPENSE: readonly UnresolvedCharge[] = []

/** Takes a hold that both accounts cover, and journals it. */
export function takeHold(ledger: HoldLedger, request: HoldRequest, [user, token]: AccountPair): Hold {
  const { leases, journal, openLsns, nowMs } = ledger
  // Field by field, because every request has one and a spread takes longer. JSON omits what is undefined.
  const open: OpenRecord = {
    kind: 'open',
    timeMs: nowMs(),
    rid: request.rid,
    userId: request.userId,
    tokenId: request.tokenId,
    tokenName: request.tokenName,
    model: request.model,
    amount: request.amount,
    isStream: request.isStream,
    address: request.address,
    videoId: request.videoId,
    userLeased: leases.take(user, request.amount),
    tokenLeased: leases.take(token, request.amount),
  }
  const { lsn } = journal.append(open)
  openLsns.add(lsn)
  return new RequestHold(ledger, { open, lsn, user, token })
}

type OpenHold = {
  readonly open: OpenRecord
  /** The log sequence number of the open record. */
  readonly lsn: number
  readonly user: LeasedBalance
  readonly token: LeasedBalance
}

/** An object of a class, because every request has one: its methods as closures took 2 KB. */
class RequestHold implements Hold {
  readonly #ledger: HoldLedger
  readonly #open: OpenRecord
  readonly #lsn: number
  readonly #user: LeasedBalance
  readonly #token: LeasedBalance
  /** The versions of the two accounts when the hold was taken. */
  readonly #userVersion: number
  readonly #tokenVersion: number
  #amount: number
  #userLeased: number
  #tokenLeased: number
  #hasEnded = false

  constructor(ledger: HoldLedger, { open, lsn, user, token }: OpenHold) {
    this.#ledger = ledger
    this.#open = open
    this.#lsn = lsn
    this.#user = user
    this.#token = token
    this.#userVersion = user.version
    this.#tokenVersion = token.version
    this.#amount = open.amount
    this.#userLeased = open.userLeased
    this.#tokenLeased = open.tokenLeased
  }

  attempt(channelId: number, estimate: number): Promise<void> {
    return this.#ledger.journal.append({ kind: 'attempt', rid: this.#open.rid, channelId, estimate })
      .committed
  }

  progress(cost: number): void {
    if (!this.#hasEnded) this.#ledger.journal.append({ kind: 'progress', rid: this.#open.rid, cost })
  }

  extend(more: number): Promise<boolean> {
    // The caller may have computed the amount before the hold was settled.
    if (this.#hasEnded || more <= 0) return Promise.resolve(true)
    return this.#ledger.coverAndTake([this.#user, this.#token], more, () => {
      // A stream does not wait for its extensions, so it may have been settled meanwhile. An ended hold never ends again.
      if (!this.#hasEnded) this.#take(more)
    })
  }

  held(): number {
    return this.#amount
  }

  settle(ending: HoldEnding): Promise<number> {
    if (this.#hasEnded) return Promise.resolve(0)
    const { cost } = ending
    if (cost <= this.#amount) return this.#endWith(ending, cost)
    return this.#coverCost(cost).then(paid => this.#endWith(ending, paid))
  }

  /** Not an async function: every request is settled, and its frame would be one more object that waits for the disk. */
  #endWith(
    { channelId, cost, suspense = NO_SUSPENSE, log, video }: HoldEnding,
    paid: number,
  ): Promise<number> {
    const { userLeased, tokenLeased } = this.#end(paid)
    const { rid, userId, tokenId } = this.#open
    const ledger = this.#ledger
    const timeMs = ledger.nowMs()
    const record: SettleRecord = {
      kind: 'settle',
      rid,
      timeMs,
      userId,
      tokenId,
      channelId,
      cost: paid,
      overrun: cost - paid,
      userLeased,
      tokenLeased,
      doubts: suspense,
      log,
      video,
    }
    const { lsn, body, committed } = ledger.journal.append(record, this.#lsn)
    ledger.onSettled({ lsn, body, timeMs })
    return committed.then(() => {
      ledger.onCommitted()
      return paid
    })
  }

  hasEnded(): boolean {
    return this.#hasEnded
  }

  release(): boolean {
    if (this.#hasEnded) return false
    this.#end(0)
    this.#ledger.journal.append({ kind: 'release', rid: this.#open.rid })
    return true
  }

  #take(more: number): void {
    const { leases } = this.#ledger
    this.#userLeased += leases.extend(this.#user, more)
    this.#tokenLeased += leases.extend(this.#token, more)
    this.#amount += more
  }

  #end(cost: number): { readonly userLeased: number; readonly tokenLeased: number } {
    const { leases, openLsns } = this.#ledger
    const amount = this.#amount
    this.#hasEnded = true
    openLsns.delete(this.#lsn)
    return {
      userLeased: leases.end(
        this.#user,
        { amount, leased: this.#userLeased, version: this.#userVersion },
        cost,
      ),
      tokenLeased: leases.end(
        this.#token,
        { amount, leased: this.#tokenLeased, version: this.#tokenVersion },
        cost,
      ),
    }
  }

  /** Extends the hold to the cost, or as far as the remaining quota of user and token allows. Returns the payable part. */
  async #coverCost(cost: number): Promise<number> {
    // The request has been served and must be settled now, so an unreachable store counts as an exhausted account.
    if (await this.extend(cost - this.#amount).catch(() => false)) return cost
    const free = [this.#user, this.#token].map(balance =>
      balance.isUnlimited ? Number.MAX_SAFE_INTEGER : balance.free,
    )
    this.#take(Math.max(0, Math.min(cost - this.#amount, ...free)))
    // An extension that the stream did not wait for may have made the hold larger than the cost.
    return Math.min(cost, this.#amount)
  }
}
