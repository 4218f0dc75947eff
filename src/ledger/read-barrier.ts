import { setTimeout as delay } from 'node:timers/promises'
import type { AccountId } from '../domain/account.ts'

/** A read of a balance waits at most this long for all workers; then it returns the current values of the store. */
const MAX_WAIT_MS = 1_000

type ReadBarrierDeps = {
  readonly ledger: { flushAndReturn(account: AccountId): Promise<void>; barrier(): Promise<void> }
  /** Calls the same functions of all other nodes. False if a node did not respond. */
  readonly others: { flushAndReturn(account: AccountId): Promise<boolean>; barrier(): Promise<boolean> }
  readonly maxWaitMs?: number
}

/** Makes the store current before a balance is read or changed: settlements applied, leases of an account returned. */
export function createReadBarrier({ ledger, others, maxWaitMs = MAX_WAIT_MS }: ReadBarrierDeps) {
  async function flushAndReturn(account: AccountId): Promise<boolean> {
    const [isComplete] = await Promise.all([others.flushAndReturn(account), ledger.flushAndReturn(account)])
    return isComplete
  }

  async function barrier(): Promise<boolean> {
    const [isComplete] = await Promise.all([others.barrier(), ledger.barrier()])
    return isComplete
  }

  /** Whether every node brought the store up to date in time. */
  async function catchUp(account?: AccountId): Promise<boolean> {
    const timeout = new AbortController()
    const caughtUp = account ? flushAndReturn(account) : barrier()
    const isLate = delay(maxWaitMs, false, { signal: timeout.signal, ref: false })
    try {
      return await Promise.race([caughtUp, isLate])
    } finally {
      // The promise that lost the race may still reject; an unhandled rejection would end the process.
      isLate.catch(() => false)
      caughtUp.catch(() => false)
      timeout.abort()
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
