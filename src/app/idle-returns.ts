import { isDeepStrictEqual } from 'node:util'
import type { AccountId } from '../domain/account.ts'
import { UnreachableError } from '../domain/errors.ts'
import type { IdleReturn } from '../ledger/low-balance.ts'

/** Shorter than the time that a request waits for a lease, and than the time that other nodes lease only what they need. */
const RETURN_TIMEOUT_MS = 700
/** Other nodes lease only what they need for a second after the call. */
const MAX_AGE_MS = 900

/** A lease as the store has it. Its change number increases with every change but the settlement of requests. */
export type LeaseState = AccountId & {
  readonly nodeId: string
  readonly amount: number
  readonly changeNumber: number
}

type IdleReturnsDeps = {
  /** Resolves to the nodes that have not completed the call in time. */
  callOthers(
    name: 'returnIdle',
    accounts: readonly AccountId[],
    withinMs: number,
  ): Promise<readonly { readonly nodeId: string }[]>
  /** The leases of these nodes on these accounts, always in the same order. */
  leaseStates(nodeIds: readonly string[], accounts: readonly AccountId[]): Promise<readonly LeaseState[]>
  monotonicMs(): number
}

/**
 * Makes the nodes of other machines return their idle leases of some accounts. A node that does not respond may have an idle
 * lease: then the request that needs it can be neither admitted nor refused. The same holds if it leases something before the
 * request is decided, for example because it is connected again and repeats a lease request.
 */
export function createIdleReturns({ callOthers, leaseStates, monotonicMs }: IdleReturnsDeps) {
  return async function returnIdleOnOtherMachines(accounts: readonly AccountId[]): Promise<IdleReturn> {
    const startMs = monotonicMs()
    const missing = await callOthers('returnIdle', accounts, RETURN_TIMEOUT_MS)
    const missingIds = missing.map(({ nodeId }) => nodeId)
    const leases = await leaseStates(missingIds, accounts)
    const holders = new Set(leases.filter(({ amount }) => amount > 0).map(({ nodeId }) => nodeId))
    if (holders.size > 0)
      throw new UnreachableError(
        new Error(`the node ${[...holders].join(', ')} has leased from the account and does not respond`),
      )
    // The store was slow: what the other nodes returned may be leased again by now.
    if (monotonicMs() - startMs > MAX_AGE_MS)
      throw new UnreachableError(new Error('the other nodes could not be reached in time'))
    return {
      async mustStillHold() {
        if (missingIds.length === 0) return
        if (!isDeepStrictEqual(await leaseStates(missingIds, accounts), leases))
          throw new UnreachableError(
            new Error(
              `one of the nodes ${missingIds.join(', ')} is connected again and has leased from the account`,
            ),
          )
      },
    }
  }
}
