import type { Db, Engine } from '../store/engine/store.ts'
import { releaseLease, takeLease } from '../store/records/alert-states.ts'

const LEASE = 'jobs'
const LEASE_S = 60
const RENEW_EVERY_MS = 15_000
/** The holder stops this long before another node may take over. */
const MARGIN_MS = 10_000

type JobLeaseDeps = {
  readonly db: Db
  readonly engine: Engine
  /** The id of this node. */
  readonly holder: string
  /** Seconds, as other nodes read them too. */
  now(): number
  /** Milliseconds that never go back. */
  monotonicMs(): number
  onFailure(error: Error): void
}

/**
 * Elects the node that runs the jobs of the store: retention, partitions, folds and recovery tests of channels. All nodes that
 * share the database try to take one lease. If its holder dies, another node has it within a minute and a quarter.
 */
export function createJobLease({ db, engine, holder, now, monotonicMs, onFailure }: JobLeaseDeps) {
  let heldUntilMs = 0

  async function renew(): Promise<void> {
    // Counted from the sending: the answer may be late.
    const sentMs = monotonicMs()
    const time = now()
    const isHeld = await takeLease(db, { name: LEASE, holder, now: time, untilTime: time + LEASE_S })
    heldUntilMs = isHeld ? sentMs + LEASE_S * 1000 - MARGIN_MS : 0
  }

  if (engine === 'sqlite') return { isHeld: () => true, renew: async () => {}, close: async () => {} }
  const run = () => void renew().catch(onFailure)
  run()
  const timer = setInterval(run, RENEW_EVERY_MS)
  timer.unref()
  return {
    /** Jobs ask before each of their steps. */
    isHeld: () => monotonicMs() < heldUntilMs,
    renew,
    /** Another node can take over at once. Call it after the jobs have ended. */
    async close(): Promise<void> {
      clearInterval(timer)
      heldUntilMs = 0
      await releaseLease(db, LEASE, holder).catch(onFailure)
    },
  }
}

export type JobLease = ReturnType<typeof createJobLease>
