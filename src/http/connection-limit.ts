import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { RelayIncoming } from './relay-exchange.ts'

/** Connections above the limit, as a share of it, that still get a 503 instead of being dropped. */
const REFUSAL_SHARE = 0.2

/**
 * Tracks connections that were opened above the limit. Their requests are refused with 503, while earlier connections are
 * still served. Above the refusal share, new connections are dropped.
 */
export function createConnectionLimit(max: number) {
  const socketsAboveLimit = new WeakSet<Socket>()
  let open = 0
  return {
    watch(server: Server): void {
      server.maxConnections = max + Math.ceil(max * REFUSAL_SHARE)
      server.on('connection', socket => {
        open += 1
        if (open > max) socketsAboveLimit.add(socket)
        socket.once('close', () => {
          open -= 1
        })
      })
    },
    open: () => open,
    /** Whether this request came over a connection above the limit, and the limit is still exceeded. */
    exceedsLimit: ({ socket }: RelayIncoming) => open > max && socketsAboveLimit.has(socket),
  }
}

export type ConnectionLimit = ReturnType<typeof createConnectionLimit>
