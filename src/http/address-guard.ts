import type { LookupFunction } from 'node:net'
import type { IpFamily } from '../domain/channel-network.ts'
import { createNameLookups, type NameLookup, type NameLookups } from './name-lookup.ts'
import {
  type AddressAuthor,
  type AddressPolicy,
  refuseAddress,
  refuseHost,
  refuseUrl,
} from './upstream-address.ts'

/** The gateway refused to connect. The message names the address and the reason: it is for the log, not for clients. */
export class RefusedAddressError extends Error {
  readonly code = 'REFUSED_ADDRESS'
  constructor(message: string) {
    super(message)
    this.name = 'RefusedAddressError'
  }
}

type GuardRules = {
  readonly names: NameLookup
  readonly policy: AddressPolicy
  readonly author: AddressAuthor
  onRefused(error: RefusedAddressError): void
}

/**
 * Resolves a name once, checks all its addresses, and connects to those: there is no second lookup whose answer could
 * differ (DNS rebinding).
 */
const createGuardedLookup =
  ({ names, policy, author, onRefused }: GuardRules): LookupFunction =>
  (hostname, options, callback) => {
    const refuse = (reason: string) => {
      const refusal = new RefusedAddressError(reason)
      onRefused(refusal)
      callback(refusal, '', 0)
    }
    names(hostname, options, (error, addresses = []) => {
      const [first] = addresses
      if (error) return callback(error, '', 0)
      if (!first) return refuse(`${hostname} has no address`)
      for (const { address } of addresses) {
        const reason = refuseAddress(address, policy, author)
        if (reason === undefined) continue
        return refuse(`${hostname} (${address}) ${reason}`)
      }
      if (options.all) callback(null, addresses as never, 0)
      else callback(null, first.address, first.family)
    })
  }

export type AddressGuardDeps = {
  readonly policy: AddressPolicy
  onRefused(error: RefusedAddressError): void
  /** Absent: the resolver of the system. */
  readonly names?: NameLookups
}

/** Checks the address of every outgoing connection of the gateway. */
export function createAddressGuard({
  policy,
  onRefused,
  names = createNameLookups({ servers: [], family: undefined }),
}: AddressGuardDeps) {
  /**
   * The checks of connections to addresses of one author. Node.js calls the lookup for names only, so `refuse` checks
   * literal addresses.
   */
  function resolver(author: AddressAuthor, family?: IpFamily) {
    return {
      lookup: createGuardedLookup({ names: names(family), policy, author, onRefused }),
      refuse(hostname: string): RefusedAddressError | undefined {
        const reason = refuseHost(hostname, policy, author)
        if (reason === undefined) return undefined
        const refusal = new RefusedAddressError(`${hostname} ${reason}`)
        onRefused(refusal)
        return refusal
      },
    }
  }

  return { policy, names, refuseUrl: (text: string) => refuseUrl(text, policy), resolver }
}

export type AddressGuard = ReturnType<typeof createAddressGuard>
