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

/** The gateway refused to connect. The message names the address and the reason: it is for the log, not for clients. */
export class RefusedAddressError extends Error {
  readonly code = 'REFUSED_ADDRESS'
  constructor(message: string) {
    super(message)
    this.name = 'RefusedAddressError'
  }
}

type GuardRules = { readonly policy: AddressPolicy; readonly author: AddressAuthor }

/**
 * Resolves a name once, checks all its addresses, and connects to those: there is no second lookup whose answer could
 * differ (DNS rebinding).
 */
const createGuardedLookup =
  ({ policy, author }: GuardRules): LookupFunction =>
  (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses: LookupAddress[] = []) => {
      const [first] = addresses
      if (error) return callback(error, '', 0)
      if (!first) return callback(new RefusedAddressError(`${hostname} has no address`), '', 0)
      for (const { address } of addresses) {
        const reason = refuseAddress(address, policy, author)
        if (reason === undefined) continue
        return callback(new RefusedAddressError(`${hostname} (${address}) ${reason}`), '', 0)
      }
      if (options.all) callback(null, addresses as never, 0)
      else callback(null, first.address, first.family)
    })
  }

export type AddressGuardDeps = {
  readonly policy: AddressPolicy
  onRefused(error: RefusedAddressError): void
}

export type ConnectorOptions = { readonly timeoutMs: number; readonly author?: AddressAuthor }

/** Checks the address of every outgoing connection of the gateway. */
export function createAddressGuard({ policy, onRefused }: AddressGuardDeps) {
  return {
    refuseUrl: (text: string) => refuseUrl(text, policy),

    /** The connector of undici. Node.js calls the lookup for names only, so literal addresses are checked here. */
    connector({ timeoutMs, author = 'administrator' }: ConnectorOptions): buildConnector.connector {
      const connect = buildConnector({
        allowH2: false,
        timeout: timeoutMs,
        lookup: createGuardedLookup({ policy, author }),
      })
      return (options, callback) => {
        const reason = refuseHost(options.hostname, policy, author)
        const report: buildConnector.Callback = (...[error, socket]) => {
          if (error instanceof RefusedAddressError) onRefused(error)
          if (error) callback(error, null)
          else callback(null, socket as never)
        }
        if (reason === undefined) connect(options, report)
        else report(new RefusedAddressError(`${options.hostname} ${reason}`), null)
      }
    },
  }
}

export type AddressGuard = ReturnType<typeof createAddressGuard>
