import type { AccountId } from '../domain/account.ts'
import { UnreachableError } from '../domain/errors.ts'

/** Shorter than the time that a request waits for a lease. */
const RETURN_TIMEOUT_MS = 700

type IdleReturnsDeps = {
  /** Resolves to the nodes that have not completed the call in time. */
  callOthers(
    name: 'returnIdle',
    accounts: readonly AccountId[],
    withinMs: number,
  ): Promise<readonly { readonly nodeId: string }[]>
  /** Which of these nodes have leased something from one of these accounts. */
  leaseHolders(nodeIds: readonly string[], accounts: readonly AccountId[]): Promise<readonly string[]>
}

/**
 * Makes the nodes of other machines return their idle leases of some accounts. A node that does not respond may have an idle
 * lease: then the request that needs it can be neither admitted nor refused.
 */
export function createIdleReturns({ callOthers, leaseHolders }: IdleReturnsDeps) {
  return async function returnIdleOnOtherMachines(accounts: readonly AccountId[]): Promise<void> {
    const missing = await callOthers('returnIdle', accounts, RETURN_TIMEOUT_MS)
    const holders = await leaseHolders(
      missing.map(({ nodeId }) => nodeId),
      accounts,
    )
    if (holders.length > 0)
      throw new UnreachableError(
        new Error(`the node ${holders.join(', ')} has leased from the account and does not respond`),
      )
  }
}
