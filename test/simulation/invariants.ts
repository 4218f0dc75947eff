import type { AccountId } from '../../src/domain/account.ts'
import { nameOf, type SimulatedStore } from './simulated-store.ts'

/** What the invariants need to know of a running node. */
type ObservedNode = {
  readonly id: string
  isAlive(): boolean
  isFenced(): boolean
  runsJobs(): boolean
  cachedChange(target: string): number
}

type InvariantsDeps = {
  readonly store: SimulatedStore
  readonly accounts: readonly AccountId[]
  nodes(): readonly ObservedNode[]
  /** Whether the node is connected to the store. */
  isReachable(nodeId: string): boolean
  nowMs(): number
  /** Increases with every change of the store. */
  storeVersion(): number
  onViolation(what: string): void
}

/** After a failover that lost changes, nodes may have older states for this long. */
const REREAD_MS = 10_000

/** A request that waits for quota. */
export type QuotaWait = {
  readonly accounts: readonly AccountId[]
  /** The nodes that were connected to the store when it began. */
  readonly connected: ReadonlySet<string>
  /** The least that was idle for it since it began. */
  leastIdle: number
}

/** Checks after every step what must hold at every moment (docs/adr/0034-a-simulated-world.md). */
export function createInvariants({
  store,
  accounts,
  nodes,
  isReachable,
  nowMs,
  storeVersion,
  onViolation,
}: InvariantsDeps) {
  /** What running requests hold, and what settled ones have spent that the store has not applied, by node and account. */
  const inUse = new Map<string, number>()
  /** Increases with every change of `inUse`. */
  let usageVersion = 0
  let checkedVersion = -1
  /** What is counted in `inUse` for a settled request. */
  const unapplied = new Map<
    string,
    { readonly nodeId: string; readonly accounts: readonly AccountId[]; amount: number }
  >()
  const entriesOf = new Map<string, number>()
  let seenEntries = 0
  /** The store has lost transactions: a documented exception to what the accounts cover (ADR 25). */
  let hasLost = false
  const confirmed = new Map<string, number>()
  /** A node notices a failover with its next beat, and reads everything again (ADR 25). */
  let checksChangesAfterMs = 0
  const quotaWaits = new Set<QuotaWait>()
  const retired = new Set<string>()
  /** Requests whose cost exceeds their hold: what they take meanwhile is not observed. */
  let overruns = 0

  const keyOf = (nodeId: string, account: AccountId) => `${nodeId} ${nameOf(account)}`
  function add(nodeId: string, some: readonly AccountId[], amount: number): void {
    usageVersion += 1
    for (const account of some) {
      const key = keyOf(nodeId, account)
      inUse.set(key, (inUse.get(key) ?? 0) + amount)
    }
  }
  const limited = (some: readonly AccountId[]) =>
    some.filter(account => !store.state().accounts.get(nameOf(account))?.isUnlimited)

  function readEntries(isReread = false): void {
    const { entries } = store.state()
    for (; seenEntries < entries.length; seenEntries++) {
      const { nodeId, settled } = entries[seenEntries] as (typeof entries)[number]
      const { rid } = settled
      const count = (entriesOf.get(rid) ?? 0) + 1
      entriesOf.set(rid, count)
      if (count > 1) onViolation(`the request ${rid} is settled ${count} times`)
      if (retired.has(nodeId) && !isReread) onViolation(`a record of the retired node ${nodeId} was applied`)
      const spent = unapplied.get(rid)
      if (!spent) continue
      unapplied.delete(rid)
      add(spent.nodeId, spent.accounts, -spent.amount)
    }
  }

  function checkAccounts(): void {
    const leased = new Map<string, number>()
    for (const { nodeId, account, amount } of store.state().leases.values()) {
      const name = nameOf(account)
      leased.set(name, (leased.get(name) ?? 0) + amount)
      if (amount < 0) onViolation(`the lease of ${nodeId} on ${name} is ${amount}`)
      if (amount !== 0 && retired.has(nodeId))
        onViolation(`the retired node ${nodeId} has a lease on ${name}`)
    }
    for (const account of accounts) {
      const name = nameOf(account)
      const row = store.state().accounts.get(name)
      if (!row || row.isUnlimited) continue
      if (row.held !== (leased.get(name) ?? 0))
        onViolation(`${name} has ${row.held} on hold, but leases of ${leased.get(name) ?? 0}`)
      if (!hasLost && row.posted + row.held > row.credited)
        onViolation(`${name}: ${row.posted} posted and ${row.held} leased of ${row.credited} credited`)
    }
    if (hasLost || overruns > 0) return
    for (const [key, amount] of inUse) {
      if (amount === 0) continue
      const [nodeId = '', name = ''] = key.split(' ')
      const lease = store.state().leases.get(key)?.amount ?? 0
      if (amount > lease && !retired.has(nodeId))
        onViolation(`${nodeId} uses ${amount} of ${name}, but has leased ${lease}`)
    }
  }

  /**
   * What no request holds or has spent: in the store, or leased to a node that runs. A node that was disconnected during the wait
   * may have returned what was idle, and cannot return what was released since.
   */
  function idleOf(account: AccountId, { connected }: QuotaWait): number {
    let idle = store.freeIn(account)
    for (const { id, isAlive } of nodes())
      if (isAlive() && (isReachable(id) || !connected.has(id)))
        idle += store.leasedBy(id, account) - (inUse.get(keyOf(id, account)) ?? 0)
    return idle
  }

  function watchIdle(): void {
    for (const wait of quotaWaits)
      for (const account of wait.accounts)
        wait.leastIdle =
          hasLost || overruns > 0 ? Number.NEGATIVE_INFINITY : Math.min(wait.leastIdle, idleOf(account, wait))
  }

  function checkNodes(): void {
    const leaders: string[] = []
    for (const node of nodes()) {
      if (!node.isAlive()) continue
      if (node.runsJobs()) leaders.push(node.id)
      if (nowMs() < checksChangesAfterMs || node.isFenced()) continue
      for (const [target, serial] of confirmed)
        if (node.cachedChange(target) < serial)
          onViolation(`${node.id} admits by the state before the confirmed change ${serial} of ${target}`)
    }
    if (leaders.length > 1) onViolation(`${leaders.join(' and ')} run the jobs`)
  }

  return {
    check(): void {
      checkNodes()
      const version = storeVersion() + usageVersion
      if (version === checkedVersion) return
      checkedVersion = version
      readEntries()
      checkAccounts()
      watchIdle()
    },
    limited,
    /** A request has taken a hold. */
    onHold(nodeId: string, some: readonly AccountId[], amount: number): void {
      add(nodeId, limited(some), amount)
      // Before the next check, the hold may have ended: other requests were decided while it lasted.
      watchIdle()
    },
    /** A hold has ended, without a charge. */
    onRelease: (nodeId: string, some: readonly AccountId[], amount: number) =>
      add(nodeId, limited(some), -amount),
    /** A request is settled. Its cost is in use until the store has applied it. */
    onSettle(rid: string, nodeId: string, some: readonly AccountId[], cost: number): void {
      unapplied.set(rid, { nodeId, accounts: limited(some), amount: cost })
      add(nodeId, limited(some), cost)
    },
    onOverrun(change: 1 | -1): void {
      overruns += change
    },
    /** The process has died: only the settled requests in its journal, which were answered, are still in use. */
    onKill(nodeId: string, isAnswered: (rid: string) => boolean): void {
      for (const account of accounts) inUse.delete(keyOf(nodeId, account))
      for (const [rid, spent] of unapplied) {
        if (spent.nodeId !== nodeId) continue
        if (isAnswered(rid)) add(nodeId, spent.accounts, spent.amount)
        else unapplied.delete(rid)
      }
    },
    onRetire: (nodeId: string) => void retired.add(nodeId),
    /** The store was replaced by a standby that lacks the last transactions, and with them changes. */
    onLoss(): void {
      hasLost = true
      checksChangesAfterMs = nowMs() + REREAD_MS
      for (const nodeId of retired) if (!store.isRetired(nodeId)) retired.delete(nodeId)
      seenEntries = 0
      entriesOf.clear()
      readEntries(true)
      const { changes } = store.state()
      const last = new Map(changes.map(({ target, serial }) => [target, serial]))
      for (const [target, serial] of confirmed) confirmed.set(target, Math.min(serial, last.get(target) ?? 0))
    },
    hasLost: () => hasLost,
    onConfirmed(target: string, serial: number): void {
      const isStored = store.state().changes.some(change => change.serial === serial)
      if (isStored) confirmed.set(target, Math.max(serial, confirmed.get(target) ?? 0))
    },
    beginWait(some: readonly AccountId[]): QuotaWait {
      const connected = new Set(
        nodes()
          .map(({ id }) => id)
          .filter(isReachable),
      )
      const wait = { accounts: limited(some), connected, leastIdle: Number.POSITIVE_INFINITY }
      quotaWaits.add(wait)
      watchIdle()
      return wait
    },
    endWait: (wait: QuotaWait) => void quotaWaits.delete(wait),
    entryCount: (rid: string) => entriesOf.get(rid) ?? 0,
    isRetired: (nodeId: string) => retired.has(nodeId),
  }
}
