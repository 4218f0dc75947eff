import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports that Linux, macOS and Windows give to connections and to servers that listen on port 0. */
const FIRST_PORT = 10_000
const LAST_PORT = 32_767
const HOST = '127.0.0.1'

/**
 * Reserves a port for this process until it ends: its UDP port is taken, which servers of tests do not use. Two processes that
 * draw the same TCP port at the same moment would both see that it is free, and one of their servers could not start.
 */
async function reserve(port: number): Promise<boolean> {
  const socket = createSocket('udp4').unref()
  try {
    socket.bind(port, HOST)
    await once(socket, 'listening')
    return true
  } catch {
    socket.close()
    return false
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    await once(server.listen(port, HOST), 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}

/**
 * A port that a server of a test can use, and use again after a restart: no other test draws it, and the system gives it to nobody
 * who asks for any port.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT + 1))
    if ((await reserve(port)) && (await isFree(port))) return port
  }
}
