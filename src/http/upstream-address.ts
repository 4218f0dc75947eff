import { type LookupAddress, lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'

/** Where channels may not point, and why. */
type Verdict = string | undefined

/** Names and addresses under which clouds hand out credentials to whoever asks. */
const METADATA_HOSTS = new Set([
  'metadata.google.internal',
  'metadata',
  'instance-data',
  'metadata.azure.com',
])
const METADATA_ADDRESSES = new Set(['169.254.169.254', '100.100.100.200', '192.0.0.192', 'fd00:ec2::254'])

/** ipaddr.js's names of ranges: never a provider, whatever the operator allows. */
const NEVER = new Set([
  'linkLocal',
  'multicast',
  'broadcast',
  'unspecified',
  'reserved',
  'benchmarking',
  'amt',
  'discard',
])

export type AddressPolicy = { readonly allowPrivate: boolean }

/** Judges one address that a name resolved to, or that stands in the address itself. */
function refuseAddress(text: string, { allowPrivate }: AddressPolicy): Verdict {
  if (!ipaddr.isValid(text)) return 'is no address'
  const address = ipaddr.process(text)
  const plain = address.toString()
  const range = address.range()
  if (METADATA_ADDRESSES.has(plain)) return 'is a cloud metadata address'
  if (NEVER.has(range)) return `is a ${range} address`
  if (!allowPrivate && range !== 'unicast')
    return 'is a loopback or private address (SLUICE_PRIVATE_UPSTREAMS=deny)'
  return undefined
}

/** Judges a channel's base URL as it is saved; the addresses behind its name are judged again at every connect. */
export function refuseUrl(text: string, policy: AddressPolicy): Verdict {
  if (!URL.canParse(text)) return 'is no address such as https://host/path'
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must begin with https:// or http://'
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password'
  if (url.hash !== '' || url.search !== '') return 'must not contain a query or fragment'
  const host = url.hostname
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase()
  if (host === '') return 'has no host'
  if (METADATA_HOSTS.has(host)) return 'is a cloud metadata address'
  if (ipaddr.isValid(host)) return refuseAddress(host, policy)
  if (!policy.allowPrivate && (host === 'localhost' || host.endsWith('.localhost')))
    return 'is a loopback address (SLUICE_PRIVATE_UPSTREAMS=deny)'
  return undefined
}

/** The connection was refused by us, before it was made. */
export class RefusedAddressError extends Error {
  readonly code = 'REFUSED_ADDRESS'
  constructor(message: string) {
    super(message)
    this.name = 'RefusedAddressError'
  }
}

/**
 * Resolves a name once, judges every address it has, and hands over the judged ones to connect to: there is no
 * second look-up for somebody to answer differently.
 */
export const createGuardedLookup =
  (policy: AddressPolicy): LookupFunction =>
  (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
      const refused = addresses?.map(({ address }) => refuseAddress(address, policy)).find(Boolean)
      const failure = error ?? (refused ? new RefusedAddressError(`${hostname} ${refused}`) : null)
      const [first] = addresses ?? []
      if (failure || !first) callback(failure ?? new RefusedAddressError(`${hostname} has no address`), '', 0)
      else if (options.all) callback(null, addresses as never, 0)
      else callback(null, first.address, first.family)
    })
  }
