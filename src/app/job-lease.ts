import { systemTimers, type Timers } from '../host/timers.ts'

const LEASE_S = 60
const RENEW_EVERY_MS = 15_000
/** The holder stops this long before another node may take over. */
const MARGIN_MS = 10_000

/** Who has the lease. The holder changes `untilTime` with each renewal. */
type Lease = { readonly holder: string; readonly untilTime: number }

/** The lease in the store. Each function is one statement. */
export type LeaseStore = {
  read(): Promise<Lease | undefined>
  /** False if the lease is not the previous one any more. */
  replace(previous: Lease | undefined, next: Lease): Promise<boolean>
  release(holder: string): Promise<void>
}

type JobLeaseDeps = {
  /** Undefined if the store belongs to one machine. */
  readonly store: LeaseStore | undefined
  /** The id of this node. */
  readonly holder: string
  /** The system clock, in seconds. */
  now(): number
  /** Milliseconds that never go back. */
  monotonicMs(): number
  readonly timers?: Pick<Timers, 'every'>
  onFailure(error: Error): void
}

/**
 * Elects the node that runs the jobs of the store: retention, partitions, folds and recovery tests of channels. All nodes that
 * share the database try to take one lease. If its holder dies, another node has it within a minute and a quarter.
 *
 * A node takes the lease of another one when it has not seen a renewal for a minute by its own monotonic clock. System clocks are
 * not compared: they differ between machines, and jump.
 */
export function createJobLease(deps: JobLeaseDeps) {
  const { store, holder, now, monotonicMs, timers = systemTimers, onFailure } = deps
  if (!store) return { isHeld: () => true, renew: async () => {}, close: async () => {} }
  let heldUntilMs = 0
  /** A suspended machine stops its monotonic clock, but not its system clock. */
  let heldUntilTime = 0
  /** The lease of another node, and when this node first saw it. */
  let observed: { readonly lease: Lease; readonly seenMs: number } | undefined

  /** Whether another node has renewed its lease within its term. */
  function isRenewed(lease: Lease): boolean {
    const { holder: name, untilTime } = lease
    if (observed?.lease.holder !== name || observed.lease.untilTime !== untilTime)
      observed = { lease, seenMs: monotonicMs() }
    return monotonicMs() - observed.seenMs <= LEASE_S * 1000
  }

  async function take({ read, replace }: LeaseStore): Promise<boolean> {
    const lease = await read()
    if (lease && lease.holder !== holder && isRenewed(lease)) return false
    const untilTime = now() + LEASE_S
    return replace(lease, { holder, untilTime: untilTime === lease?.untilTime ? untilTime + 1 : untilTime })
  }

  async function renew(): Promise<void> {
    // Counted from the sending: the answer may be late.
    const sentMs = monotonicMs()
    const sentTime = now()
    const isHeld = await take(store as LeaseStore)
    heldUntilMs = isHeld ? sentMs + LEASE_S * 1000 - MARGIN_MS : 0
    heldUntilTime = sentTime + LEASE_S - MARGIN_MS / 1000
  }

  const run = () => void renew().catch(onFailure)
  run()
  const stop = timers.every(RENEW_EVERY_MS, run)
  return {
    /** Jobs ask before each of their steps. */
    isHeld: () => monotonicMs() < heldUntilMs && now() < heldUntilTime,
    renew,
    /** Another node can take over at once. Call it after the jobs have ended. */
    async close(): Promise<void> {
      stop()
      heldUntilMs = 0
      await store.release(holder).catch(onFailure)
    },
  }
}

export type JobLease = ReturnType<typeof createJobLease>
