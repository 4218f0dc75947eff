import ipaddr from 'ipaddr.js'
import type { RelayIncoming } from './relay-exchange.ts'

type Parsed = ipaddr.IPv4 | ipaddr.IPv6
type Range = [Parsed, number]

/** An IPv4-mapped IPv6 address is that IPv4 address. */
const parse = (text: string): Parsed | undefined => (ipaddr.isValid(text) ? ipaddr.process(text) : undefined)

function readRange(text: string): Range {
  if (text.includes('/')) return ipaddr.parseCIDR(text)
  const address = ipaddr.process(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

const isWithin = (address: Parsed, [base, bits]: Range) =>
  address.kind() === base.kind() && address.match(base as ipaddr.IPv4 & ipaddr.IPv6, bits)

/** Whether a text is an IP address or a CIDR range. A bare number is refused, although it parses as an address. */
export const isAddressOrRange = (text: string) =>
  (ipaddr.isValid(text) && !/^\d+$/.test(text)) || ipaddr.isValidCIDR(text)

/** Whether an address is one of these addresses or inside one of these ranges. */
export function isAddressIn(address: string, ranges: readonly string[]): boolean {
  const parsed = parse(address)
  return parsed !== undefined && ranges.some(range => isWithin(parsed, readRange(range)))
}

const MAX_CACHED = 10_000

/** Parsing an address costs more than all other checks of a small request, and the same clients come again. */
function memoize<T>(read: (text: string) => T): (text: string) => T {
  const cache = new Map<string, T>()
  return text => {
    const cached = cache.get(text)
    if (cached !== undefined) return cached
    const value = read(text)
    if (cache.size >= MAX_CACHED) cache.clear()
    cache.set(text, value)
    return value
  }
}

/** Some proxies, such as Azure's, send the port of the client too. */
const withoutPort = (hop: string) => {
  const [, ipv6, ipv4] = /^(?:\[([^\]]*)\](?::\d+)?|([\d.]+):\d+)$/.exec(hop) ?? []
  return ipv6 ?? ipv4 ?? hop
}

export type ClientAddress = (request: RelayIncoming) => { address: string; isTls: boolean }

const isForwarded = ({ headers }: RelayIncoming) =>
  headers['x-forwarded-for'] !== undefined ||
  headers['x-forwarded-proto'] !== undefined ||
  headers['x-forwarded-host'] !== undefined ||
  headers.forwarded !== undefined

/**
 * The address of the client. Forwarding headers count only from a trusted proxy; `onUntrusted` is called for the first
 * other peer that sends them.
 */
export function createClientAddress(
  trustedProxies: readonly string[],
  onUntrusted: (peer: string) => void = () => {},
  /** The gateway itself uses TLS. */
  hasTls = false,
): ClientAddress {
  let isReported = false
  const ranges = trustedProxies.map(readRange)
  const isTrusted = memoize(text => {
    const parsed = parse(text)
    return parsed !== undefined && ranges.some(range => isWithin(parsed, range))
  })
  const normalize = memoize(text => parse(text)?.toString() ?? 'unknown')

  return request => {
    const peer = normalize(request.socket.remoteAddress ?? '')
    if (ranges.length === 0 || !isTrusted(peer)) {
      if (!isReported && isForwarded(request)) {
        isReported = true
        onUntrusted(peer)
      }
      return { address: peer, isTls: hasTls }
    }
    const proto = request.headers['x-forwarded-proto']
    const isTls = hasTls || (Array.isArray(proto) ? proto[0] : proto)?.split(',')[0]?.trim() === 'https'
    const forwarded = request.headers['x-forwarded-for']
    const hops = (Array.isArray(forwarded) ? forwarded.join(',') : (forwarded ?? ''))
      .split(',')
      .map(hop => withoutPort(hop.trim()))
    // From the right: the first hop that is no trusted proxy is the client.
    const client = hops.reverse().find(hop => hop !== '' && !isTrusted(hop))
    return { address: client === undefined ? peer : normalize(client), isTls }
  }
}
