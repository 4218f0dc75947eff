export type AccountName = { readonly kind: 'user' | 'token'; readonly ownerId: number }

export type Lease = AccountName & { readonly amount: number }

export type OpenedLease = {
  readonly appliedLsn: number
  readonly oldestOpenLsn: number
  /** How often the node has been opened. */
  readonly epoch: number
}

/** What the ledger asks of the store. Each call is one transaction. */
export type Books = {
  /** Registers the node; answers how far its journal has been applied, and where its oldest open request began. */
  openNode(nodeId: string, time: number): Promise<OpenedLease>
  findAccount(account: AccountName): Promise<{ isUnlimited: boolean } | undefined>
  /** As much of `want` as there is. Asked again with the same number, it answers what it gave then. */
  lease(nodeId: string, account: AccountName, want: number, number: number): Promise<number>
  /** Takes it back once, however often the same number is told. */
  giveBack(nodeId: string, account: AccountName, amount: number, number: number): Promise<void>
  /** Gives back every lease of a node: nothing of it runs any more. */
  giveBackAll(nodeId: string): Promise<void>
  /** What the node has leased and not spent, as the store knows it. */
  leasesOf(nodeId: string): Promise<readonly Lease[]>
  /** Which of these requests have their entry already. */
  settledAmong(requestIds: readonly string[]): Promise<ReadonlySet<string>>
  /**
   * Entries, balances, usage rows, doubts and the journal's position, all or nothing; nothing where the store is at
   * `lastLsn` already, as it is when nobody heard of an earlier try.
   */
  apply(nodeId: string, batch: Batch): Promise<void>
}

export type Batch = {
  /** Settle records, each as the journal has it: encoded once, decoded where they are written down. */
  readonly settled: readonly string[]
  /** Where the store is before this. */
  readonly afterLsn: number
  readonly lastLsn: number
  /** Of a request that still runs, or the next record's number: what lies before needs no second look. */
  readonly oldestOpenLsn: number
}
