import { usdText } from './money.ts'

/** What operators see of a node. `silent`: no heartbeat. `fenced`: it has been silent for so long that it refuses requests. */
export const NODE_STATES = ['up', 'silent', 'fenced', 'draining', 'retired'] as const
export type NodeState = (typeof NODE_STATES)[number]

/** The state that is stored with a node. The others follow from the age of its heartbeat. */
export type StoredNodeState = 'up' | 'draining' | 'retired'

/** The interval of heartbeats. A node that missed several of them is silent. */
export const BEAT_EVERY_MS = 1_000
const SILENT_AFTER_MS = 5_000

/**
 * The store ends the connection of a node that sends nothing for this long, and releases its locks: a machine without power does not close
 * its connections.
 */
export const SILENT_CONNECTION_MS = 10_000

/** Other nodes count a node as fenced this much later than the node itself, because clocks run at slightly different speeds. */
export const FENCE_MARGIN_MS = 5_000

export function nodeStateOf(stored: StoredNodeState, ageMs: number, fenceMs: number): NodeState {
  if (stored === 'retired') return 'retired'
  if (ageMs > fenceMs + FENCE_MARGIN_MS) return 'fenced'
  return ageMs > SILENT_AFTER_MS ? 'silent' : stored
}

type NodeFacts = {
  readonly node_id: string
  readonly name: string
  readonly address: string
  readonly version: string
  readonly state: StoredNodeState
  readonly fence_ms: number
  readonly beat_ms: number
  /** The time of the database. */
  readonly now_ms: number
  readonly applied: number
  readonly position: number
  readonly leased: number | null
  readonly in_flight: number
}

/** A node as the management API and `sluice node list` present it. */
export function nodeSummary(node: NodeFacts, hasHeartbeats: boolean) {
  // A node of an embedded store sends no heartbeats: while this process runs, so do the others of its machine.
  const beatMs = hasHeartbeats ? node.beat_ms : node.now_ms
  return {
    id: node.node_id,
    name: node.name,
    address: node.address,
    version: node.version,
    state: nodeStateOf(node.state, node.now_ms - beatMs, node.fence_ms),
    heartbeat_time: Math.floor(beatMs / 1_000),
    fenced_time: Math.ceil((beatMs + node.fence_ms + FENCE_MARGIN_MS) / 1_000),
    applied: node.applied,
    position: node.position,
    leased: usdText(node.leased ?? 0),
    in_flight: node.in_flight,
  }
}

export type NodeSummary = ReturnType<typeof nodeSummary>

/** How many numbers each epoch has for lease changes. The epoch counts the starts of the node, so a later process uses higher numbers. */
export const CHANGES_PER_EPOCH = 2 ** 32

/** The start of the node that a lease change belongs to. */
export const epochOf = (changeNumber: number) => Math.floor(changeNumber / CHANGES_PER_EPOCH)

/** The longest time that a change waits for the nodes of other machines. */
export const CONFIRM_WITHIN_MS = 25_000

/** How many other nodes have applied a change, and which have not yet. `until`: when the node is fenced at the latest, in Unix seconds. */
export type Confirmation = {
  readonly confirmed: number
  readonly waiting: readonly { readonly id: string; readonly until: number }[]
}

export const ALL_CONFIRMED: Confirmation = { confirmed: 0, waiting: [] }
