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

// An import of it would load the client of `fetch` as well, for its names: a twentieth of the start.
const { createServer } = createRequire(import.meta.url)('node:http') as typeof import('node:http')

/** Every limit of the front door, documented in docs/limits.md. */
const LIMITS = {
  headersTimeout: 10_000,
  requestTimeout: 120_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 1_000,
  maxHeaderSize: 16_384,
  // What waits in memory for a client that takes nothing, beyond the piece that is being written.
  highWaterMark: 16_384,
} as const
const MAX_HEADERS = 100

export type Front = {
  readonly basePath: string
  /** `/v1` and the other paths of the relay API: they never enter the management framework. */
  readonly relay: RequestListener
  readonly manage: RequestListener
  /** Who came over one connection too many; the relay turns them away itself, in its own shape. */
  readonly crowd: ConnectionLimit
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

function refuse(response: ServerResponse, refusal: Refusal): void {
  const { status, headers, body } = managementError(refusal)
  answer(response, status, JSON.stringify(body), headers)
}

/** The path prefix behind a proxy is taken off once, here; nobody inside knows of it. */
function stripBasePath(request: IncomingMessage, basePath: string): boolean {
  const url = request.url ?? '/'
  if (basePath === '') return true
  if (url !== basePath && !url.startsWith(`${basePath}/`) && !url.startsWith(`${basePath}?`)) return false
  const rest = url.slice(basePath.length)
  request.url = rest.startsWith('/') ? rest : `/${rest}`
  return true
}

/** A proxy may name the whole address (RFC 9112, 3.2.2): only the path counts. */
function stripOrigin(request: IncomingMessage): void {
  const { url = '/' } = request
  if (url.startsWith('/')) return
  const rest = url.replace(/^https?:\/\/[^/?#]*/i, '')
  if (rest !== url) request.url = rest.startsWith('/') ? rest : `/${rest}`
}

/** Whoever asks before it sends a body is told to go on once somebody reads it: not where it is refused unread. */
function continueWhenRead(request: IncomingMessage, response: ServerResponse): void {
  const { shouldKeepAlive } = response
  // Refused, it may send its body or not: nobody could tell that from the next request.
  response.shouldKeepAlive = false
  request.once('resume', () => {
    if (response.headersSent) return
    response.shouldKeepAlive = shouldKeepAlive
    response.writeContinue()
  })
}

/** With a slash or a query behind it too: balancers add either. */
const HEALTH_PATH = /^\/(healthz|readyz)\/?(\?|$)/
const HEALTH_METHODS = new Set(['GET', 'HEAD'])

/** For whoever watches the process: the one path says that it lives, the other that it can serve. */
function tellHealth(request: IncomingMessage, response: ServerResponse, isReady: Front['isReady']): void {
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

/** Whoever stands before us may have believed the other one (RFC 9112, 3.2). */
function hasTwoHosts({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  return hosts > 1
}

/** As the parser does with what is no request. */
const closeAsMalformed = ({ socket }: IncomingMessage, status = '400 Bad Request') =>
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`)

/**
 * Why a request is not framed as this server reads it (RFC 9112, 6.1). The parser takes any list that ends in `chunked`, and
 * chunks of HTTP/1.0: a proxy in front may read either in another way.
 */
function framingFault({ headers, httpVersion }: IncomingMessage): string | undefined {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return undefined
  if (httpVersion === '1.0') return '400 Bad Request'
  return coding.trim().toLowerCase() === 'chunked' ? undefined : '501 Not Implemented'
}

/** One `http.Server` for everything: health, the relay, and the management API with its pages. */
export function createHttpServer({ basePath, relay, manage, crowd, isReady }: Front): Server {
  const serve: RequestListener = (request, response) => {
    if (hasTwoHosts(request)) return closeAsMalformed(request)
    const fault = framingFault(request)
    if (fault !== undefined) return closeAsMalformed(request, fault)
    closeUnread(request, response)
    stripOrigin(request)
    const isHealth = HEALTH_PATH.test(request.url ?? '/')
    if (!isHealth && !stripBasePath(request, basePath))
      return refuse(response, new Refusal('not_found', 'No such route'))
    const path = request.url ?? '/'
    if (HEALTH_PATH.test(path)) return tellHealth(request, response, isReady)
    const isBeyond = crowd.isBeyond(request)
    // Whoever is turned away makes room.
    if (isBeyond) response.shouldKeepAlive = false
    const address = relayAddress(request)
    if (address !== undefined) {
      request.url = address
      return relay(request, response)
    }
    if (isBeyond)
      return refuse(
        response,
        new Refusal('overloaded', 'the gateway has too many connections', { retryAfterS: 1 }),
      )
    manage(request, response)
  }
  const server = createServer(LIMITS, serve)
  server.on('checkContinue', (request, response) => {
    continueWhenRead(request, response)
    serve(request, response)
  })
  crowd.watch(server)
  server.maxHeadersCount = MAX_HEADERS
  return server
}

type Place = Pick<ListenOptions, 'port' | 'host' | 'reusePort'>

const listenOnce = (server: NetServer, place: Place) =>
  new Promise<number>((resolve, reject) => {
    server.once('error', reject)
    server.listen(place, () => {
      server.off('error', reject)
      resolve((server.address() as AddressInfo).port)
    })
  })

export const listen = (server: Server, port: number, host: string) => listenOnce(server, { port, host })

/**
 * Listens beside others at one port, each with a queue of its own that the system fills: what waits in the queue of
 * one that dies is reset at once, and its client comes back. Where the system cannot do that (macOS, Windows) the
 * supervisor hands connections on.
 */
export const listenBeside = (server: Server, port: number, host: string) =>
  listenOnce(server, { port, host, reusePort: true }).catch(error => {
    if (error.code !== 'ENOTSUP') throw error
    return listen(server, port, host)
  })

/** A port that nobody else is at. Whoever listens beside others would not notice a stranger there. */
export async function claimPort(port: number, host: string): Promise<number> {
  const claim = createNetServer()
  const claimed = await listenOnce(claim, { port, host })
  await new Promise(resolve => claim.close(resolve))
  return claimed
}

const SWEEP_MS = 100

/** Stops accepting, lets what runs finish for at most `drainMs`, then cuts what is left. */
export async function drain(server: Server, drainMs: number): Promise<void> {
  const closed = new Promise<void>(resolve => server.close(() => resolve()))
  // A kept-alive connection turns idle only when its answer has gone out, so idle ones are swept until none is left.
  const sweep = setInterval(() => server.closeIdleConnections(), SWEEP_MS)
  const cut = setTimeout(() => server.closeAllConnections(), drainMs)
  await closed
  clearInterval(sweep)
  clearTimeout(cut)
}
