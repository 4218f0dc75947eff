import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports that Linux, macOS and Windows give to connections and to servers that listen on port 0. */
const FIRST_PORT = 10_000
const LAST_PORT = 32_767

const earlierPorts = new Set<number>()

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}

/**
 * A port that a server of a test can use, and use again after a restart:
 * nobody who asks the system for any port is given it in between.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT + 1))
    if (earlierPorts.has(port)) continue
    earlierPorts.add(port)
    if (await isFree(port)) return port
  }
}
