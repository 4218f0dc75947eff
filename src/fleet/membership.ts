import { BEAT_EVERY_MS } from '../domain/node.ts'
import type { ChangeFeed } from './change-feed.ts'
import type { FleetClock, FleetStore, NodeRecord, Snapshot } from './fleet.ts'
import type { Observations } from './observations.ts'

type MembershipDeps = {
  /** The node admits requests for this long after it sent its last renewing beat. */
  readonly fenceMs: number
  readonly store: Pick<FleetStore, 'beat' | 'join'>
  readonly clock: FleetClock
  readonly feed: Pick<ChangeFeed, 'applied' | 'catchUp' | 'start'>
  readonly observations: Observations
  inFlight(): number
  /** Receives the rows of all nodes with every beat. */
  onSnapshot(snapshot: Snapshot): void
  /** The node is retired, or was started again. */
  onExpelled(): void
  /** The store has lost the row of this node, and has it again. */
  onJoinedAgain(): void
  /** The store has lost changes, for example because it was restored from a backup. */
  onRewind(): Promise<void>
  onFenceChange(isFenced: boolean): void
  onFailure(error: Error): void
}

/** Renews the heartbeat of this node, and fences the node when it cannot (docs/adr/0023-nodes-heartbeats-and-fences.md). */
export function createMembership(deps: MembershipDeps) {
  const { fenceMs, store, clock, feed, observations } = deps
  /** The node has just joined, which counts as a beat. */
  let deadlineMs = clock.monotonicMs() + fenceMs
  let wallDeadlineMs = clock.wallMs() + fenceMs
  /** `outside`: the store has no row of this process, or not everything was read again since it has one. */
  let state: 'member' | 'outside' | 'expelled' = 'member'
  let joining: Promise<void> | undefined
  let wasFenced = false
  let position = 0
  /** How often the store was replaced by a standby: positions may mean other changes than before. */
  let failovers = 0
  /** After this many of them, everything was read again. */
  let rereadFailovers = 0
  let nodes: readonly NodeRecord[] = []
  const closing = new AbortController()

  /** Compares clocks instead of a flag that a timer sets: after a suspension, requests may be handled before timers. */
  const isFenced = () =>
    state !== 'member' || clock.monotonicMs() >= deadlineMs || clock.wallMs() >= wallDeadlineMs

  function reportFence(): void {
    if (isFenced() === wasFenced) return
    wasFenced = !wasFenced
    deps.onFenceChange(wasFenced)
  }

  async function join(): Promise<void> {
    state = 'outside'
    if ((await store.join()) !== undefined) return
    state = 'expelled'
    deps.onExpelled()
  }

  /** A failover has lost the row, or an earlier process of this node has overwritten it late. */
  async function joinAgain(): Promise<void> {
    if (closing.signal.aborted || state === 'expelled') return
    joining ??= join().finally(() => {
      joining = undefined
    })
    await joining
    if (state === 'outside') await beat()
  }

  async function beat(): Promise<void> {
    const sentMs = clock.monotonicMs()
    const sentWallMs = clock.wallMs()
    // Without renewal, other nodes see that this node is not up to date and count it as fenced in time.
    const applied = feed.applied()
    /** If the store then knows the node, the node has joined again before this beat. The acknowledgement may be lost. */
    const wasOutside = state === 'outside'
    const renews = applied >= position
    const snapshot = await store.beat({ renews, applied, inFlight: deps.inFlight() })
    if (!snapshot.isMember) return joinAgain()
    nodes = snapshot.nodes
    position = snapshot.position
    observations.observe(snapshot)
    observations.keepOnly(nodes)
    deps.onSnapshot(snapshot)
    if (snapshot.position < applied) failovers += 1
    // Other nodes did not wait for a node without a row: its caches may lack changes.
    if (wasOutside || failovers > rereadFailovers) {
      const count = failovers
      await deps.onRewind()
      rereadFailovers = Math.max(rereadFailovers, count)
      feed.start(snapshot.position)
    }
    await feed.catchUp(snapshot.position)
    if (wasOutside && state === 'outside') {
      state = 'member'
      deps.onJoinedAgain()
    }
    if (!renews) return
    // Beats may overlap, and end in another order than they began.
    if (sentMs + fenceMs <= deadlineMs) return
    deadlineMs = sentMs + fenceMs
    wallDeadlineMs = sentWallMs + fenceMs
  }

  async function run(): Promise<void> {
    while (!closing.signal.aborted && state !== 'expelled') {
      await beat().catch(deps.onFailure)
      reportFence()
      await clock.wait(BEAT_EVERY_MS, closing.signal)
    }
  }

  let running: Promise<void> | undefined
  return {
    isFenced,
    beat,
    /** Everything is read again with the next beat. */
    noteFailover(): void {
      failovers += 1
    },
    /** The nodes at the last beat. */
    nodes: () => nodes,
    start(): void {
      running = run()
    },
    async close(): Promise<void> {
      closing.abort()
      await running
      // Otherwise the row could be written after the node has left.
      await joining?.catch(() => {})
    },
  }
}
