import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type TlsOptions } from 'node:tls'

/** A connection as its server sees it. */
export type RawConnection = {
  readonly socket: Socket
  /** The number of this connection, from 0. */
  readonly index: number
  /** The next complete request: its head, and its body by content-length. Undefined: the client closed the connection. */
  request(): Promise<{ readonly head: string; readonly body: string } | undefined>
}

const lengthIn = (head: string) => Number(/\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1] ?? 0)

function readRequests(socket: Socket, index: number): RawConnection {
  let text = ''
  let isOver = false
  let wake: (() => void) | undefined
  const end = () => {
    isOver = true
    wake?.()
  }
  socket
    .on('data', data => {
      text += data.toString('latin1')
      wake?.()
    })
    .on('error', () => {})
    .on('end', end)
    .on('close', end)
  return {
    socket,
    index,
    async request() {
      for (;;) {
        const bodyStart = text.indexOf('\r\n\r\n') + 4
        const end = bodyStart + lengthIn(text.slice(0, bodyStart))
        if (bodyStart >= 4 && text.length >= end) {
          const request = { head: text.slice(0, bodyStart), body: text.slice(bodyStart, end) }
          text = text.slice(end)
          return request
        }
        if (isOver) return undefined
        await new Promise<void>(resolve => {
          wake = resolve
        })
      }
    },
  }
}

/** A server that writes bytes as a test scripts them: `serve` is called for every connection. */
export async function startRawServer(
  serve: (connection: RawConnection) => Promise<unknown> | unknown,
  tls?: TlsOptions,
) {
  const sockets = new Set<Socket>()
  let opened = 0
  const accept = (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.setNoDelay(true)
    void serve(readRequests(socket, opened++))
  }
  const server: Server = tls ? createTlsServer(tls, accept) : createServer(accept)
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    /** How many connections were opened so far, and how many are open. */
    opened: () => opened,
    open: () => sockets.size,
    async close(): Promise<void> {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

export type RawServer = Awaited<ReturnType<typeof startRawServer>>
