import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'

/**
 * The part of a request that the relay uses. Requests of node:http and of `http1` have it, and the compiler checks that the
 * relay uses nothing else.
 */
export type RelayIncoming = Pick<
  IncomingMessage,
  'method' | 'url' | 'headers' | 'socket' | 'complete' | 'destroyed' | 'read'
> &
  (Readable | { openBody(): Readable })

/** The part of a response that the relay uses. */
export type RelayOutgoing = Pick<
  ServerResponse,
  | 'statusCode'
  | 'headersSent'
  | 'destroyed'
  | 'writableFinished'
  | 'writableLength'
  | 'writableCorked'
  | 'chunkedEncoding'
  | 'shouldKeepAlive'
  | 'socket'
  | 'flushHeaders'
> & {
  readonly req: RelayIncoming
  /** The memory of written bytes may be used again as soon as `write` returns. Not with node:http. */
  readonly copiesWrites?: boolean
  writeHead(status: number, headers: Readonly<Record<string, string>>): unknown
  write(chunk: Buffer | string): boolean
  write(chunk: string, encoding: BufferEncoding): boolean
  end(chunk?: Buffer | string): unknown
  end(chunk: string, encoding: BufferEncoding): unknown
  destroy(): unknown
  on(event: 'close' | 'drain', listener: () => void): RelayOutgoing
  once(event: 'close', listener: () => void): unknown
  off(event: 'close' | 'drain', listener: () => void): RelayOutgoing
}

export type RelayListener = (request: RelayIncoming, response: RelayOutgoing) => void

/** The body of a request as a stream. */
export const bodyOf = (request: RelayIncoming): Readable =>
  'openBody' in request ? request.openBody() : request
