import type { IncomingHttpHeaders } from 'node:http'
import type { Deadline, Deadlines } from './deadlines.ts'
import { Http1Error } from './errors.ts'
import { type BodyTransfer, type ClientBody, writeRequest } from './request-body.ts'
import type { ResponseParsers } from './response-parser.ts'
import type { ClientRoute, Endpoint, Resolver } from './route.ts'
import type { OpenSocket } from './socket.ts'

/** Receives the response of an exchange. After `end` or `fail` there are no further calls. */
export type ResponseReceiver = {
  /** The request is being written: from here on, the server may have received it. A repeated request is reported again. */
  sent(): void
  head(status: number, headers: IncomingHttpHeaders): void
  /**
   * Content of the response. The bytes are valid during this call only, because the next read of any connection
   * overwrites them: copy what is kept, or passed to a socket or stream. After `pause`, bytes that were already read may
   * still arrive, 256 KiB at most.
   */
  data(bytes: Buffer): void
  end(): void
  fail(error: Error): void
}

/** One request and its response. */
export type ConnectionExchange = {
  readonly method: string
  /** The head of the request, as latin1 text. */
  readonly head: string
  readonly body: ClientBody | undefined
  readonly idleMs: number
  /** The response is read in small pieces. */
  readonly readsSmall: boolean
  /** Everything that had arrived on the connection was read. */
  readonly isEndOfTurn: boolean
  readonly receiver: ResponseReceiver
  /** The response is complete. */
  onEnd(): void
  onFailure(error: Error, progress: Progress): void
}

/** How far an exchange came on its connection. */
export type Progress = {
  readonly isSent: boolean
  /** Part of a response, or of something else, has arrived. */
  readonly hasBytes: boolean
  /** The connection had served another request before. */
  readonly isReused: boolean
}

export type ConnectionDeps = {
  readonly openSocket: OpenSocket
  readonly openParser: ResponseParsers
  readonly deadlines: Deadlines
  readonly readBuffer: Buffer
  /** The beginning of `readBuffer`. */
  readonly smallBuffer: Buffer
}

type ConnectionOptions = {
  readonly endpoint: Endpoint
  readonly route: ClientRoute | undefined
  readonly resolver: Resolver
  readonly connectMs: number
  readonly session: Buffer | undefined
  onSession(session: Buffer): void
  /** The connection is free for another request. `keepAliveMs`: how long the server says that it keeps it open. */
  onFree(connection: ClientConnection, keepAliveMs: number | undefined): void
  /** The connection is closed, or is being closed, and is not used again. */
  onClosed(connection: ClientConnection, hasOpened: boolean): void
}

export type ClientConnection = {
  /** Runs an exchange as soon as the connection is open. */
  start(exchange: ConnectionExchange): void
  pause(): void
  resume(): void
  /** Closes the connection at once. A running exchange fails with the error; without an error, it is dropped silently. */
  close(error?: Error): void
  /** When an idle connection is closed, in milliseconds of `performance.now()`. */
  expiresAtMs: number
}

/** Opens a connection, which runs one exchange after the other. Nothing but a complete response leaves it open. */
export function openConnection(deps: ConnectionDeps, options: ConnectionOptions): ClientConnection {
  const { deadlines, readBuffer, smallBuffer } = deps
  const parser = deps.openParser()
  let exchange: ConnectionExchange | undefined
  let sending: BodyTransfer | undefined
  let idle: Deadline | undefined
  let readAtMs = 0
  let isOpen = false
  let isClosed = false
  let isReused = false
  let isSent = false
  let hasBytes = false
  let hasHead = false
  let isPaused = false
  let currentBuffer: Buffer | undefined
  let hasRead = false

  let socket = deps.openSocket({
    endpoint: options.endpoint,
    route: options.route,
    resolver: options.resolver,
    connectMs: options.connectMs,
    session: options.session,
    onSession: options.onSession,
    reading: { buffer: readBuffer, nextBuffer, onRead },
    onOpen(opened) {
      socket = opened
      isOpen = true
      if (exchange !== undefined) send()
    },
    onError: close,
    onEnd,
    onClose: () => close(new Http1Error('CLOSED', 'connection closed')),
  })

  function start(next: ConnectionExchange): void {
    exchange = next
    isSent = false
    hasBytes = false
    hasHead = false
    if (!isOpen) return
    isReused = true
    // The end of the idle connection, or bytes that belong to no request, may already have arrived. They are read first:
    // otherwise the bytes would be taken for the response.
    if (next.isEndOfTurn) send()
    else setImmediate(sendIfWaiting, next)
  }

  function sendIfWaiting(next: ConnectionExchange): void {
    if (exchange === next && !isSent) send()
  }

  function send(): void {
    const running = exchange as ConnectionExchange
    isSent = true
    parser.begin(running.method)
    running.receiver.sent()
    if (exchange !== running) return
    try {
      sending = writeRequest(socket, running, close)
    } catch (error) {
      // The body could not be opened.
      close(error as Error)
    }
  }

  function nextBuffer(): Buffer | undefined {
    // The buffer of the first read is chosen before there is an exchange.
    const next = exchange === undefined || exchange.readsSmall ? smallBuffer : readBuffer
    const isAfterRead = hasRead
    hasRead = false
    // Before its first read, a socket may be opened again, to the next address of its host.
    if (isAfterRead && next === currentBuffer) return undefined
    currentBuffer = next
    return next
  }

  function onRead(length: number): void {
    hasRead = true
    if (isClosed) return
    if (exchange === undefined || !isSent) {
      close(new Http1Error('MALFORMED_RESPONSE', 'bytes without a request'))
      return
    }
    hasBytes = true
    const fault = parser.read(readBuffer, length)
    try {
      deliver(exchange, fault)
    } catch (error) {
      close(error as Error)
    }
  }

  /** The receiver may close the connection in any of its calls. */
  function deliver(running: ConnectionExchange, fault: string | undefined): void {
    const { receiver } = running
    const reading = parser.reading()
    if (!hasHead && reading.status !== 0) {
      hasHead = true
      receiver.head(reading.status, reading.headers)
      if (exchange !== running) return
    }
    if (reading.contentEnd > reading.contentStart) {
      receiver.data(readBuffer.subarray(reading.contentStart, reading.contentEnd))
      if (exchange !== running) return
    }
    if (fault !== undefined) close(new Http1Error('MALFORMED_RESPONSE', fault))
    else if (reading.isComplete) complete(running)
    else if (hasHead) {
      readAtMs = performance.now()
      idle ??= deadlines.after(running.idleMs, checkIdle)
    }
  }

  /** One deadline for many reads: it is extended when it is due, not with each read. A paused response is not idle. */
  function checkIdle(): void {
    const { idleMs } = exchange as ConnectionExchange
    const waitedMs = isPaused ? 0 : performance.now() - readAtMs
    if (waitedMs >= idleMs) close(new Http1Error('IDLE_TIMEOUT', 'idle timeout'))
    else idle = deadlines.after(Math.ceil(idleMs - waitedMs), checkIdle)
  }

  function complete(running: ConnectionExchange): void {
    exchange = undefined
    idle?.cancel()
    idle = undefined
    // A server may respond before it has received the whole request. The rest of it must not precede the next request.
    const hasSentAll = (sending?.isComplete() ?? true) && socket.writableLength === 0
    sending?.stop()
    sending = undefined
    if (isPaused) resume()
    if (parser.reading().isPersistent && hasSentAll) options.onFree(connection, parser.keepAliveMs())
    else close()
    running.onEnd()
  }

  function onEnd(): void {
    // Until the request is sent, the parser still has the response before it.
    const running = isSent ? exchange : undefined
    if (running !== undefined) parser.finish()
    if (running !== undefined && parser.reading().isComplete) complete(running)
    else close(new Http1Error('CLOSED', 'connection closed'))
  }

  function resume(): void {
    isPaused = false
    readAtMs = performance.now()
    socket.resume()
  }

  function close(error?: Error): void {
    if (isClosed) return
    isClosed = true
    idle?.cancel()
    sending?.stop()
    const failing = exchange
    exchange = undefined
    socket.destroy()
    parser.close()
    options.onClosed(connection, isOpen)
    if (failing !== undefined && error !== undefined) failing.onFailure(error, { isSent, hasBytes, isReused })
  }

  const connection: ClientConnection = {
    start,
    pause() {
      isPaused = true
      socket.pause()
    },
    resume,
    close,
    expiresAtMs: 0,
  }
  return connection
}
