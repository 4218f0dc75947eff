import ipaddr from 'ipaddr.js'
import type { ProxyAddress } from '../domain/channel-network.ts'
import type { HostList } from './host-list.ts'

/** The reason as the end of a sentence that begins with the address; undefined if the address is allowed. */
type RefusalReason = string | undefined

export type AddressPolicy = {
  /** Whether an address set by an administrator may be private. */
  readonly allowPrivate: boolean
  /** Hosts that channels may use as proxies, whatever their addresses are. */
  readonly allowedProxies?: HostList
}

/**
 * The origin of an address: an administrator (a channel, a key file), or a provider or client during a request (a video, a
 * redirect, an image).
 */
export type AddressAuthor = 'administrator' | 'provider'

/** Host names of cloud metadata services, which hand out credentials. */
const METADATA_HOSTS: ReadonlySet<string> = new Set([
  'metadata.google.internal',
  'metadata.goog',
  'metadata',
  'instance-data',
  'instance-data.ec2.internal',
  'metadata.azure.com',
])

/** Addresses of cloud metadata services and agents. Most clouds use link-local ones, which are never allowed. */
const METADATA_RANGES = [
  '168.63.129.16/32', // Azure
  '100.100.100.200/32', // Alibaba Cloud
  '192.0.0.192/32', // Oracle Cloud
  'fd00:ec2::/32', // Amazon
  'fd20:ce::/32', // Google Cloud
  'fd00:42::/32', // Scaleway
].map(range => ipaddr.parseCIDR(range))

/** The ranges of private networks, by their names in ipaddr.js. */
const PRIVATE_RANGES: ReadonlySet<string> = new Set([
  'private',
  'loopback',
  'carrierGradeNat',
  'uniqueLocal',
  'deprecatedSiteLocal',
])

type Parsed = ipaddr.IPv4 | ipaddr.IPv6

/** RFC 6052: the last 32 bits of this prefix are the IPv4 address that NAT64 connects to. */
const NAT64 = ipaddr.parseCIDR('64:ff9b::/96') as [ipaddr.IPv6, number]
/** RFC 4291: the only IPv6 addresses that are assigned to the internet. */
const GLOBAL_UNICAST = ipaddr.parseCIDR('2000::/3') as [ipaddr.IPv6, number]

const isIn = (address: Parsed, [base, bits]: [Parsed, number]) =>
  address.kind() === base.kind() && address.match(base as ipaddr.IPv4 & ipaddr.IPv6, bits)

/** The actual destination: for an IPv4-mapped or NAT64 address, that IPv4 address. */
function destinationOf(text: string): Parsed {
  const address = ipaddr.process(text)
  if (!isIn(address, NAT64)) return address
  return new ipaddr.IPv4(address.toByteArray().slice(-4))
}

/** `public`, `private`, or the reason why no policy allows the address. */
function classOf(address: Parsed): 'public' | 'private' | { readonly refused: string } {
  if (METADATA_RANGES.some(range => isIn(address, range))) return { refused: 'is a cloud metadata address' }
  const range = address.range()
  if (PRIVATE_RANGES.has(range)) return 'private'
  if (range !== 'unicast') return { refused: `is a ${range} address` }
  // Tunnels and deprecated forms of IPv6 embed IPv4 addresses that cannot be extracted reliably.
  return address.kind() === 'ipv4' || isIn(address, GLOBAL_UNICAST)
    ? 'public'
    : { refused: 'is a reserved address' }
}

const PRIVATE_REFUSED: Readonly<Record<AddressAuthor, string>> = {
  administrator: 'is a loopback or private address (SLUICE_PRIVATE_UPSTREAMS=deny)',
  provider: 'is a loopback or private address from a provider, and not the origin of its channel',
}

const mayBePrivate = ({ allowPrivate }: AddressPolicy, author: AddressAuthor) =>
  allowPrivate && author === 'administrator'

/** Checks one IP address, a literal or the result of a lookup. */
export function refuseAddress(
  text: string,
  policy: AddressPolicy,
  author: AddressAuthor = 'administrator',
): RefusalReason {
  if (!ipaddr.isValid(text)) return 'is not an IP address'
  const kind = classOf(destinationOf(text))
  if (typeof kind === 'object') return kind.refused
  return kind === 'public' || mayBePrivate(policy, author) ? undefined : PRIVATE_REFUSED[author]
}

const plainHost = (host: string) =>
  host
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase()

/** Checks the host of a URL before it is resolved. */
export function refuseHost(
  hostname: string,
  policy: AddressPolicy,
  author: AddressAuthor = 'administrator',
): RefusalReason {
  const host = plainHost(hostname)
  if (host === '') return 'has no host'
  if (METADATA_HOSTS.has(host)) return 'is a cloud metadata address'
  if (ipaddr.isValid(host)) return refuseAddress(host, policy, author)
  const isLocal = host === 'localhost' || host.endsWith('.localhost')
  return isLocal && !mayBePrivate(policy, author) ? PRIVATE_REFUSED[author] : undefined
}

/** Checks the address of a channel's proxy before it is resolved. */
export const refuseProxy = ({ hostname, port }: ProxyAddress, policy: AddressPolicy): RefusalReason =>
  policy.allowedProxies?.(hostname, port) === true ? undefined : refuseHost(hostname, policy)

/** Checks a URL that an administrator saves. Every connection checks the resolved addresses again. */
export function refuseUrl(text: string, policy: AddressPolicy): RefusalReason {
  if (!URL.canParse(text)) return 'is not a URL such as https://host/path'
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must begin with https:// or http://'
  if (url.username !== '' || url.password !== '') return 'must not contain a user name or password'
  if (url.hash !== '' || url.search !== '') return 'must not contain a query or fragment'
  return refuseHost(url.hostname, policy)
}
