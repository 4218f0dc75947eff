import type { LeaseState } from '../../src/app/idle-returns.ts'
import type { LeaseStore } from '../../src/app/job-lease.ts'
import type { AccountId } from '../../src/domain/account.ts'
import { StorePositionError } from '../../src/domain/errors.ts'
import { epochOf } from '../../src/domain/node.ts'
import type { Settled } from '../../src/domain/settled.ts'
import type { NodeRecord, Snapshot } from '../../src/fleet/fleet.ts'
import type { Batch, Lease, NodePosition } from '../../src/ledger/books.ts'
import type { MachineShare } from '../../src/routing/shares.ts'

type Account = { isUnlimited: boolean; credited: number; posted: number; held: number }
type LeaseRow = { nodeId: string; account: AccountId; amount: number; number: number; granted: number }
type NodeRow = { epoch: number; appliedLsn: number; oldestOpenLsn: number }
export type Entry = { readonly nodeId: string; readonly settled: Settled }
type JobLeaseRow = { holder: string; untilTime: number }
type Identity = Pick<NodeRecord, 'nodeId' | 'machine' | 'fenceMs'> & { readonly epoch: number }
type ShareRow = { version: number; shares: string }

/** Everything that the store has. Values of maps are replaced or changed in place, and copied by `copyOf`. */
export type StoreState = {
  readonly accounts: Map<string, Account>
  readonly leases: Map<string, LeaseRow>
  readonly nodes: Map<string, NodeRow>
  readonly entries: Entry[]
  /** What retired nodes may have spent, by account. */
  readonly suspense: Map<string, number>
  readonly heartbeats: Map<string, NodeRecord>
  /** The changes of the management API: what they changed, and a number that no other change has. */
  readonly changes: { readonly target: string; readonly serial: number }[]
  readonly rateShares: Map<string, ShareRow>
  jobLease: JobLeaseRow | undefined
}

export const nameOf = ({ kind, ownerId }: AccountId) => `${kind}:${ownerId}`
const leaseKey = (nodeId: string, account: AccountId) => `${nodeId} ${nameOf(account)}`

const emptyState = (): StoreState => ({
  accounts: new Map(),
  leases: new Map(),
  nodes: new Map(),
  entries: [],
  suspense: new Map(),
  heartbeats: new Map(),
  changes: [],
  rateShares: new Map(),
  jobLease: undefined,
})

const copyMap = <V>(map: ReadonlyMap<string, V>): Map<string, V> =>
  new Map([...map].map(([name, value]) => [name, typeof value === 'object' ? { ...value } : value]))

const copyOf = (state: StoreState): StoreState => ({
  accounts: copyMap(state.accounts),
  leases: copyMap(state.leases),
  nodes: copyMap(state.nodes),
  entries: [...state.entries],
  suspense: copyMap(state.suspense),
  heartbeats: copyMap(state.heartbeats),
  changes: [...state.changes],
  rateShares: copyMap(state.rateShares),
  jobLease: state.jobLease && { ...state.jobLease },
})

/**
 * PostgreSQL, as far as the ledger and the fleet use it. Each function is one transaction, which is executed at once. It is
 * written by hand: that it behaves like the statements of `src/store` is not tested.
 */
export function createSimulatedStore(nowMs: () => number) {
  let state = emptyState()

  const accountOf = (account: AccountId) => state.accounts.get(nameOf(account))
  const freeOf = ({ credited, posted, held: heldAmount }: Account) =>
    Math.max(0, credited - posted - heldAmount)
  const isRetired = (nodeId: string) => (state.nodes.get(nodeId)?.epoch ?? 0) < 0

  function applyOne(nodeId: string, settled: Settled): void {
    const { userId, tokenId, cost, userLeased, tokenLeased } = settled
    const changes: [AccountId, number][] = [[{ kind: 'user', ownerId: userId }, userLeased]]
    if (tokenId !== 0) changes.push([{ kind: 'token', ownerId: tokenId }, tokenLeased])
    for (const [account, leased] of changes) {
      const row = accountOf(account)
      if (!row) continue
      row.posted += cost
      row.held -= leased
      const lease = state.leases.get(leaseKey(nodeId, account))
      if (lease) lease.amount -= leased
    }
    state.entries.push({ nodeId, settled })
  }

  /** The store refuses a batch that makes a lease negative. */
  function mustCover(nodeId: string, records: readonly Settled[]): void {
    const spent = new Map<string, number>()
    const add = (account: AccountId, leased: number) => {
      const key = leaseKey(nodeId, account)
      spent.set(key, (spent.get(key) ?? 0) + leased)
    }
    for (const { userId, tokenId, userLeased, tokenLeased } of records) {
      add({ kind: 'user', ownerId: userId }, userLeased)
      add({ kind: 'token', ownerId: tokenId }, tokenLeased)
    }
    for (const [key, leased] of spent) {
      const lease = state.leases.get(key)
      if ((lease?.amount ?? 0) < leased) throw new Error('a lease would become negative')
    }
  }

  const books = {
    openNode(nodeId: string, previousEpoch: number): NodePosition {
      const row = state.nodes.get(nodeId) ?? { epoch: 0, appliedLsn: 0, oldestOpenLsn: 1 }
      if (row.epoch < 0) throw new Error(`the node ${nodeId} was retired`)
      const next = { ...row, epoch: Math.max(row.epoch, previousEpoch) + 1 }
      state.nodes.set(nodeId, next)
      return { ...next }
    },
    findAccount(account: AccountId): { isUnlimited: boolean } | undefined {
      const row = accountOf(account)
      return row && { isUnlimited: row.isUnlimited }
    },
    lease(nodeId: string, account: AccountId, want: number, number: number): number {
      const row = accountOf(account)
      const key = leaseKey(nodeId, account)
      const before = state.leases.get(key)
      if (before && before.number >= number) return before.granted
      if (!row) return 0
      const epoch = state.nodes.get(nodeId)?.epoch ?? 0
      if (epoch < 1 || epoch > epochOf(number)) throw new Error(`${nodeId} is retired, or was started again`)
      const granted = Math.min(want, freeOf(row))
      row.held += granted
      state.leases.set(key, { nodeId, account, amount: (before?.amount ?? 0) + granted, number, granted })
      return granted
    },
    returnLease(nodeId: string, account: AccountId, amount: number, number: number): void {
      const lease = state.leases.get(leaseKey(nodeId, account))
      const row = accountOf(account)
      if (!lease || !row || lease.number >= number) return
      if (lease.amount < amount) throw new Error('a lease would become negative')
      lease.amount -= amount
      lease.number = number
      row.held -= amount
    },
    reopenNode(nodeId: string, epoch: number): Pick<NodePosition, 'appliedLsn'> {
      const row = state.nodes.get(nodeId) ?? { epoch, appliedLsn: 0, oldestOpenLsn: 1 }
      if (row.epoch < 0) throw new Error(`the node ${nodeId} was retired`)
      state.nodes.set(nodeId, { ...row, epoch: Math.max(row.epoch, epoch) })
      return { appliedLsn: row.appliedLsn }
    },
    setLease(nodeId: string, account: AccountId, amount: number, number: number): number {
      const row = accountOf(account)
      if (!row) return 0
      const key = leaseKey(nodeId, account)
      const lease = state.leases.get(key)
      const before = lease?.amount ?? 0
      if (lease && lease.number >= number) return before
      const difference = Math.min(amount - before, freeOf(row))
      state.leases.set(key, { nodeId, account, amount: before + difference, number, granted: 0 })
      row.held += difference
      return before + difference
    },
    returnAllLeases(nodeId: string): void {
      for (const [key, lease] of state.leases) {
        if (lease.nodeId !== nodeId) continue
        const row = accountOf(lease.account)
        if (row) row.held -= lease.amount
        state.leases.delete(key)
      }
    },
    leasesOf: (nodeId: string): Lease[] =>
      [...state.leases.values()]
        .filter(lease => lease.nodeId === nodeId)
        .map(({ account, amount }) => ({ ...account, amount })),
    settledAmong(requestIds: readonly string[]): ReadonlySet<string> {
      const idSet = new Set(requestIds)
      return new Set(state.entries.map(({ settled }) => settled.rid).filter(rid => idSet.has(rid)))
    },
    apply(nodeId: string, { settled, afterLsn, lastLsn, oldestOpenLsn }: Batch): void {
      const row = state.nodes.get(nodeId)
      if (row && row.epoch < 0) throw new Error(`the node ${nodeId} is retired; nothing was applied`)
      if (row?.appliedLsn === lastLsn && afterLsn !== lastLsn) return
      if (row?.appliedLsn !== afterLsn)
        throw new StorePositionError(`the batch follows ${afterLsn}, but the store is at ${row?.appliedLsn}`)
      const records = JSON.parse(settled.toString()) as Settled[]
      mustCover(nodeId, records)
      row.appliedLsn = lastLsn
      row.oldestOpenLsn = oldestOpenLsn
      for (const record of records) applyOne(nodeId, record)
    },
  }

  const snapshot = (): Snapshot => ({
    position: state.changes.length,
    nowMs: nowMs(),
    nodes: [...state.heartbeats.values()].map(node => ({ ...node })),
  })

  const fleet = {
    join({ nodeId, machine, fenceMs, epoch }: Identity): number | undefined {
      if (state.heartbeats.get(nodeId)?.state === 'retired') return undefined
      const started = state.nodes.get(nodeId)?.epoch ?? 0
      if (started > epoch || started < 0) return undefined
      const applied = state.changes.length
      state.heartbeats.set(nodeId, { nodeId, machine, state: 'up', fenceMs, beatMs: nowMs(), applied })
      return applied
    },
    leave(nodeId: string, machine: string): void {
      const row = state.heartbeats.get(nodeId)
      if (row?.machine === machine && row.state !== 'retired') state.heartbeats.delete(nodeId)
    },
    beat(nodeId: string, machine: string, { renews, applied }: { renews: boolean; applied: number }) {
      const row = state.heartbeats.get(nodeId)
      const isMember = row?.machine === machine && row.state !== 'retired'
      if (row && isMember)
        state.heartbeats.set(nodeId, {
          ...row,
          applied: Math.min(Math.max(row.applied, applied), state.changes.length),
          beatMs: renews ? nowMs() : row.beatMs,
        })
      return { ...snapshot(), isMember }
    },
    others(machine: string): Snapshot {
      const nodes = snapshot().nodes.filter(node => node.machine !== machine && node.state !== 'retired')
      return { position: nodes.length > 0 ? state.changes.length : 0, nowMs: nowMs(), nodes }
    },
    acknowledge(nodeId: string, applied: number): void {
      const row = state.heartbeats.get(nodeId)
      if (row)
        state.heartbeats.set(nodeId, {
          ...row,
          applied: Math.min(Math.max(row.applied, applied), state.changes.length),
        })
    },
    changesAfter: (position: number, limit: number) =>
      state.changes
        .slice(position, position + limit)
        .map(({ target }, index) => ({ seq: position + index + 1, target })),
    leaseStates: (nodeIds: readonly string[], accounts: readonly AccountId[]): LeaseState[] =>
      nodeIds.flatMap(nodeId =>
        accounts.flatMap(account => {
          const lease = state.leases.get(leaseKey(nodeId, account))
          return lease ? { ...account, nodeId, amount: lease.amount, changeNumber: lease.number } : []
        }),
      ),
    /** As `retireNode` does it: for a node that is fenced. */
    retire(nodeId: string): void {
      const row = state.heartbeats.get(nodeId)
      if (row) state.heartbeats.set(nodeId, { ...row, state: 'retired' })
      const node = state.nodes.get(nodeId)
      if (node) node.epoch = -Math.abs(node.epoch)
      for (const [key, lease] of state.leases) {
        if (lease.nodeId !== nodeId) continue
        const name = nameOf(lease.account)
        state.suspense.set(name, (state.suspense.get(name) ?? 0) + lease.amount)
        const account = accountOf(lease.account)
        if (account) account.held -= lease.amount
        state.leases.delete(key)
      }
    },
  }

  const jobLease = {
    read: () => state.jobLease && { ...state.jobLease },
    replace(
      previous: Awaited<ReturnType<LeaseStore['read']>>,
      next: { readonly holder: string; readonly untilTime: number },
    ): boolean {
      const current = state.jobLease
      if (current?.holder !== previous?.holder || current?.untilTime !== previous?.untilTime) return false
      state.jobLease = { ...next }
      return true
    },
    release(holder: string): void {
      if (state.jobLease?.holder === holder) state.jobLease = undefined
    },
  }

  const rateShares = {
    read(subject: string) {
      const row = state.rateShares.get(subject) ?? { version: 0, shares: '[]' }
      const fencedMs = new Map<string, number>()
      for (const { machine, beatMs, fenceMs, state: nodeState } of state.heartbeats.values())
        if (nodeState !== 'retired') fencedMs.set(machine, beatMs + fenceMs)
      return {
        version: row.version,
        shares: JSON.parse(row.shares) as MachineShare[],
        nowMs: nowMs(),
        fencedMs,
      }
    },
    replace(subject: string, version: number, shares: readonly MachineShare[]): boolean {
      if ((state.rateShares.get(subject)?.version ?? 0) !== version) return false
      state.rateShares.set(subject, { version: version + 1, shares: JSON.stringify(shares) })
      return true
    },
  }

  return {
    books,
    fleet,
    jobLease,
    rateShares,
    state: () => state,
    copy: () => copyOf(state),
    /** Replaces everything, as a failover to a standby does. */
    restore(copy: StoreState): void {
      state = copyOf(copy)
    },
    openAccount(account: AccountId, credited: number, isUnlimited = false): void {
      state.accounts.set(nameOf(account), { isUnlimited, credited, posted: 0, held: 0 })
    },
    leasedBy: (nodeId: string, account: AccountId) =>
      state.leases.get(leaseKey(nodeId, account))?.amount ?? 0,
    freeIn: (account: AccountId) => {
      const row = accountOf(account)
      return row ? row.credited - row.posted - row.held : 0
    },
    isRetired,
  }
}

export type SimulatedStore = ReturnType<typeof createSimulatedStore>
