import ipaddr from 'ipaddr.js'

/** An address as far as one subscriber can choose it: IPv4 whole, of IPv6 the first `bits`. */
function prefixOf(address: string, bits: number): string {
  if (!ipaddr.IPv6.isValid(address)) return address
  const parsed = ipaddr.IPv6.parse(address)
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString()
  // IPv4 clients that a translator makes IPv6 ones of (RFC 6052) would otherwise all be one network.
  if (parsed.range() === 'rfc6052') return new ipaddr.IPv4(parsed.toByteArray().slice(12)).toString()
  const kept = parsed.toByteArray().map((byte, index) => (index < bits / 8 ? byte : 0))
  return `${new ipaddr.IPv6(kept)}/${bits}`
}

/** The unit of one client: a subscriber has at least a /64 of IPv6 addresses, and may use each of them. */
export const networkOf = (address: string) => prefixOf(address, 64)

/** The unit of one customer: providers give out up to a /48; for IPv4 the address itself. */
export const siteOf = (address: string) => prefixOf(address, 48)
