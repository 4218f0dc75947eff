import { type LookupAddress, lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import {
  type AddressAuthor,
  type AddressPolicy,
  refuseAddress,
  refuseHost,
  refuseUrl,
} from './upstream-address.ts'

/** The gateway refused to connect. The message names the address and the reason; it is for the log, not for clients. */
export class RefusedAddressError extends Error {
  readonly code = 'REFUSED_ADDRESS'
  constructor(message: string) {
    super(message)
    this.name = 'RefusedAddressError'
  }
}

type Judged = { readonly policy: AddressPolicy; readonly author: AddressAuthor }

/**
 * Resolves a name once, judges every address it has, and returns the judged ones to connect to: there is no second
 * lookup that could be answered differently.
 */
const createGuardedLookup =
  ({ policy, author }: Judged): LookupFunction =>
  (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses: LookupAddress[] = []) => {
      const [first] = addresses
      if (error) return callback(error, '', 0)
      if (!first) return callback(new RefusedAddressError(`${hostname} has no address`), '', 0)
      for (const { address } of addresses) {
        const refused = refuseAddress(address, policy, author)
        if (refused === undefined) continue
        return callback(new RefusedAddressError(`${hostname} (${address}) ${refused}`), '', 0)
      }
      if (options.all) callback(null, addresses as never, 0)
      else callback(null, first.address, first.family)
    })
  }

export type AddressGuardDeps = {
  readonly policy: AddressPolicy
  onRefused(error: RefusedAddressError): void
}

export type Connecting = { readonly timeoutMs: number; readonly author?: AddressAuthor }

/** The one guard in front of every connection that the gateway opens to somewhere else. */
export function createAddressGuard({ policy, onRefused }: AddressGuardDeps) {
  return {
    refuseUrl: (text: string) => refuseUrl(text, policy),

    /** Connects for undici. Node.js resolves names only, so a literal address is judged here and a name in the lookup. */
    connector({ timeoutMs, author = 'administrator' }: Connecting): buildConnector.connector {
      const connect = buildConnector({
        allowH2: false,
        timeout: timeoutMs,
        lookup: createGuardedLookup({ policy, author }),
      })
      return (options, callback) => {
        const refused = refuseHost(options.hostname, policy, author)
        const report: buildConnector.Callback = (...[error, socket]) => {
          if (error instanceof RefusedAddressError) onRefused(error)
          if (error) callback(error, null)
          else callback(null, socket as never)
        }
        if (refused === undefined) connect(options, report)
        else report(new RefusedAddressError(`${options.hostname} ${refused}`), null)
      }
    },
  }
}

export type AddressGuard = ReturnType<typeof createAddressGuard>
