import type { AccountId } from '../domain/account.ts'
import { UnreachableError } from '../domain/errors.ts'

/** Shorter than the time that a request waits for a lease, and than the time that other nodes lease only what they need. */
const RETURN_TIMEOUT_MS = 700
/** Other nodes lease only what they need for a second after the call. */
const MAX_AGE_MS = 900

type IdleReturnsDeps = {
  /** Resolves to the nodes that have not completed the call in time. */
  callOthers(
    name: 'returnIdle',
    accounts: readonly AccountId[],
    withinMs: number,
  ): Promise<readonly { readonly nodeId: string }[]>
  /** Which of these nodes have leased something from one of these accounts. */
  leaseHolders(nodeIds: readonly string[], accounts: readonly AccountId[]): Promise<readonly string[]>
  monotonicMs(): number
}

/**
 * Makes the nodes of other machines return their idle leases of some accounts. A node that does not respond may have an idle
 * lease: then the request that needs it can be neither admitted nor refused.
 */
export function createIdleReturns({ callOthers, leaseHolders, monotonicMs }: IdleReturnsDeps) {
  return async function returnIdleOnOtherMachines(accounts: readonly AccountId[]): Promise<void> {
    const startMs = monotonicMs()
    const missing = await callOthers('returnIdle', accounts, RETURN_TIMEOUT_MS)
    const holders = await leaseHolders(
      missing.map(({ nodeId }) => nodeId),
      accounts,
    )
    if (holders.length > 0)
      throw new UnreachableError(
        new Error(`the node ${holders.join(', ')} has leased from the account and does not respond`),
      )
    // The store was slow: what the other nodes returned may be leased again by now.
    if (monotonicMs() - startMs > MAX_AGE_MS)
      throw new UnreachableError(new Error('the other nodes could not be reached in time'))
  }
}
