import type { IncomingMessage, ServerResponse } from 'node:http'

/** The size and the time up to which an unread body is still read after the response. */
export const UNREAD_BYTES = 64 * 1024
export const LINGER_MS = 1_000

/** Node.js reads an unread body to its end, however long. That is acceptable for small bodies only. */
const isLarge = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > UNREAD_BYTES

/**
 * Closes the connection after a response that was sent before the request body was read. The socket lingers for a moment:
 * closing it with unread bytes would send a reset, and the client could lose the response.
 */
export function closeUnread(request: IncomingMessage, response: ServerResponse): void {
  if (!isLarge(request)) return
  // `continueWhenRead` in server.ts handles clients that wait for `100 Continue`.
  if (request.headers.expect === undefined) keepAliveIfRead(request, response)
  response.prependOnceListener('finish', () => {
    if (!request.complete) linger(request)
  })
}

function keepAliveIfRead(request: IncomingMessage, response: ServerResponse): void {
  const { shouldKeepAlive } = response
  response.shouldKeepAlive = false
  request.once('end', () => {
    if (!response.headersSent) response.shouldKeepAlive = shouldKeepAlive
  })
}

function linger(request: IncomingMessage): void {
  const { socket } = request
  let unread = 0
  // Node.js calls this next. Its own implementation would close the socket at once.
  socket.destroySoon = () => socket.end()
  request.on('data', (chunk: Buffer) => {
    unread += chunk.length
    if (unread > UNREAD_BYTES) request.pause()
  })
  request.resume()
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}
