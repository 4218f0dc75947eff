import ipaddr from 'ipaddr.js'

/** The part of an address that identifies a subscriber: all of IPv4, the first `bits` of IPv6. */
function prefixOf(address: string, bits: number): string {
  if (!ipaddr.IPv6.isValid(address)) return address
  const parsed = ipaddr.IPv6.parse(address)
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString()
  // IPv4 clients behind a NAT64 translator (RFC 6052) would otherwise all be one network.
  if (parsed.range() === 'rfc6052') return new ipaddr.IPv4(parsed.toByteArray().slice(12)).toString()
  const prefix = parsed.toByteArray().map((byte, index) => (index < bits / 8 ? byte : 0))
  return `${new ipaddr.IPv6(prefix)}/${bits}`
}

/** The network of one client: a subscriber has at least a /64 of IPv6 addresses, and may use each of them. */
export const networkOf = (address: string) => prefixOf(address, 64)

/** The network of one customer: providers assign up to a /48; for IPv4 the address itself. */
export const siteOf = (address: string) => prefixOf(address, 48)
