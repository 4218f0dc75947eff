import type { StoredNodeState } from '../domain/node.ts'

/** A node of the fleet, as the store describes it. Times are those of the store. */
export type NodeRecord = {
  readonly nodeId: string
  /** Nodes of one machine talk through their supervisor, all others through the store. */
  readonly machine: string
  readonly state: StoredNodeState
  readonly fenceMs: number
  readonly beatMs: number
  /** The node's caches reflect all changes up to this position. */
  readonly applied: number
}

/** The nodes and the position of the last change, from one snapshot of the store. */
export type Snapshot = {
  readonly position: number
  readonly nowMs: number
  readonly nodes: readonly NodeRecord[]
}

/** The store, as the fleet uses it. Each call is one statement. */
export type FleetStore = {
  beat(beat: {
    readonly renews: boolean
    readonly applied: number
    readonly inFlight: number
  }): Promise<Snapshot & { readonly isMember: boolean }>
  /**
   * Writes the row of this node. Returns the position of the changes that all later reads include; undefined if the node is
   * retired, or was started again.
   */
  join(): Promise<number | undefined>
  /** Reads the nodes of all other machines, and wakes them. */
  wake(): Promise<Snapshot>
  acknowledge(applied: number): Promise<void>
  changesAfter(position: number, limit: number): Promise<readonly { seq: number; target: string }[]>
}

export type FleetClock = {
  /** Not affected by corrections of the system clock. */
  monotonicMs(): number
  /** Not affected by a suspension of the machine. */
  wallMs(): number
  /** Resolves after this time, or when the signal is aborted. */
  wait(ms: number, signal?: AbortSignal): Promise<void>
}
