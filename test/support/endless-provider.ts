import { once } from 'node:events'
import { createServer, type OutgoingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { until } from './process.ts'

export type EndlessResponse = {
  readonly status?: number
  readonly headers: OutgoingHttpHeaders
  /** Sent once. */
  readonly start?: string | Buffer
  /** Sent again and again. */
  readonly piece: Buffer
}

/** So many equal figures in a row mean that no more is sent. */
const STILL_LOOKS = 5

/** A provider that answers each request without end, as fast as its client reads. */
export async function startEndlessProvider({ status = 200, headers, start, piece }: EndlessResponse) {
  let pieces = 0
  const closed = Promise.withResolvers<number>()
  function send(response: ServerResponse): void {
    let isFlowing = true
    while (isFlowing && !response.destroyed) {
      isFlowing = response.write(piece)
      pieces += 1
    }
    response.once('drain', () => send(response))
  }
  const server = createServer((request, response) => {
    const { socket } = request
    request.resume()
    socket.on('error', () => {}).once('close', () => closed.resolve(socket.bytesWritten))
    response.writeHead(status, headers)
    if (start !== undefined) response.write(start)
    send(response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Including those that wait in its socket. */
    pieces: () => pieces,
    /** How many bytes it had sent when its client closed the connection. */
    untilClosed: () => closed.promise,
    /** It has sent something, and its client reads no more. */
    async untilStill(): Promise<void> {
      const looks: number[] = []
      await until('the client to stop reading', () => {
        looks.push(pieces)
        const last = looks.slice(-STILL_LOOKS)
        return pieces > 0 && last.length === STILL_LOOKS && last.every(look => look === pieces)
          ? true
          : undefined
      })
    },
    close(): void {
      server.close()
      server.closeAllConnections()
    },
  }
}
