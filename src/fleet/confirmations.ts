import { ALL_CONFIRMED, type Confirmation, FENCE_MARGIN_MS } from '../domain/node.ts'
import type { FleetClock, FleetStore, NodeRecord, Snapshot } from './fleet.ts'
import type { Observations } from './observations.ts'

/** Notifications can be lost, so the rows are read again this often. */
const READ_EVERY_MS = 500

type ConfirmationsDeps = {
  readonly store: Pick<FleetStore, 'wake'>
  readonly clock: FleetClock
  readonly observations: Observations
}

/** Waits until the nodes of all other machines have applied a change, or are fenced. */
export function createConfirmations({ store, clock, observations }: ConfirmationsDeps) {
  /** The latest acknowledged position of each node. */
  const acknowledged = new Map<string, number>()
  let waiters: AbortController[] = []

  function wakeWaiters(): void {
    for (const waiter of waiters) waiter.abort()
    waiters = []
  }

  function acknowledge(nodeId: string, position: number): void {
    if (position <= (acknowledged.get(nodeId) ?? 0)) return
    acknowledged.set(nodeId, position)
    wakeWaiters()
  }

  async function waitForNews(ms: number): Promise<void> {
    const waiter = new AbortController()
    waiters.push(waiter)
    await clock.wait(ms, waiter.signal)
    waiters = waiters.filter(other => other !== waiter)
  }

  function take({ nodes }: Snapshot): void {
    for (const { nodeId, applied } of nodes) acknowledge(nodeId, applied)
  }

  const until = ({ beatMs, fenceMs }: NodeRecord) => Math.ceil((beatMs + fenceMs + FENCE_MARGIN_MS) / 1_000)

  /** The change is made, so a failure to reach the store is retried. */
  async function wakeWithin(deadlineMs: number): Promise<Snapshot> {
    for (;;)
      try {
        return await store.wake()
      } catch (error) {
        if (clock.monotonicMs() + READ_EVERY_MS > deadlineMs) throw error
        await clock.wait(READ_EVERY_MS)
      }
  }

  /** Call it after the commit of a change. Resolves when the change is in effect everywhere, or after `withinMs`. */
  async function confirm(withinMs: number): Promise<Confirmation> {
    const startMs = clock.monotonicMs()
    let snapshot = await wakeWithin(startMs + withinMs)
    if (snapshot.nodes.length === 0) return ALL_CONFIRMED
    const { position } = snapshot
    for (let readMs = startMs; ; ) {
      observations.observe(snapshot)
      take(snapshot)
      // Acknowledgements that arrive do not need another look at the rows.
      for (;;) {
        const waiting = snapshot.nodes.filter(
          node => (acknowledged.get(node.nodeId) ?? 0) < position && !observations.isFenced(node),
        )
        const nowMs = clock.monotonicMs()
        const leftMs = startMs + withinMs - nowMs
        if (waiting.length === 0 || leftMs <= 0)
          return {
            confirmed: snapshot.nodes.length - waiting.length,
            waiting: waiting.map(node => ({ id: node.nodeId, until: until(node) })),
          }
        const readInMs = readMs + READ_EVERY_MS - nowMs
        if (readInMs <= 0) break
        await waitForNews(Math.min(readInMs, leftMs))
      }
      snapshot = await wakeWithin(startMs + withinMs)
      readMs = clock.monotonicMs()
    }
  }

  return {
    confirm,
    acknowledge,
    take,
    /** Positions may mean other changes than before, because the store has lost some. */
    forget: () => acknowledged.clear(),
  }
}
