import { BEAT_EVERY_MS } from '../domain/node.ts'
import type { ChangeFeed } from './change-feed.ts'
import type { FleetClock, FleetStore, NodeRecord, Snapshot } from './fleet.ts'
import type { Observations } from './observations.ts'

type MembershipDeps = {
  /** The node admits requests for this long after it sent its last renewing beat. */
  readonly fenceMs: number
  readonly store: Pick<FleetStore, 'beat'>
  readonly clock: FleetClock
  readonly feed: Pick<ChangeFeed, 'applied' | 'catchUp' | 'start'>
  readonly observations: Observations
  inFlight(): number
  /** Receives the rows of all nodes with every beat. */
  onSnapshot(snapshot: Snapshot): void
  /** The node is retired, or another process has it. */
  onExpelled(): void
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
  let isExpelled = false
  let wasFenced = false
  let position = 0
  /** The store was replaced by a standby: positions may mean other changes than before. */
  let hasFailedOver = false
  let nodes: readonly NodeRecord[] = []
  const closing = new AbortController()

  /** Compares clocks instead of a flag that a timer sets: after a suspension, requests may be handled before timers. */
  const isFenced = () => isExpelled || clock.monotonicMs() >= deadlineMs || clock.wallMs() >= wallDeadlineMs

  function reportFence(): void {
    if (isFenced() === wasFenced) return
    wasFenced = !wasFenced
    deps.onFenceChange(wasFenced)
  }

  async function beat(): Promise<void> {
    const sentMs = clock.monotonicMs()
    const sentWallMs = clock.wallMs()
    // Without renewal, other nodes see that this node is not up to date and count it as fenced in time.
    const applied = feed.applied()
    const renews = applied >= position
    const snapshot = await store.beat({ renews, applied, inFlight: deps.inFlight() })
    if (!snapshot.isMember) {
      isExpelled = true
      deps.onExpelled()
      return
    }
    nodes = snapshot.nodes
    position = snapshot.position
    observations.observe(snapshot)
    observations.keepOnly(nodes)
    deps.onSnapshot(snapshot)
    if (hasFailedOver || snapshot.position < applied) {
      // Kept until everything is read again.
      hasFailedOver = true
      await deps.onRewind()
      hasFailedOver = false
      feed.start(snapshot.position)
    }
    await feed.catchUp(snapshot.position)
    if (!renews) return
    // Beats may overlap, and end in another order than they began.
    if (sentMs + fenceMs <= deadlineMs) return
    deadlineMs = sentMs + fenceMs
    wallDeadlineMs = sentWallMs + fenceMs
  }

  async function run(): Promise<void> {
    while (!closing.signal.aborted && !isExpelled) {
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
      hasFailedOver = true
    },
    /** The nodes at the last beat. */
    nodes: () => nodes,
    start(): void {
      running = run()
    },
    async close(): Promise<void> {
      closing.abort()
      await running
    },
  }
}
