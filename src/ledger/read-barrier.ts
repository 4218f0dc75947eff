import type { AccountId } from '../domain/account.ts'
import { systemTimers, type Timers } from '../host/timers.ts'

/** A read of a balance waits at most this long for all workers; then it returns the current values of the store. */
const MAX_WAIT_MS = 1_000

type ReadBarrierDeps = {
  readonly ledger: { flushAndReturn(account: AccountId): Promise<void>; barrier(): Promise<void> }
  /** Calls the same functions of all other nodes. False if a node did not respond. */
  readonly others: { flushAndReturn(account: AccountId): Promise<boolean>; barrier(): Promise<boolean> }
  readonly maxWaitMs?: number
  readonly timers?: Pick<Timers, 'after'>
}

/** Makes the store current before a balance is read or changed: settlements applied, leases of an account returned. */
export function createReadBarrier(deps: ReadBarrierDeps) {
  const { ledger, others, maxWaitMs = MAX_WAIT_MS, timers = systemTimers } = deps

  // The own ledger is asked once more: this node may have noticed a failover with the call of the others. Usually it has
  // nothing to apply then.

  async function flushAndReturn(account: AccountId): Promise<boolean> {
    const [isComplete] = await Promise.all([others.flushAndReturn(account), ledger.flushAndReturn(account)])
    await ledger.barrier()
    return isComplete
  }

  async function barrier(): Promise<boolean> {
    const [isComplete] = await Promise.all([others.barrier(), ledger.barrier()])
    await ledger.barrier()
    return isComplete
  }

  /** Whether every node brought the store up to date in time. */
  async function catchUp(account?: AccountId): Promise<boolean> {
    const caughtUp = account ? flushAndReturn(account) : barrier()
    const timeout = Promise.withResolvers<false>()
    const stop = timers.after(maxWaitMs, () => timeout.resolve(false))
    try {
      return await Promise.race([caughtUp, timeout.promise])
    } finally {
      // It may still reject after the timeout; an unhandled rejection would end the process.
      caughtUp.catch(() => false)
      stop()
    }
  }

  return {
    /** A node of another machine that does not respond keeps its lease, which counts as held. */
    async flushAndReturn(account: AccountId): Promise<void> {
      await flushAndReturn(account)
    },
    catchUp,
  }
}
