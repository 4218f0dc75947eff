import type { IncomingMessage, ServerResponse } from 'node:http'

/** How much of an unread body is still read after the response, and for how long. */
const UNREAD_BYTES = 64 * 1024
const LINGER_MS = 1_000

/** Node.js reads an unread body to its end, of any length. Small bodies are left to it. */
const isLarge = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > UNREAD_BYTES

/**
 * Closes the connection after a response that was sent before the request body was read; the rest of the body is not read.
 * The socket lingers for a moment: closing it with unread bytes would be a reset, which loses the response.
 */
export function closeUnread(request: IncomingMessage, response: ServerResponse): void {
  if (!isLarge(request)) return
  // server.ts decides about clients that wait for `100 Continue`.
  if (request.headers.expect === undefined) keepIfRead(request, response)
  response.prependOnceListener('finish', () => {
    if (!request.complete) linger(request)
  })
}

function keepIfRead(request: IncomingMessage, response: ServerResponse): void {
  const { shouldKeepAlive } = response
  response.shouldKeepAlive = false
  request.once('end', () => {
    if (!response.headersSent) response.shouldKeepAlive = shouldKeepAlive
  })
}

function linger(request: IncomingMessage): void {
  const { socket } = request
  let unread = 0
  // Node.js would call this next and close the socket at once.
  socket.destroySoon = () => socket.end()
  request.on('data', (chunk: Buffer) => {
    unread += chunk.length
    if (unread > UNREAD_BYTES) request.pause()
  })
  request.resume()
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}
