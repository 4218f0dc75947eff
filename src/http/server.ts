import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import {
  type AddressInfo,
  createServer as createNetServer,
  type ListenOptions,
  type Server as NetServer,
} from 'node:net'
import { Refusal, wrongMethod } from '../domain/errors.ts'
import type { ConnectionLimit } from './connection-limit.ts'
import { managementError } from './errors.ts'
import { relayAddress } from './relay-address.ts'
import { RELAY_SECURITY } from './relay-headers.ts'
import { closeUnread } from './unread-body.ts'

// An `import` would also load the client of `fetch`, which takes a twentieth of the start.
const { createServer } = createRequire(import.meta.url)('node:http') as typeof import('node:http')

/** Limits of the HTTP server, documented in docs/limits.md. */
const LIMITS = {
  headersTimeout: 10_000,
  requestTimeout: 120_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 1_000,
  maxHeaderSize: 16_384,
  // Bytes buffered for a client that does not read, besides the chunk being written.
  highWaterMark: 16_384,
} as const
const MAX_HEADERS = 100

export type Front = {
  readonly basePath: string
  /** Serves `/v1` and the other paths of the relay API, outside the management framework. */
  readonly relay: RequestListener
  readonly manage: RequestListener
  /** The relay refuses requests above the limit itself, in its own error format. */
  readonly connectionLimit: ConnectionLimit
  readonly isReady: () => Promise<boolean>
}

function answer(
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
  answer(response, status, JSON.stringify(body), headers)
}

/** Removes the path prefix of a reverse proxy, here only: no other code knows the prefix. */
function stripBasePath(request: IncomingMessage, basePath: string): boolean {
  const url = request.url ?? '/'
  if (basePath === '') return true
  if (url !== basePath && !url.startsWith(`${basePath}/`) && !url.startsWith(`${basePath}?`)) return false
  const rest = url.slice(basePath.length)
  request.url = rest.startsWith('/') ? rest : `/${rest}`
  return true
}

/** A request line may have an absolute URL (RFC 9112, 3.2.2): only the path counts. */
function stripOrigin(request: IncomingMessage): void {
  const { url = '/' } = request
  if (url.startsWith('/')) return
  const rest = url.replace(/^https?:\/\/[^/?#]*/i, '')
  if (rest !== url) request.url = rest.startsWith('/') ? rest : `/${rest}`
}

/** Answers `Expect: 100-continue` when the body is first read, and not if the request is refused without reading it. */
function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const { shouldKeepAlive } = response
  // After a refusal the client may send its body or not, which cannot be told from the next request.
  response.shouldKeepAlive = false
  request.once('resume', () => {
    if (response.headersSent) return
    response.shouldKeepAlive = shouldKeepAlive
    response.writeContinue()
  })
}

/** With an optional slash or query, which load balancers add. */
const HEALTH_PATH = /^\/(healthz|readyz)\/?(\?|$)/
const HEALTH_METHODS = new Set(['GET', 'HEAD'])

/** Health checks: `/healthz` says that the process is alive, `/readyz` that it can serve. */
function answerHealth(request: IncomingMessage, response: ServerResponse, isReady: Front['isReady']): void {
  const { method = 'GET', url = '/' } = request
  const isAlive = url.startsWith('/healthz')
  if (!HEALTH_METHODS.has(method)) {
    refuse(response, wrongMethod(isAlive ? '/healthz' : '/readyz', HEALTH_METHODS, method))
  } else if (isAlive) answer(response, 200, '{"status":"ok"}')
  else
    isReady().then(ready =>
      answer(response, ready ? 200 : 503, `{"status":"${ready ? 'ready' : 'not ready'}"}`),
    )
}

/** A proxy in front may have used the other Host header (RFC 9112, 3.2). */
function hasTwoHosts({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  return hosts > 1
}

/** Answers like the HTTP parser does for a malformed request. */
const closeAsMalformed = ({ socket }: IncomingMessage, status = '400 Bad Request') =>
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`)

/**
 * Why the framing of a request is refused (RFC 9112, 6.1). The parser accepts any list of codings that ends in `chunked`, and
 * chunks in HTTP/1.0; a proxy in front may read either differently, which allows request smuggling.
 */
function framingFault({ headers, httpVersion }: IncomingMessage): string | undefined {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return undefined
  if (httpVersion === '1.0') return '400 Bad Request'
  return coding.trim().toLowerCase() === 'chunked' ? undefined : '501 Not Implemented'
}

/** One `http.Server` for health checks, the relay, and the management API with the console. */
export function createHttpServer({ basePath, relay, manage, connectionLimit, isReady }: Front): Server {
  const serve: RequestListener = (request, response) => {
    if (hasTwoHosts(request)) return closeAsMalformed(request)
    const fault = framingFault(request)
    if (fault !== undefined) return closeAsMalformed(request, fault)
    closeUnread(request, response)
    stripOrigin(request)
    const isHealth = HEALTH_PATH.test(request.url ?? '/')
    if (!isHealth && !stripBasePath(request, basePath)) return refuse(response, noSuchRoute(request))
    const path = request.url ?? '/'
    if (HEALTH_PATH.test(path)) return answerHealth(request, response, isReady)
    const isBeyond = connectionLimit.isBeyond(request)
    // A refused client must free its connection.
    if (isBeyond) response.shouldKeepAlive = false
    const address = relayAddress(request)
    if (address !== undefined) {
      request.url = address
      return relay(request, response)
    }
    if (isBeyond)
      return refuse(
        response,
        new Refusal('overloaded', 'The gateway has too many connections. Try again in a moment.', {
          retryAfterS: 1,
        }),
      )
    manage(request, response)
  }
  const server = createServer(LIMITS, serve)
  server.on('checkContinue', (request, response) => {
    continueWhenRead(request, response)
    serve(request, response)
  })
  connectionLimit.watch(server)
  server.maxHeadersCount = MAX_HEADERS
  return server
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

export const listen = (server: Server, port: number, host: string) => listenOnce(server, { port, host })

/**
 * Listens on a port that other workers share (SO_REUSEPORT). The system gives each worker a queue of its own: when a worker
 * dies, the connections in its queue are reset at once and their clients retry. Where the system does not support this
 * (macOS, Windows), the supervisor distributes the connections.
 */
export const listenBeside = (server: Server, port: number, host: string) =>
  listenOnce(server, { port, host, reusePort: true }).catch(error => {
    if (error.code !== 'ENOTSUP') throw error
    return listen(server, port, host)
  })

/** Makes sure that no other program listens on the port, which `listenBeside` would not notice. Returns the port. */
export async function claimPort(port: number, host: string): Promise<number> {
  const claim = createNetServer()
  const claimed = await listenOnce(claim, { port, host })
  await new Promise(resolve => claim.close(resolve))
  return claimed
}

const SWEEP_MS = 100

/** Stops accepting connections, lets running requests finish for at most `drainMs`, then closes the rest. */
export async function drain(server: Server, drainMs: number): Promise<void> {
  const closed = new Promise<void>(resolve => server.close(() => resolve()))
  // A keep-alive connection becomes idle after its response, so idle ones are closed repeatedly until none remains.
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS)
  const cut = setTimeout(() => server.closeAllConnections(), drainMs)
  await closed
  clearInterval(sweep)
  clearTimeout(cut)
}
