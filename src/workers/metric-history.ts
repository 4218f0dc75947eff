import { mergeMetrics } from '../metrics/exposition.ts'
import type { MetricSnapshot } from '../metrics/registry.ts'

type Snapshots = readonly MetricSnapshot[]

/** Gauges are about a running process. Counters and histograms only grow. */
const growing = (metrics: Snapshots): Snapshots => metrics.filter(({ kind }) => kind !== 'gauge')

/**
 * The last known counters of each worker. The sum over all workers must not fall when a worker ends or is late, because
 * Prometheus would take that for a restart of the gateway and count everything again.
 */
export function createMetricHistory() {
  const lastBySlot = new Map<number, Snapshots>()
  let ended: Snapshots = []
  let restarts = 0

  return {
    note(slot: number, metrics: Snapshots): void {
      lastBySlot.set(slot, growing(metrics))
    },
    /** The worker of the slot has ended; its successor counts from 0. */
    end(slot: number): void {
      restarts += 1
      ended = mergeMetrics([ended, lastBySlot.get(slot) ?? []])
      lastBySlot.delete(slot)
    },
    /** The counters that a slot had when they were last read. */
    lastOf: (slot: number): Snapshots => lastBySlot.get(slot) ?? [],
    /** The counters of all ended workers, and their number. */
    ofEnded: (): Snapshots => [
      ...ended,
      {
        name: 'sluice_worker_restarts_total',
        help: 'Worker processes that ended and were replaced.',
        kind: 'counter',
        labelNames: [],
        series: [{ labels: [], values: [restarts] }],
      },
    ],
  }
}
