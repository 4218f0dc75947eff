import type { SecureContext } from 'node:tls'
import {
  type ClientConnection,
  type ConnectionExchange,
  openConnection,
  type Progress,
  type ResponseReceiver,
} from './connection.ts'
import type { Deadlines } from './deadlines.ts'
import { Http1Error } from './errors.ts'
import { type ClientBody, lengthOf } from './request-body.ts'
import { type ClientRequestHead, type RequestTarget, writeRequestHead } from './request-head.ts'
import { createResponseParsers, type ResponseParsers } from './response-parser.ts'
import { type ClientRoute, type Endpoint, endpointOf, type Resolver } from './route.ts'
import { createSocketOpener } from './socket.ts'

const READ_BYTES = 256 * 1024
const SMALL_READ_BYTES = 8 * 1024
/** How often expired connections are closed and unused origins are removed. */
const SWEEP_MS = 1_000
/** A server closes an idle connection at the time that it announces; a request must not be on its way to it then. */
const KEEP_ALIVE_MARGIN_MS = 2_000
const MAX_KEEP_ALIVE_MS = 600_000

export type ClientRequest = ClientRequestHead & {
  /** The scheme, host and port, as in `URL.origin`. */
  readonly origin: string
  /** Absent: the default way. */
  readonly route?: ClientRoute | undefined
  readonly body?: ClientBody | undefined
  readonly connectMs: number
  /** The longest wait for further bytes of a response that has begun. */
  readonly idleMs: number
  /**
   * The request may be sent again if a connection that had served another request closes without a byte of the response.
   * The server may have processed it nevertheless.
   */
  readonly isRepeatable: boolean
  /**
   * The response is read in pieces of 8 KiB instead of 256 KiB, unless it comes through a proxy. For responses whose reader may be slow:
   * what was read has to be kept.
   */
  readonly readsSmall?: boolean | undefined
  /**
   * The caller runs at the end of a turn of the event loop, after everything that had arrived on any connection was read.
   * Then the request is written at once. Otherwise it waits for the end of the turn.
   */
  readonly isEndOfTurn?: boolean | undefined
}

export type ClientExchange = {
  /** Closes the connection at once. The receiver is not called again. */
  abort(): void
  /** Stops reading the response, so that the server stops sending. */
  pause(): void
  resume(): void
}

export type ClientOptions = {
  readonly resolver: Resolver
  /** The certificates of TLS connections; absent: those of Node.js. */
  readonly secureContext?: SecureContext | undefined
  readonly deadlines: Deadlines
  /** Per origin and route. Further requests wait for a free connection. */
  readonly maxConnections: number
  /** How long a connection stays open without a request if the server does not say. */
  keepAliveMs(origin: string): number
}

type Origin = RequestTarget & {
  readonly key: string
  readonly name: string
  readonly route: ClientRoute | undefined
  readonly endpoint: Endpoint
  /** The last one is used first, so that those that are not needed expire. */
  readonly free: ClientConnection[]
  readonly open: Set<ClientConnection>
  readonly waiting: PendingExchange[]
  /** For the resumption of TLS sessions. */
  session: Buffer | undefined
}

/** What an exchange needs of its client. */
type ExchangeClient = {
  onFailure(exchange: PendingExchange, error: Error, progress: Progress): void
}

/** An exchange that waits for a connection or runs on one. */
class PendingExchange implements ConnectionExchange, ClientExchange {
  readonly origin: Origin
  readonly request: ClientRequest
  readonly receiver: ResponseReceiver
  readonly head: string
  connection: ClientConnection | undefined = undefined
  isOver = false
  isRepeated = false
  /** Only when it begins at once: later it begins in the middle of a turn, when a connection has been read in part. */
  isEndOfTurn: boolean
  readonly #client: ExchangeClient

  constructor(client: ExchangeClient, origin: Origin, request: ClientRequest, receiver: ResponseReceiver) {
    this.#client = client
    this.origin = origin
    this.request = request
    this.receiver = receiver
    this.isEndOfTurn = request.isEndOfTurn === true
    this.head = writeRequestHead(request, origin, bodyBytesOf(request))
  }

  get method() {
    return this.request.method
  }

  get body() {
    return this.request.body
  }

  get idleMs() {
    return this.request.idleMs
  }

  get readsSmall() {
    return this.request.readsSmall === true
  }

  onEnd(): void {
    this.isOver = true
    // The connection may already run another exchange.
    this.connection = undefined
    this.receiver.end()
  }

  onFailure(error: Error, progress: Progress): void {
    this.#client.onFailure(this, error, progress)
  }

  abort(): void {
    if (this.isOver) return
    this.isOver = true
    const { waiting } = this.origin
    const index = waiting.indexOf(this)
    if (index !== -1) waiting.splice(index, 1)
    this.connection?.close()
    this.connection = undefined
  }

  pause(): void {
    this.connection?.pause()
  }

  resume(): void {
    this.connection?.resume()
  }
}

/** Undefined: the request has no body, and says nothing about its length. */
function bodyBytesOf({ method, body }: ClientRequest): number | undefined {
  if (body !== undefined) return lengthOf(body)
  return method === 'GET' || method === 'HEAD' || method === 'DELETE' ? undefined : 0
}

/**
 * An HTTP/1.1 client: one request at a time per connection, persistent connections, no redirects, no pipelining, no
 * decompression. The caller limits the time until the response begins, by `abort`.
 */
export function createClient(options: ClientOptions) {
  const { resolver, deadlines, maxConnections, keepAliveMs } = options
  /** By name, after the name of the route if there is one. */
  const origins = new Map<string, Origin>()
  const openSocket = createSocketOpener(options.secureContext)
  const readBuffer = Buffer.allocUnsafeSlow(READ_BYTES)
  let parsers: ResponseParsers | undefined
  let sweeping: NodeJS.Timeout | undefined
  let isClosed = false

  /** Compiling the parser takes a few milliseconds, so it is done with the first connection. */
  function openParser() {
    parsers ??= createResponseParsers(READ_BYTES)
    return parsers()
  }
  const smallBuffer = readBuffer.subarray(0, SMALL_READ_BYTES)
  const deps = { openSocket, openParser, deadlines, readBuffer, smallBuffer }

  function originOf({ origin: name, route }: ClientRequest): Origin {
    const key = route === undefined ? name : `${route.name} ${name}`
    const existing = origins.get(key)
    if (existing !== undefined) return existing
    const origin: Origin = {
      key,
      name,
      route,
      endpoint: endpointOf(name),
      host: name.slice(name.indexOf('//') + 2),
      start: undefined,
      free: [],
      open: new Set(),
      waiting: [],
      session: undefined,
    }
    origins.set(key, origin)
    sweeping ??= setInterval(sweep, SWEEP_MS).unref()
    return origin
  }

  function sweep(): void {
    const nowMs = performance.now()
    for (const origin of origins.values()) {
      for (const connection of origin.free.filter(({ expiresAtMs }) => expiresAtMs <= nowMs))
        connection.close()
      if (origin.open.size === 0 && origin.waiting.length === 0) origins.delete(origin.key)
    }
    if (origins.size > 0) return
    clearInterval(sweeping)
    sweeping = undefined
  }

  function dispatch(exchange: PendingExchange): void {
    const { free, open, waiting } = exchange.origin
    const nowMs = performance.now()
    for (let connection = free.pop(); connection !== undefined; connection = free.pop()) {
      if (connection.expiresAtMs > nowMs) {
        startOn(connection, exchange)
        return
      }
      connection.close()
    }
    exchange.isEndOfTurn = false
    if (open.size < maxConnections) connect(exchange)
    else waiting.push(exchange)
  }

  function startOn(connection: ClientConnection, exchange: PendingExchange): void {
    exchange.connection = connection
    connection.start(exchange)
  }

  function connect(exchange: PendingExchange): void {
    const { origin, request } = exchange
    const { endpoint, route } = origin
    const ownResolver = route?.resolver ?? resolver
    const proxy = route?.proxy
    const refusal =
      ownResolver.refuse?.(endpoint.hostname) ?? proxy?.resolver.refuse?.(proxy.endpoint.hostname)
    if (refusal !== undefined) {
      failSoon(exchange, refusal)
      return
    }
    const connection = openConnection(deps, {
      endpoint,
      route,
      resolver: ownResolver,
      connectMs: request.connectMs,
      session: origin.session,
      onSession(session) {
        origin.session = session
      },
      onFree: (freed, announcedMs) => reuse(origin, freed, announcedMs),
      onClosed(closed, hasOpened) {
        if (!hasOpened) origin.session = undefined
        origin.open.delete(closed)
        const index = origin.free.lastIndexOf(closed)
        if (index !== -1) origin.free.splice(index, 1)
        const next = origin.waiting.shift()
        if (next !== undefined) dispatch(next)
      },
    })
    origin.open.add(connection)
    startOn(connection, exchange)
  }

  /** `announcedMs`: how long the server says that it keeps the connection open. */
  function reuse(origin: Origin, connection: ClientConnection, announcedMs: number | undefined): void {
    const next = origin.waiting.shift()
    const idleMs =
      announcedMs === undefined
        ? keepAliveMs(origin.name)
        : Math.min(announcedMs - KEEP_ALIVE_MARGIN_MS, MAX_KEEP_ALIVE_MS)
    if (next !== undefined) startOn(connection, next)
    else if (idleMs <= 0) connection.close()
    else {
      connection.expiresAtMs = performance.now() + idleMs
      origin.free.push(connection)
    }
  }

  /** Not at once: the caller of `exchange` does not have its result yet. */
  function failSoon(exchange: PendingExchange, error: Error): void {
    process.nextTick(() => fail(exchange, error))
  }

  function fail(exchange: PendingExchange, error: Error): void {
    if (exchange.isOver) return
    exchange.isOver = true
    exchange.receiver.fail(error)
  }

  function onFailure(
    exchange: PendingExchange,
    error: Error,
    { isSent, hasBytes, isReused }: Progress,
  ): void {
    if (exchange.isOver) return
    exchange.connection = undefined
    exchange.isEndOfTurn = false
    const mayRepeat = !hasBytes && exchange.request.isRepeatable && !exchange.isRepeated
    if (isClosed || !isReused) fail(exchange, error)
    // The idle connection closed before the request was written.
    else if (!isSent) dispatch(exchange)
    else if (mayRepeat) {
      exchange.isRepeated = true
      connect(exchange)
    } else fail(exchange, error)
  }

  const exchangeClient: ExchangeClient = { onFailure }

  return {
    /** Throws if the request has invalid headers. */
    exchange(request: ClientRequest, receiver: ResponseReceiver): ClientExchange {
      const pending = new PendingExchange(exchangeClient, originOf(request), request, receiver)
      if (isClosed) failSoon(pending, new Http1Error('CLOSED', 'the client is closed'))
      else dispatch(pending)
      return pending
    },
    /** The number of origins with open connections or waiting requests. */
    originCount: () => origins.size,
    connectionCount: () => origins.values().reduce((sum, { open }) => sum + open.size, 0),
    close(): void {
      isClosed = true
      clearInterval(sweeping)
      for (const { open, waiting } of origins.values()) {
        const error = new Http1Error('CLOSED', 'the client is closed')
        for (const exchange of waiting.splice(0)) fail(exchange, error)
        for (const connection of open) connection.close(error)
      }
      origins.clear()
    },
  }
}

export type Client = ReturnType<typeof createClient>
