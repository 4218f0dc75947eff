import type { Socket } from 'node:net'
import { Http1Request } from './request.ts'
import { mayBecomeHead, parseRequestHead } from './request-head.ts'
import { Http1Response, type ResponseConnection } from './response.ts'
import { readSocket, retained, retainedFrom } from './socket-reads.ts'

/** The limits of a connection. Names that end in S are seconds: the server checks its connections once a second. */
export type Http1Limits = {
  readonly headS: number
  /** From the first byte of a request to the last byte of its body. */
  readonly requestS: number
  readonly keepAliveS: number
  readonly headBytes: number
  readonly headers: number
  /** Up to this size, an unread body is still read after the response. */
  readonly unreadBytes: number
  /** For this long, an unread body is still read after the last response. */
  readonly lingerMs: number
}

/** What a connection needs of its server. */
export type ConnectionServer = Pick<ResponseConnection, 'reasonOf' | 'dateLine'> & {
  readonly limits: Http1Limits
  /** Seconds since the server was created, counted by its timer. */
  seconds(): number
  /** The path that serves a request to this URL; undefined if node:http serves it. */
  route(url: string): string | undefined
  serve(request: Http1Request, response: Http1Response): void
  /** Gives the connection to node:http, which parses these bytes first. */
  handOver(socket: Socket, bytes: Buffer): void
  onEnd(connection: Http1Connection): void
}

export type Http1Connection = {
  isIdle(): boolean
  /** Whether it has been open for a second or more without any byte. A request may be on its way on a newer one. */
  isUnused(): boolean
  /** Closes the connection if it exceeds a time limit. Called once a second. */
  check(): void
  destroy(): void
}

const UNUSED_S = 1
const HEAD_END = Buffer.from('\r\n\r\n')
/** Added to the announced time, so that a client does not send a request at the moment of closing, as in node:http. */
const KEEP_ALIVE_GRACE_S = 1
const TIMEOUT = 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n'

/**
 * Serves the requests of a connection, one after another, as long as they are in the narrow grammar and have a route. With
 * the first other request, the connection is handed over for good. Bytes that arrive before a response is complete
 * (pipelining) wait for its end, and are then handed over too.
 */
export function openConnection(socket: Socket, server: ConnectionServer): Http1Connection {
  const { limits } = server
  /** An incomplete head, or pipelined bytes. */
  let waiting: Buffer | undefined
  let request: Http1Request | undefined
  let response: Http1Response | undefined
  let hasServed = false
  let isLingering = false
  /** Nothing is read any more: a request that follows would be served, but could not be answered. */
  let isEnding = false
  /** When the connection was opened, its current request started, or its last response ended. */
  let since = server.seconds()

  const responseConnection: ResponseConnection = {
    keepAliveS: limits.keepAliveS,
    reasonOf: server.reasonOf,
    dateLine: server.dateLine,
    leavesBody: () =>
      request !== undefined && !request.complete && request.contentLength > limits.unreadBytes,
    onResponseEnd(keepsAlive) {
      response = undefined
      hasServed = true
      if (!keepsAlive) {
        if (request?.complete) end()
        else linger()
      } else if (request?.complete) next()
      else request?.discard()
    },
  }

  function onData(chunk: Buffer): void {
    if (isEnding) return
    if (isLingering) onUnread(chunk)
    else if (request) onBody(request, chunk)
    else onHead(chunk)
  }

  function onHead(chunk: Buffer): void {
    if (waiting === undefined) since = server.seconds()
    const bytes = waiting === undefined ? chunk : Buffer.concat([waiting, chunk])
    // The empty line may have started in the bytes before.
    const end = bytes.indexOf(HEAD_END, Math.max(0, (waiting?.length ?? 0) - HEAD_END.length + 1))
    if (end === -1) awaitHead(bytes)
    else start(bytes, end + HEAD_END.length)
  }

  function awaitHead(bytes: Buffer): void {
    if (bytes.length > limits.headBytes || !mayBecomeHead(bytes, waiting?.length ?? 0)) handOver(bytes)
    else waiting = retained(bytes)
  }

  /** Starts the request whose head has this size; the bytes after it are its body. */
  function start(bytes: Buffer, size: number): void {
    const isSmall = size <= limits.headBytes
    const head = isSmall ? parseRequestHead(bytes.toString('latin1', 0, size), limits.headers) : undefined
    const isAlone = head !== undefined && bytes.length - size <= head.contentLength
    const path = isAlone ? server.route(head.url) : undefined
    if (head === undefined || path === undefined) {
      handOver(bytes)
      return
    }
    waiting = undefined
    request = new Http1Request({ socket, reads }, head, path)
    if (bytes.length > size) request.receive(retainedFrom(bytes, size))
    response = new Http1Response(request, responseConnection, head.keepsAlive)
    server.serve(request, response)
  }

  function onBody(receiver: Http1Request, chunk: Buffer): void {
    const { missingBytes } = receiver
    if (chunk.length <= missingBytes) {
      receiver.receive(chunk)
    } else {
      if (missingBytes > 0) receiver.receive(chunk.subarray(0, missingBytes))
      const pipelined = retainedFrom(chunk, missingBytes)
      waiting = waiting === undefined ? pipelined : Buffer.concat([waiting, pipelined])
      if (waiting.length > limits.headBytes) socket.pause()
    }
    if (response === undefined && receiver.complete) next()
  }

  function end(): void {
    isEnding = true
    socket.destroySoon()
  }

  /** The response is written and the request is read. */
  function next(): void {
    request = undefined
    since = server.seconds()
    if (waiting !== undefined) handOver(waiting)
  }

  /**
   * Closes the connection after a response to a request whose body was not read. Closing it with unread bytes would send a
   * reset, and the client could lose the response.
   */
  function linger(): void {
    isLingering = true
    unreadBytes = 0
    socket.end()
    socket.resume()
    const timer = setTimeout(() => socket.destroy(), limits.lingerMs)
    socket.once('close', () => clearTimeout(timer))
  }

  let unreadBytes = 0
  function onUnread({ length }: Buffer): void {
    unreadBytes += length
    if (unreadBytes > limits.unreadBytes) socket.pause()
  }

  const onDrain = () => response?.onDrain()
  // A client that closes its side counts as disconnected (docs/limits.md: Clients of the relay).
  const onEnd = () => socket.end()
  // `close` follows.
  const onError = () => {}
  function onClose(): void {
    server.onEnd(connection)
    request?.close()
    response?.onClose()
    request = undefined
    response = undefined
  }

  function handOver(bytes: Buffer): void {
    reads.stop()
    socket.off('drain', onDrain).off('end', onEnd).off('error', onError).off('close', onClose)
    server.onEnd(connection)
    server.handOver(socket, retained(bytes))
  }

  function timeOut(): void {
    if (!response?.headersSent && socket.writable) socket.write(TIMEOUT)
    end()
  }

  const connection: Http1Connection = {
    isIdle: () => hasServed && request === undefined && waiting === undefined,
    isUnused: () =>
      !hasServed && request === undefined && waiting === undefined && server.seconds() - since > UNUSED_S,
    check() {
      const elapsed = server.seconds() - since
      if (connection.isIdle()) {
        if (elapsed > limits.keepAliveS + KEEP_ALIVE_GRACE_S) socket.destroy()
      } else if (request === undefined) {
        if (elapsed > limits.headS) timeOut()
      } else if (!request.complete && elapsed > limits.requestS) timeOut()
    },
    destroy: () => void socket.destroy(),
  }

  const reads = readSocket(socket, onData)
  socket.on('drain', onDrain).on('end', onEnd).on('error', onError).on('close', onClose)
  return connection
}
