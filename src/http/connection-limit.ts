import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/** Connections above the limit, as a share of it, that still get a 503 instead of being dropped. */
const REFUSAL_SHARE = 0.2

/**
 * Tracks connections opened above the limit. Up to `max` connections all requests are served. Requests of connections
 * opened above it are refused with 503, while earlier connections are served on. Above the refusal share, connections are
 * dropped.
 */
export function createConnectionLimit(max: number) {
  const late = new WeakSet<Socket>()
  let open = 0
  return {
    watch(server: Server): void {
      server.maxConnections = max + Math.ceil(max * REFUSAL_SHARE)
      server.on('connection', socket => {
        open += 1
        if (open > max) late.add(socket)
        socket.once('close', () => {
          open -= 1
        })
      })
    },
    /** Whether this request came over a connection above the limit, and the limit is still exceeded. */
    isBeyond: ({ socket }: IncomingMessage) => open > max && late.has(socket),
  }
}

export type ConnectionLimit = ReturnType<typeof createConnectionLimit>
