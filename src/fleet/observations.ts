import { FENCE_MARGIN_MS } from '../domain/node.ts'
import type { FleetClock, NodeRecord, Snapshot } from './fleet.ts'

type Observation = { readonly beatMs: number; readonly seenMs: number }

/**
 * The ages of the heartbeats of other nodes by the clock of this process. The clock of the store counts only for a node that
 * is seen for the first time, so a jump of that clock does not make nodes look fenced.
 */
export function createObservations({ monotonicMs }: Pick<FleetClock, 'monotonicMs'>) {
  const observations = new Map<string, Observation>()

  function observe({ nodes, nowMs }: Snapshot): void {
    const atMs = monotonicMs()
    for (const { nodeId, beatMs } of nodes) {
      const previous = observations.get(nodeId)
      if (previous?.beatMs === beatMs) continue
      const ageMs = previous ? 0 : Math.max(0, nowMs - beatMs)
      observations.set(nodeId, { beatMs, seenMs: atMs - ageMs })
    }
  }

  /** How long ago the node renewed its heartbeat, at least. */
  const ageMs = ({ nodeId }: Pick<NodeRecord, 'nodeId'>) =>
    monotonicMs() - (observations.get(nodeId)?.seenMs ?? monotonicMs())

  return {
    observe,
    ageMs,
    isFenced: (node: NodeRecord) => ageMs(node) > node.fenceMs + FENCE_MARGIN_MS,
    /** Forgets nodes that have left. */
    keepOnly(nodes: readonly NodeRecord[]): void {
      const present = new Set(nodes.map(({ nodeId }) => nodeId))
      for (const nodeId of observations.keys()) if (!present.has(nodeId)) observations.delete(nodeId)
    },
  }
}

export type Observations = ReturnType<typeof createObservations>
