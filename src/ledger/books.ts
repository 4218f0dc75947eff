import type { AccountId } from '../domain/account.ts'

export type Lease = AccountId & { readonly amount: number }

export type NodePosition = {
  readonly appliedLsn: number
  readonly oldestOpenLsn: number
  /** Increases with each start of the node. */
  readonly epoch: number
}

/** The store, as the ledger uses it. Each call is one transaction. */
export type Books = {
  /**
   * Registers the node; returns how far its journal has been applied, and where its oldest open request began. Its epoch is above
   * that of the previous process, which the store may have lost.
   */
  openNode(nodeId: string, previousEpoch: number, time: number): Promise<NodePosition>
  findAccount(account: AccountId): Promise<{ isUnlimited: boolean } | undefined>
  /** Leases at most `want` and returns the granted amount. A call that repeats a number returns the same grant. */
  lease(nodeId: string, account: AccountId, want: number, number: number): Promise<number>
  /** Returns part of a lease. Calls that repeat a number have no effect. */
  returnLease(nodeId: string, account: AccountId, amount: number, number: number): Promise<void>
  /**
   * Reads the position of the node again. The store may have lost acknowledged transactions, and the node itself among them:
   * then it is registered again.
   */
  reopenNode(nodeId: string, epoch: number, time: number): Promise<Pick<NodePosition, 'appliedLsn'>>
  /**
   * Makes the lease of an account this large, or as large as the account allows, and returns the new amount. Calls that
   * repeat a number have no effect.
   */
  setLease(nodeId: string, account: AccountId, amount: number, number: number): Promise<number>
  /** Returns every lease of a node that has no running requests. */
  returnAllLeases(nodeId: string): Promise<void>
  /** Amounts that the node has leased and not spent, according to the store. */
  leasesOf(nodeId: string): Promise<readonly Lease[]>
  /** The subset of these requests that have an entry. */
  settledAmong(requestIds: readonly string[]): Promise<ReadonlySet<string>>
  /**
   * Writes entries, balances, usage rows, unresolved charges and the journal's position in one transaction. Idempotent: if
   * the store is already at `lastLsn`, an earlier unacknowledged call was committed, and this one has no effect.
   */
  apply(nodeId: string, batch: Batch): Promise<void>
}

export type Batch = {
  /** A JSON array of settle records, in UTF-8. It is parsed only where it is applied. */
  readonly settled: Buffer
  /** The position of the store before this batch. */
  readonly afterLsn: number
  readonly lastLsn: number
  /** The first record of the oldest running request, or the next record's number. Recovery reads from here. */
  readonly oldestOpenLsn: number
}
