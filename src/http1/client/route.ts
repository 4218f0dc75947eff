import type { LookupFunction } from 'node:net'
import type { SecureContext } from 'node:tls'

/** How names are resolved, and which hosts may be connected to. */
export type Resolver = {
  /** The reason why a host must not be connected to. It is called for every connection, before the lookup. */
  refuse?(hostname: string): Error | undefined
  readonly lookup?: LookupFunction
}

/** Where an origin is, and how to reach it. */
export type Endpoint = {
  readonly isTls: boolean
  /** Without the brackets of an IPv6 address. */
  readonly hostname: string
  readonly port: number
}

export function endpointOf(origin: string): Endpoint {
  const { protocol, hostname, port } = new URL(origin)
  const isTls = protocol === 'https:'
  return {
    isTls,
    hostname: hostname.startsWith('[') ? hostname.slice(1, -1) : hostname,
    port: port === '' ? (isTls ? 443 : 80) : Number(port),
  }
}

/** A proxy between the client and a server: HTTP with CONNECT, or SOCKS version 5. */
export type ClientProxy = {
  readonly kind: 'http' | 'socks5'
  readonly endpoint: Endpoint
  /** Its address without the credentials, for messages. */
  readonly label: string
  readonly username: string
  readonly password: string
  /** The name of a server is resolved by the client, and the proxy gets the address; false: the proxy resolves it. */
  readonly resolvesHere: boolean
  /** For the name of the proxy itself. */
  readonly resolver: Resolver
}

/** How connections are opened, if not in the default way of the client. */
export type ClientRoute = {
  /** Connections are shared by requests with the same name only. It contains no secret. */
  readonly name: string
  readonly proxy?: ClientProxy | undefined
  /** The certificates of TLS connections to the server. */
  readonly secureContext?: SecureContext | undefined
  /** For the names of servers. */
  readonly resolver?: Resolver | undefined
}
