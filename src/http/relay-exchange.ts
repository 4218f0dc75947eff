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
  (Readable | { openBody(): Readable; receiveBody(receiver: BodyReceiver): void })

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
  /** Sets or removes the watcher that learns that the client disconnected. Not with node:http: listen to the socket instead. */
  watchClient?(watcher: { onDisconnect(): void } | undefined): void
}

export type RelayListener = (request: RelayIncoming, response: RelayOutgoing) => void

/** Receives the body of a request in pieces. */
export type BodyReceiver = {
  /**
   * The bytes are valid during this call only. False: the receiver does not want them, nor what follows. All of it can be read as a
   * stream.
   */
  data(bytes: Buffer): boolean
  /** The body is complete. */
  end(): void
  /** The client disconnected before that. */
  close(): void
  /**
   * Memory into which the next bytes may be read, for no more bytes than the body lacks; undefined: there is none yet. `data` is called
   * with a view of it. It must not be used for anything else before `end`.
   */
  readonly room?: () => Buffer | undefined
}

/** Passes a body to a receiver. A request of `http1` does so without a copy. */
export function receiveBody(request: RelayIncoming, receiver: BodyReceiver): void {
  if ('receiveBody' in request) {
    request.receiveBody(receiver)
    return
  }
  const onData = (chunk: Buffer) => {
    if (receiver.data(chunk)) return
    stop()
    request.pause()
    request.unshift(chunk)
  }
  const onEnd = () => {
    stop()
    receiver.end()
  }
  const onClose = () => {
    stop()
    if (!request.complete) receiver.close()
  }
  const stop = () =>
    void request.off('data', onData).off('end', onEnd).off('error', onClose).off('close', onClose)
  request.on('data', onData).on('end', onEnd).on('error', onClose).on('close', onClose)
}

/** The body of a request as a stream. */
export const bodyOf = (request: RelayIncoming): Readable =>
  'openBody' in request ? request.openBody() : request
