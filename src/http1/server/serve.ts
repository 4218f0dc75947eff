import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import {
  type ConnectionServer,
  type Http1Connection,
  type Http1Limits,
  openConnection,
} from './connection.ts'
import { createDateLine } from './response-head.ts'

const CHECK_MS = 1_000

type Http1Options = Pick<ConnectionServer, 'route' | 'serve' | 'reasonOf'> & {
  readonly limits: Http1Limits
  nowMs(): number
}

/**
 * Serves requests in a narrow grammar itself, on the connections of a node:http server, and leaves all other connections to
 * node:http. Must be called before the server has listeners for connections of its own.
 */
export function serveHttp1(server: Server, options: Http1Options) {
  const [listener] = server.listeners('connection') as [(this: Server, socket: Socket) => void]
  server.off('connection', listener)
  const connections = new Set<Http1Connection>()
  let seconds = 0

  const connectionServer: ConnectionServer = {
    ...options,
    dateLine: createDateLine(options.nowMs),
    seconds: () => seconds,
    handOver(socket, bytes) {
      listener.call(server, socket)
      socket.unshift(bytes)
      // The connection may have been paused because of pipelined bytes.
      socket.resume()
    },
    onEnd: connection => connections.delete(connection),
  }
  server.on('connection', socket => connections.add(openConnection(socket, connectionServer)))
  const timer = setInterval(() => {
    seconds += 1
    for (const connection of connections) connection.check()
  }, CHECK_MS)
  timer.unref()
  server.once('close', () => clearInterval(timer))

  return {
    /** Closes the connections that wait for their next request, or have not begun their first one. */
    closeIdle(): void {
      for (const connection of connections)
        if (connection.isIdle() || connection.isUnused()) connection.destroy()
    },
    closeAll(): void {
      for (const connection of connections) connection.destroy()
    },
  }
}

export type Http1Server = ReturnType<typeof serveHttp1>
