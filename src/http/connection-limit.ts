import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/** Room beyond the bound in which those who come can still be told that there is none. */
const TELLING_SHARE = 0.2

/**
 * Who came when the house was full. Up to `most` connections everybody is served; beyond it new connections are told
 * so, and those who are there already go on undisturbed; beyond the share for telling, they are dropped.
 */
export function createConnectionLimit(most: number) {
  const late = new WeakSet<Socket>()
  let open = 0
  return {
    watch(server: Server): void {
      server.maxConnections = most + Math.ceil(most * TELLING_SHARE)
      server.on('connection', socket => {
        open += 1
        if (open > most) late.add(socket)
        socket.once('close', () => {
          open -= 1
        })
      })
    },
    /** Whether this request came over one connection too many, and there still are too many. */
    isBeyond: ({ socket }: IncomingMessage) => open > most && late.has(socket),
  }
}

export type ConnectionLimit = ReturnType<typeof createConnectionLimit>
