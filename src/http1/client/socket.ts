import { isIP, type LookupFunction, connect as openTcp, type Socket } from 'node:net'
import { createSecureContext, connect as openTls, type SecureContext, type TLSSocket } from 'node:tls'
import { Http1Error } from './errors.ts'

/** The delay before TCP checks whether an idle peer still exists. */
const TCP_KEEP_ALIVE_MS = 60_000

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

type SocketRequest = {
  readonly endpoint: Endpoint
  readonly resolver: Resolver
  readonly connectMs: number
  /** All sockets read into this one buffer: `onRead` must copy what it keeps. */
  readonly readBuffer: Buffer
  onRead(length: number): void
  /** The TLS handshake, if any, is over. */
  onOpen(): void
  /** The session of an earlier connection to this endpoint. */
  readonly session: Buffer | undefined
  onSession(session: Buffer): void
}

/** Opens TCP and TLS sockets. Errors and the end of a connection are events of the socket. */
export function createSocketOpener() {
  let secureContext: SecureContext | undefined

  function openSecure(options: object, { endpoint, session, onOpen, onSession }: SocketRequest): TLSSocket {
    // One context for all connections: each has a copy of the root certificates.
    secureContext ??= createSecureContext()
    const socket = openTls({
      ...options,
      secureContext,
      ALPNProtocols: ['http/1.1'],
      ...(isIP(endpoint.hostname) === 0 && { servername: endpoint.hostname }),
      ...(session && { session }),
    })
    return socket.on('session', onSession).once('secureConnect', onOpen)
  }

  return function openSocket(request: SocketRequest): Socket {
    const { endpoint, resolver, connectMs, readBuffer, onRead, onOpen } = request
    const options = {
      host: endpoint.hostname,
      port: endpoint.port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
      ...(resolver.lookup && { lookup: resolver.lookup }),
      onread: {
        buffer: readBuffer,
        callback(length: number): boolean {
          onRead(length)
          return true
        },
      },
    }
    const socket = endpoint.isTls ? openSecure(options, request) : openTcp(options).once('connect', onOpen)
    const timer = setTimeout(() => {
      socket.destroy(new Http1Error('CONNECT_TIMEOUT', 'connect timeout'))
    }, connectMs)
    const stopTimer = () => clearTimeout(timer)
    return socket.once(endpoint.isTls ? 'secureConnect' : 'connect', stopTimer).once('close', stopTimer)
  }
}

export type OpenSocket = ReturnType<typeof createSocketOpener>
