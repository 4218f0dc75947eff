import type { AccountId } from '../domain/account.ts'
import type { Books } from './books.ts'
import type { Journal } from './journal.ts'
import type { Leases } from './leases.ts'
import type { SettleRecord } from './record.ts'
import type { UnappliedRecord } from './settled-queue.ts'

// A failover to an asynchronous standby loses the last transactions that the store had acknowledged (ADR 25). The journal
// still has the settled requests, and the memory of the node has its leases.

export type HealOutcome = {
  /** The store had lost applied records. */
  readonly isBehind: boolean
  /** The number of settled requests that are applied again. */
  readonly settlements: number
  /** The part of leases that the store had lost and that the accounts could not cover any more. */
  readonly uncoveredNanos: number
}

type Requeuing = {
  readonly journal: Journal
  /** The position of the store. */
  readonly storedLsn: number
  /** The position that the store had acknowledged. */
  readonly appliedLsn: number
  readonly unapplied: readonly UnappliedRecord[]
}

/** The settled requests that the store has to apply, in order: those that it has lost, then those that it never had. */
export function requeue({ journal, storedLsn, appliedLsn, unapplied }: Requeuing): UnappliedRecord[] {
  const lost: UnappliedRecord[] = []
  if (storedLsn < appliedLsn)
    for (const { lsn, record } of journal.readWithoutGaps(storedLsn)) {
      if (lsn > appliedLsn) break
      if (record.kind === 'settle') lost.push({ lsn, body: JSON.stringify(record), timeMs: record.timeMs })
    }
  return [...lost, ...unapplied.filter(({ lsn }) => lsn > storedLsn)]
}

const nameOf = ({ kind, ownerId }: AccountId) => `${kind}:${ownerId}`

/** What the records have spent of the leases, by account. Records that are added later are counted with the next call. */
function createSpending(records: readonly UnappliedRecord[]) {
  const spent = new Map<string, number>()
  let counted = 0
  const add = (name: string, amount: number) => spent.set(name, (spent.get(name) ?? 0) + amount)
  return (): ReadonlyMap<string, number> => {
    for (; counted < records.length; counted++) {
      const { userId, tokenId, userLeased, tokenLeased } = settlementOf(records[counted] as UnappliedRecord)
      add(`user:${userId}`, userLeased)
      add(`token:${tokenId}`, tokenLeased)
    }
    return spent
  }
}

const settlementOf = ({ body }: UnappliedRecord) => JSON.parse(body) as SettleRecord

/** Reduces what records take from the lease of an account, the newest first. Their costs are still charged in full. */
function reduceSpending(records: UnappliedRecord[], { kind, ownerId }: AccountId, amount: number): void {
  let remaining = amount
  for (let at = records.length - 1; at >= 0 && remaining > 0; at--) {
    const record = records[at] as UnappliedRecord
    const settlement = settlementOf(record)
    const isUser = kind === 'user'
    if ((isUser ? settlement.userId : settlement.tokenId) !== ownerId) continue
    const field = isUser ? 'userLeased' : 'tokenLeased'
    const part = Math.min(remaining, settlement[field])
    remaining -= part
    records[at] = { ...record, body: JSON.stringify({ ...settlement, [field]: settlement[field] - part }) }
  }
}

type LeaseRestoring = {
  readonly nodeId: string
  readonly books: Books
  readonly leases: Leases
  /** Changed in place: requests that are settled meanwhile are added to it. */
  readonly unapplied: UnappliedRecord[]
}

/**
 * Makes the leases in the store equal to those of this node. No batch may be applied meanwhile. Returns the amount that the
 * accounts could not cover any more, because other nodes have leased it since.
 */
export async function restoreLeases({ nodeId, books, leases, unapplied }: LeaseRestoring): Promise<number> {
  const spending = createSpending(unapplied)
  const stored = await books.leasesOf(nodeId)
  const accounts = new Map<string, AccountId>()
  for (const { kind, ownerId } of [...stored, ...leases.accounts(), ...spentAccounts(spending())])
    accounts.set(nameOf({ kind, ownerId }), { kind, ownerId })
  const isStored = new Set(stored.map(nameOf))
  let uncovered = 0
  for (const [name, account] of accounts) {
    const spent = () => spending().get(name) ?? 0
    const { missing, uncoveredBySettled } = await leases.restoreLease(account, spent, isStored.has(name))
    reduceSpending(unapplied, account, uncoveredBySettled)
    if (account.kind === 'user') uncovered += missing
  }
  return uncovered
}

const spentAccounts = (spent: ReadonlyMap<string, number>): AccountId[] =>
  [...spent]
    .filter(([, amount]) => amount > 0)
    .map(([name]) => {
      const [kind, ownerId] = name.split(':')
      return { kind: kind as AccountId['kind'], ownerId: Number(ownerId) }
    })
