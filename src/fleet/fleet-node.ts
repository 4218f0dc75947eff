import { type CallNotice, createFleetCalls, type FleetProcedures } from './calls.ts'
import { createChangeFeed } from './change-feed.ts'
import { createConfirmations } from './confirmations.ts'
import type { FleetClock, FleetStore, Snapshot } from './fleet.ts'
import { createFleetLocks } from './locks.ts'
import { createMembership } from './membership.ts'
import { createObservations } from './observations.ts'

/** Notifications: a change was made on a machine, a node has applied the changes up to a position, or a call. */
export type FleetNotice =
  | { readonly changed: string }
  | { readonly node: string; readonly applied: number }
  | CallNotice

/** The store, as a node uses it for the fleet. Each call is one statement. */
export type FleetNodeStore = Pick<FleetStore, 'beat' | 'join' | 'changesAfter'> & {
  /** Reads the nodes of all other machines, and notifies them. */
  notifyOthers(notice: FleetNotice): Promise<Snapshot>
  acknowledge(applied: number, notice: FleetNotice): Promise<void>
  notify(notice: FleetNotice): Promise<void>
  tryLock(name: string): Promise<boolean>
  unlock(name: string): Promise<void>
  connection(): number
}

type FleetNodeDeps = {
  readonly nodeId: string
  readonly machine: string
  readonly fenceMs: number
  /** The position of the changes that all reads of this node include. */
  readonly joinedAt: number
  readonly store: FleetNodeStore
  readonly clock: FleetClock
  random(): number
  invalidate(targets: readonly string[]): Promise<void>
  inFlight(): number
  /** An operator stops the gateway of this node. */
  onDrain(): void
  onExpelled(): void
  /** The store had lost the row of this node, and has it again. */
  onJoinedAgain(): void
  /** The store has lost changes, or may have: reads everything again. */
  onRewind(): Promise<void>
  onFenceChange(isFenced: boolean): void
  onBeatFailure(error: Error): void
  onCallFailure(error: Error): void
}

/** A node among those of other machines that share the database (docs/adr/0023-nodes-heartbeats-and-fences.md). */
export function createFleetNode(deps: FleetNodeDeps) {
  const { nodeId, machine, fenceMs, store, clock, onBeatFailure } = deps
  const fleetStore: FleetStore = {
    beat: store.beat,
    join: store.join,
    changesAfter: store.changesAfter,
    wake: () => store.notifyOthers({ changed: machine }),
    acknowledge: applied => store.acknowledge(applied, { node: nodeId, applied }),
  }
  const observations = createObservations(clock)
  const feed = createChangeFeed({ store: fleetStore, invalidate: deps.invalidate })
  feed.start(deps.joinedAt)
  const confirmations = createConfirmations({ store: fleetStore, clock, observations })
  const calls = createFleetCalls({
    nodeId,
    machine,
    clock,
    observations,
    sendToOthers: store.notifyOthers,
    send: store.notify,
    onFailure: deps.onCallFailure,
  })
  const locks = createFleetLocks({
    clock,
    random: deps.random,
    tryLock: store.tryLock,
    unlock: store.unlock,
    connection: store.connection,
  })
  const membership = createMembership({
    fenceMs,
    store: fleetStore,
    clock,
    feed,
    observations,
    inFlight: deps.inFlight,
    onSnapshot(snapshot) {
      confirmations.take(snapshot)
      const own = snapshot.nodes.find(node => node.nodeId === nodeId)
      if (own?.state === 'draining') deps.onDrain()
    },
    onExpelled: deps.onExpelled,
    onJoinedAgain: deps.onJoinedAgain,
    onRewind() {
      confirmations.forget()
      return deps.onRewind()
    },
    onFenceChange: deps.onFenceChange,
    onFailure: onBeatFailure,
  })

  /** Another machine waits for the acknowledgement of its change. */
  async function applyAndAcknowledge(): Promise<void> {
    await membership.beat()
    await feed.acknowledge()
  }

  let isApplying = false
  let hasNewChange = false
  /** Notices that arrive meanwhile cause one more run. */
  async function applyChanges(): Promise<void> {
    hasNewChange = true
    if (isApplying) return
    isApplying = true
    try {
      while (hasNewChange) {
        hasNewChange = false
        await applyAndAcknowledge()
      }
    } catch (error) {
      onBeatFailure(error as Error)
    } finally {
      isApplying = false
    }
  }

  return {
    receive(notice: FleetNotice): void {
      if ('node' in notice) confirmations.acknowledge(notice.node, notice.applied)
      if ('call' in notice || 'response' in notice) calls.receive(notice)
      if ('changed' in notice && notice.changed !== machine) void applyChanges()
    },
    callOthers: calls.callOthers,
    exclusively: locks.exclusively,
    isFenced: membership.isFenced,
    confirm: confirmations.confirm,
    noteApplied: feed.note,
    noteFailover: membership.noteFailover,
    others: () => membership.nodes().filter(node => node.machine !== machine),
    start(procedures: FleetProcedures): void {
      calls.serve(procedures)
      membership.start()
    },
    close: membership.close,
  }
}

export type FleetNode = ReturnType<typeof createFleetNode>
