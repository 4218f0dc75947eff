import { type LookupAddress, type LookupOptions, lookup, Resolver } from 'node:dns'
import type { LookupFunction } from 'node:net'
import type { IpFamily } from '../domain/channel-network.ts'

/** Resolves a name to all its addresses, in the order in which they are tried. */
export type NameLookup = (
  hostname: string,
  options: LookupOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/** A name that the configured DNS servers do not resolve. The message is for administrators. */
export class NameLookupError extends Error {
  readonly code = 'ENOTFOUND'
  constructor(hostname: string, why: string) {
    super(`${hostname} could not be resolved by SLUICE_DNS_SERVERS (${why})`)
    this.name = 'NameLookupError'
  }
}

const DNS_TIMEOUT_MS = 2_000
const DNS_TRIES = 2

const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
]
/** RFC 6761: these names are not sent to a DNS server. */
const isLoopback = (hostname: string) => /(?:^|\.)localhost\.?$/i.test(hostname)

/** The families of a lookup, the preferred one first. */
function familiesOf(preference: IpFamily | undefined, requested: unknown): readonly (4 | 6)[] {
  if (requested === 4 || requested === 'IPv4') return [4]
  if (requested === 6 || requested === 'IPv6') return [6]
  const order: readonly (4 | 6)[] = preference?.startsWith('ipv6') ? [6, 4] : [4, 6]
  return preference?.endsWith('only') ? order.slice(0, 1) : order
}

/** By `getaddrinfo` of the system, as without any setting. */
const systemLookup =
  (preference: IpFamily | undefined): NameLookup =>
  (hostname, options, callback) => {
    if (preference === undefined) return lookup(hostname, { ...options, all: true }, callback)
    const [first, second] = familiesOf(preference, options.family)
    lookup(
      hostname,
      {
        ...options,
        all: true,
        family: second === undefined ? first : 0,
        order: first === 4 ? 'ipv4first' : 'ipv6first',
      },
      callback,
    )
  }

/** By DNS servers of the operator's choice. Files of the system such as /etc/hosts are not read. */
function serverLookup(resolver: Resolver, preference: IpFamily | undefined): NameLookup {
  return (hostname, options, callback) => {
    const families = familiesOf(preference, options.family)
    if (isLoopback(hostname))
      return callback(
        null,
        families.flatMap(family => LOOPBACK.filter(each => each.family === family)),
      )
    const byFamily = new Map<number, LookupAddress[]>()
    const faults: string[] = []
    let pending = families.length
    for (const family of families) {
      const onAnswer = (error: NodeJS.ErrnoException | null, addresses: string[] = []) => {
        if (error) faults.push(error.code ?? error.message)
        byFamily.set(
          family,
          addresses.map(address => ({ address, family })),
        )
        pending -= 1
        if (pending > 0) return
        const all = families.flatMap(each => byFamily.get(each) ?? [])
        // ENODATA: the name exists, without an address of this family.
        const why = faults.find(fault => fault !== 'ENODATA') ?? faults[0] ?? 'no address'
        if (all.length > 0) callback(null, all)
        else callback(new NameLookupError(hostname, why), [])
      }
      if (family === 4) resolver.resolve4(hostname, onAnswer)
      else resolver.resolve6(hostname, onAnswer)
    }
  }
}

type NameLookupOptions = {
  /** Empty: the resolver of the system. */
  readonly servers: readonly string[]
  readonly family: IpFamily | undefined
}

/** How names are resolved, with the preference of the gateway or of a channel. */
export function createNameLookups({ servers, family }: NameLookupOptions) {
  const resolver =
    servers.length === 0 ? undefined : new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES })
  resolver?.setServers(servers)
  return (own: IpFamily | undefined = family): NameLookup =>
    resolver === undefined ? systemLookup(own) : serverLookup(resolver, own)
}

export type NameLookups = ReturnType<typeof createNameLookups>

/** For connections to addresses that are not checked. */
export const uncheckedLookup =
  (names: NameLookup): LookupFunction =>
  (hostname, options, callback) =>
    names(hostname, options, (error, addresses = []) => {
      const [first] = addresses
      if (error) callback(error, '', 0)
      else if (!first) callback(new NameLookupError(hostname, 'no address'), '', 0)
      else if (options.all) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
