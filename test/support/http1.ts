import { once } from 'node:events'
import { createServer, type Server, STATUS_CODES } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { bodyOf, type RelayListener } from '../../src/http/relay-exchange.ts'
import type { Http1Limits } from '../../src/http1/server/connection.ts'
import { type Http1Server, serveHttp1 } from '../../src/http1/server/serve.ts'
import type { HttpServerName } from './gateway.ts'

export const LIMITS: Http1Limits = {
  headS: 10,
  requestS: 120,
  keepAliveS: 65,
  headBytes: 16_384,
  headers: 100,
  unreadBytes: 65_536,
  lingerMs: 1_000,
}

type Options = {
  readonly limits?: Partial<Http1Limits>
  /** Of the server that accepts the connections. */
  readonly http?: HttpServerName
}

/** A server over `http1` with node:http behind it, or over node:http alone, on a free port. */
export async function startHttp(listener: RelayListener, { limits = {}, http = 'http1' }: Options = {}) {
  const all = { ...LIMITS, ...limits }
  const sockets = new Set<Socket>()
  /** The requests that node:http served. */
  let byNode = 0
  const server: Server = createServer(
    {
      headersTimeout: all.headS * 1000,
      requestTimeout: all.requestS * 1000,
      keepAliveTimeout: all.keepAliveS * 1000,
      maxHeaderSize: all.headBytes,
      connectionsCheckingInterval: 100,
      highWaterMark: 16_384,
    },
    (request, response) => {
      byNode += 1
      listener(request, response)
    },
  )
  const http1: Http1Server | undefined =
    http === 'node'
      ? undefined
      : serveHttp1(server, {
          limits: all,
          route: url => (url.startsWith('/v1/') ? url : undefined),
          serve: listener,
          reasonOf: status => STATUS_CODES[status] ?? 'unknown',
          nowMs: Date.now,
        })
  server.on('connection', socket => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    server,
    http1,
    sockets,
    byNode: () => byNode,
    async close(): Promise<void> {
      server.close()
      for (const socket of sockets) socket.destroy()
      if (server.listening) await once(server, 'close')
    },
  }
}

/** Reads the body completely, as the relay does. */
export async function wholeBody(request: Parameters<RelayListener>[0]): Promise<Buffer> {
  await undefined
  const parts: Buffer[] = []
  if (request.complete) {
    for (let part = request.read(); part !== null; part = request.read()) parts.push(part)
    return Buffer.concat(parts)
  }
  for await (const part of bodyOf(request)) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

/** Answers with what it understood of a request. */
export const echo: RelayListener = async (request, response) => {
  const body = await wholeBody(request).catch(() => undefined)
  if (body === undefined || response.destroyed) return
  const { method, url, headers } = request
  const answer = Buffer.from(JSON.stringify({ method, url, headers, body: body.toString('latin1') }))
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': String(answer.length) })
  response.end(answer)
}

/** A client that writes bytes as they are, and keeps all bytes it gets. */
export async function openClient(port: number) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  let text = ''
  let isClosed = false
  socket.on('data', (bytes: Buffer) => {
    text += bytes.toString('latin1')
  })
  socket.on('error', () => {})
  const closed = new Promise<void>(resolve =>
    socket.on('close', () => {
      isClosed = true
      resolve()
    }),
  )
  await once(socket, 'connect')
  return { socket, closed, isClosed: () => isClosed, text: () => text }
}

export const post = (body: string, { path = '/v1/x', headers = '' } = {}) =>
  `POST ${path} HTTP/1.1\r\nHost: gateway\r\n${headers}Content-Length: ${Buffer.byteLength(body, 'latin1')}\r\n\r\n${body}`
