import type { IncomingMessage, ServerResponse } from 'node:http'

/** Of a body that was answered before it was read, so much is still read, and for so long. */
const UNREAD_BYTES = 64 * 1024
const LINGER_MS = 1_000

/** Node.js reads such a body to its end, however long it is. Bodies up to this size are left to it. */
const isLarge = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > UNREAD_BYTES

/**
 * Closes the connection of a client whose request was answered before its body was read: the rest of the body is not
 * read. The socket is not closed at once: unread bytes would make that a reset, and the answer would be lost with it.
 */
export function closeUnread(request: IncomingMessage, response: ServerResponse): void {
  if (!isLarge(request)) return
  // A client that waits to be told to go on is kept only if it was told (server.ts).
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
  // What Node.js would do next is to close it at once.
  socket.destroySoon = () => socket.end()
  request.on('data', (chunk: Buffer) => {
    unread += chunk.length
    if (unread > UNREAD_BYTES) request.pause()
  })
  request.resume()
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}
