import { setTimeout as delay } from 'node:timers/promises'
import type { AccountId } from '../domain/account.ts'

/** A read of a balance waits at most this long for all workers; then it returns the current values of the store. */
const MAX_WAIT_MS = 1_000

type ReadBarrierDeps = {
  readonly ledger: { flushAndReturn(account: AccountId): Promise<void>; barrier(): Promise<void> }
  /** Broadcasts the same calls to all other workers. */
  readonly others: { flushAndReturn(account: AccountId): Promise<void>; barrier(): Promise<void> }
  readonly maxWaitMs?: number
}

/** Makes the store current before a balance is read or changed: settlements applied, leases of an account returned. */
export function createReadBarrier({ ledger, others, maxWaitMs = MAX_WAIT_MS }: ReadBarrierDeps) {
  async function flushAndReturn(account: AccountId): Promise<void> {
    await Promise.all([ledger.flushAndReturn(account), others.flushAndReturn(account)])
  }

  async function barrier(): Promise<void> {
    await Promise.all([ledger.barrier(), others.barrier()])
  }

  /** Whether every worker brought the store up to date in time. */
  async function catchUp(account?: AccountId): Promise<boolean> {
    const timeout = new AbortController()
    const caughtUp = (account ? flushAndReturn(account) : barrier()).then(() => true)
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

  return { flushAndReturn, catchUp }
}
