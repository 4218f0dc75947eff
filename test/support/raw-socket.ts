import { connect, type Socket } from 'node:net'
import { ROOT_TOKEN } from './gateway.ts'
import { until } from './process.ts'

/** A connection on which a test writes requests by hand. */
export async function openSocket(port: number) {
  const socket: Socket = connect(port, '127.0.0.1')
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  // A server that ends immediately resets its connections.
  socket.on('error', () => {})
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
  await new Promise<void>(resolve => socket.once('connect', resolve))
  return {
    write: (bytes: string) => void socket.write(bytes),
    text: () => text,
    closed,
    has: (part: string) => until(part, () => (text.includes(part) ? true : undefined)),
    destroy: () => socket.destroy(),
  }
}

/** A request with half of its body: it runs until the other half is written. */
export async function openRequest(port: number, body: string) {
  const socket = await openSocket(port)
  socket.write(
    `POST /api/token/ HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer ${ROOT_TOKEN}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\nexpect: 100-continue\r\n\r\n`,
  )
  await socket.has('100 Continue')
  socket.write(body.slice(0, 5))
  return { ...socket, finish: (more = '') => socket.write(body.slice(5) + more) }
}
