import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import {
  type AddressInfo,
  createServer as createNetServer,
  type ListenOptions,
  type Server as NetServer,
} from 'node:net'
import { Refusal, wrongMethod } from '../domain/errors.ts'
import { type Http1Server, serveHttp1 } from '../http1/server/serve.ts'
import type { ConnectionLimit } from './connection-limit.ts'
import { managementError } from './errors.ts'
import { relayAddress } from './relay-address.ts'
import type { RelayListener } from './relay-exchange.ts'
import { RELAY_SECURITY } from './relay-headers.ts'
import { createTlsListener, type TlsOptions } from './tls.ts'
import { closeUnread, LINGER_MS, UNREAD_BYTES } from './unread-body.ts'

/** Limits of the HTTP server, documented in docs/limits.md. */
const LIMITS = {
  headersTimeout: 10_000,
  requestTimeout: 120_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 1_000,
  maxHeaderSize: 16_384,
  // Bytes buffered for a client that does not read, besides the chunk being written.
  highWaterMark: 4_096,
} as const
const MAX_HEADERS = 100

/** The same limits for the requests that `http1` serves. */
const HTTP1_LIMITS = {
  headS: LIMITS.headersTimeout / 1000,
  requestS: LIMITS.requestTimeout / 1000,
  keepAliveS: LIMITS.keepAliveTimeout / 1000,
  headBytes: LIMITS.maxHeaderSize,
  headers: MAX_HEADERS,
  unreadBytes: UNREAD_BYTES,
  lingerMs: LINGER_MS,
} as const

export type ServerDeps = {
  readonly basePath: string
  /** Serves `/v1` and the other paths of the relay API, outside the management framework. */
  readonly relay: RequestListener
  /** Serves the same paths except the billing endpoints, over any HTTP server. */
  readonly serveRelay: RelayListener
  /** False: node:http serves all requests. */
  readonly usesHttp1: boolean
  readonly manage: RequestListener
  /** The relay and the management API refuse requests above the limit, each in its error format, and log them. */
  readonly connectionLimit: ConnectionLimit
  readonly isReady: () => Promise<boolean>
  /** Whether the gateway is about to stop: every response then closes its connection. */
  readonly isDraining: () => boolean
  /** TLS without a proxy. */
  readonly tls?: TlsOptions | undefined
}

function respond(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    ...headers,
    ...RELAY_SECURITY,
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
  })
  response.end(body)
}

const noSuchRoute = ({ method, url }: IncomingMessage) =>
  new Refusal('not_found', `No such route: ${method} ${(url ?? '/').split('?')[0]}.`)

function refuse(response: ServerResponse, refusal: Refusal): void {
  const { status, headers, body } = managementError(refusal)
  respond(response, status, JSON.stringify(body), headers)
}

/** The URL without the path prefix of a reverse proxy; undefined if it lacks the prefix. No other code handles the prefix. */
function withoutBasePath(url: string, basePath: string): string | undefined {
  if (basePath === '') return url
  if (url !== basePath && !url.startsWith(`${basePath}/`) && !url.startsWith(`${basePath}?`)) return undefined
  const rest = url.slice(basePath.length)
  return rest.startsWith('/') ? rest : `/${rest}`
}

function stripBasePath(request: IncomingMessage, basePath: string): boolean {
  const rest = withoutBasePath(request.url ?? '/', basePath)
  if (rest !== undefined) request.url = rest
  return rest !== undefined
}

/** A request line may have an absolute URL (RFC 9112, 3.2.2): only the path counts. */
function stripOrigin(request: IncomingMessage): void {
  const { url = '/' } = request
  if (url.startsWith('/')) return
  const rest = url.replace(/^https?:\/\/[^/?#]*/i, '')
  if (rest !== url) request.url = rest.startsWith('/') ? rest : `/${rest}`
}

/** Sends `100 Continue` when the body is first read. A request that is refused unread gets none. */
function continueWhenRead(
  request: IncomingMessage,
  response: ServerResponse,
  isDraining: ServerDeps['isDraining'],
): void {
  const { shouldKeepAlive } = response
  // After a refusal the client may or may not send its body, and a body cannot be distinguished from the next request.
  response.shouldKeepAlive = false
  request.once('resume', () => {
    if (response.headersSent) return
    response.shouldKeepAlive = shouldKeepAlive && !isDraining()
    response.writeContinue()
  })
}

/** Load balancers may add a slash or a query. */
const HEALTH_PATH = /^\/(healthz|readyz)\/?(\?|$)/
const HEALTH_METHODS = new Set(['GET', 'HEAD'])

/** Health checks: `/healthz` reports that the process is alive, `/readyz` that it can serve requests. */
function answerHealth(
  request: IncomingMessage,
  response: ServerResponse,
  isReady: ServerDeps['isReady'],
): void {
  const { method = 'GET', url = '/' } = request
  const isAlive = url.startsWith('/healthz')
  if (!HEALTH_METHODS.has(method)) {
    refuse(response, wrongMethod(isAlive ? '/healthz' : '/readyz', HEALTH_METHODS, method))
  } else if (isAlive) respond(response, 200, '{"status":"ok"}')
  else
    isReady().then(ready =>
      respond(response, ready ? 200 : 503, `{"status":"${ready ? 'ready' : 'not ready'}"}`),
    )
}

/** Two Host headers are refused (RFC 9112, 3.2): a proxy in front may have used the other one. */
function hasTwoHosts({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  return hosts > 1
}

/** Responds as the HTTP parser does to a malformed request, and closes the connection. */
const closeAsMalformed = ({ socket }: IncomingMessage, status = '400 Bad Request') =>
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`)

/**
 * The status line for a request with refused framing (RFC 9112, 6.1). Node's parser accepts any list of codings that ends
 * in `chunked`, and chunks in HTTP/1.0. A proxy in front may read both differently, which allows request smuggling.
 */
function framingFault({ headers, httpVersion }: IncomingMessage): string | undefined {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return undefined
  if (httpVersion === '1.0') return '400 Bad Request'
  return coding.trim().toLowerCase() === 'chunked' ? undefined : '501 Not Implemented'
}

/** The server of the gateway, and its connections that node:http does not know. */
export type GatewayServer = {
  readonly server: Server
  readonly http1: Http1Server | undefined
  /** Accepts the connections: the server itself, or a TLS listener in front of it. */
  readonly listener: NetServer
}

/** The management API serves these paths under the relay's prefixes, over node:http. */
const BILLING = '/dashboard'

/** Remembers the last address, because most requests have the same one. */
function remembered(route: (url: string) => string | undefined) {
  let lastUrl: string | undefined
  let lastAddress: string | undefined
  return (url: string): string | undefined => {
    if (url !== lastUrl) {
      lastAddress = route(url)
      lastUrl = url
    }
    return lastAddress
  }
}

/** One `http.Server` for health checks, the relay, and the management API with the console. */
export function createHttpServer(deps: ServerDeps): GatewayServer {
  const { basePath, relay, serveRelay, manage, connectionLimit, isReady, isDraining } = deps
  const serve: RequestListener = (request, response) => {
    if (hasTwoHosts(request)) return closeAsMalformed(request)
    const fault = framingFault(request)
    if (fault !== undefined) return closeAsMalformed(request, fault)
    if (isDraining()) response.shouldKeepAlive = false
    closeUnread(request, response)
    stripOrigin(request)
    const isHealth = HEALTH_PATH.test(request.url ?? '/')
    if (!isHealth && !stripBasePath(request, basePath)) return refuse(response, noSuchRoute(request))
    const path = request.url ?? '/'
    if (HEALTH_PATH.test(path)) return answerHealth(request, response, isReady)
    const exceedsLimit = connectionLimit.exceedsLimit(request)
    // The connection of a refused client is closed, to get below the limit again.
    if (exceedsLimit) response.shouldKeepAlive = false
    const address = relayAddress(request)
    if (address !== undefined) {
      request.url = address
      return relay(request, response)
    }
    manage(request, response)
  }
  const server = createServer(LIMITS, serve)
  const http1 = deps.usesHttp1
    ? serveHttp1(server, {
        limits: HTTP1_LIMITS,
        route: remembered(sentUrl => {
          const url = withoutBasePath(sentUrl, basePath)
          return url === undefined || url.includes(BILLING)
            ? undefined
            : relayAddress({ method: 'POST', url, headers: {} })
        }),
        serve(request, response) {
          if (connectionLimit.exceedsLimit(request) || isDraining()) response.shouldKeepAlive = false
          serveRelay(request, response)
        },
        reasonOf: status => STATUS_CODES[status] ?? 'unknown',
        nowMs: Date.now,
      })
    : undefined
  server.on('checkContinue', (request, response) => {
    continueWhenRead(request, response, isDraining)
    serve(request, response)
  })
  // Every request that a client has pipelined listens to the one socket.
  server.on('connection', socket => socket.setMaxListeners(0))
  connectionLimit.watch(server)
  server.maxHeadersCount = MAX_HEADERS
  if (deps.tls === undefined) return { server, http1, listener: server }
  const listener = createTlsListener(server, deps.tls)
  // It accepts in place of the server, also connections whose handshake never ends.
  listener.maxConnections = server.maxConnections
  return { server, http1, listener }
}

type ListenAddress = Pick<ListenOptions, 'port' | 'host' | 'reusePort'>

const listenOnce = (server: NetServer, address: ListenAddress) =>
  new Promise<number>((resolve, reject) => {
    server.once('error', reject)
    server.listen(address, () => {
      server.off('error', reject)
      resolve((server.address() as AddressInfo).port)
    })
  })

export const listen = (server: NetServer, port: number, host: string) => listenOnce(server, { port, host })

/**
 * Listens on a port that the workers share (SO_REUSEPORT). Each worker has its own accept queue: if it dies, the system
 * resets the queued connections at once, and their clients retry. On systems without this option (macOS, Windows), the
 * supervisor distributes the connections.
 */
export const listenShared = (server: NetServer, port: number, host: string) =>
  listenOnce(server, { port, host, reusePort: true }).catch(error => {
    if (error.code !== 'ENOTSUP') throw error
    return listen(server, port, host)
  })

/** Fails if another program listens on the port, which `listenShared` cannot detect. Returns the port. */
export async function claimPort(port: number, host: string): Promise<number> {
  const claim = createNetServer()
  const claimed = await listenOnce(claim, { port, host })
  await new Promise(resolve => claim.close(resolve))
  return claimed
}

const SWEEP_MS = 100

/** Stops accepting connections, waits at most `drainMs` for running requests, then closes the remaining connections. */
export async function drain({ server, http1, listener }: GatewayServer, drainMs: number): Promise<void> {
  const closed = new Promise<void>(resolve => listener.close(() => resolve()))
  // A keep-alive connection becomes idle after its response, so idle ones are closed repeatedly until none remains.
  const closeIdle = () => {
    server.closeIdleConnections()
    http1?.closeIdle()
  }
  closeIdle()
  const sweep = setInterval(closeIdle, SWEEP_MS)
  const deadline = setTimeout(() => {
    server.closeAllConnections()
    http1?.closeAll()
  }, drainMs)
  await closed
  clearInterval(sweep)
  clearTimeout(deadline)
}
