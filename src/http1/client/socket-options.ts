import { isIP, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { ClientRoute, Endpoint, Resolver } from './route.ts'

/** The delay before TCP checks whether an idle peer still exists. */
const TCP_KEEP_ALIVE_MS = 60_000

/** All sockets read into one buffer: `onRead` must copy what it keeps. */
export type SocketReading = {
  readonly buffer: Buffer
  /** The part of it that the first read fills, and after each read the part for the next one. Undefined: the same as before. */
  nextBuffer(): Buffer | undefined
  onRead(length: number): void
}

export type SocketRequest = {
  readonly endpoint: Endpoint
  readonly resolver: Resolver
  readonly route: ClientRoute | undefined
  readonly connectMs: number
  /** Undefined: the caller reads the open socket itself. */
  readonly reading: SocketReading | undefined
  /** The socket is connected to the server, and the TLS handshake, if any, is over. */
  onOpen(socket: Socket): void
  onError(error: Error): void
  onEnd(): void
  onClose(): void
  /** The session of an earlier connection to this endpoint. */
  readonly session: Buffer | undefined
  onSession(session: Buffer): void
}

/** The options of a TCP connection. */
export const tcpOptions = ({ hostname, port }: Endpoint, { lookup }: Resolver) => ({
  host: hostname,
  port,
  noDelay: true,
  keepAlive: true,
  keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
  ...(lookup && { lookup }),
})

/** The options of a TLS connection. */
export const tlsOptions = (
  { hostname }: Endpoint,
  secureContext: SecureContext,
  session: Buffer | undefined,
) => ({
  secureContext,
  ALPNProtocols: ['http/1.1'],
  ...(isIP(hostname) === 0 && { servername: hostname }),
  ...(session && { session }),
})
