import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { openCountFile } from './count.ts'
import { createService, type ServiceOptions } from './service.ts'

export type SimulatorOptions = ServiceOptions & {
  readonly port?: number
  readonly host?: string
  readonly countFile?: string
}

export type Simulator = { readonly url: string; readonly port: number; close(): Promise<void> }

/** Starts the simulator. Closing it cuts running answers and counts them as unfinished. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const { port = 0, host = '127.0.0.1' } = options
  const count = openCountFile(options.countFile)
  const serve = createService(options, count)
  const running = new Set<Promise<void>>()
  const server = createServer((request, response) => {
    const served = serve(request, response).finally(() => running.delete(served))
    running.add(served)
  })
  // Longer than any client keeps an idle connection, so that the simulator never closes first.
  server.keepAliveTimeout = 120_000
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (error) {
    count.close()
    throw error
  }
  const address = server.address() as AddressInfo
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address
  async function shut(): Promise<void> {
    const closed = new Promise(resolve => server.close(resolve))
    server.closeAllConnections()
    await closed
    await Promise.all(running)
    count.close()
  }
  let shutting: Promise<void> | undefined
  function close(): Promise<void> {
    shutting ??= shut()
    return shutting
  }
  return { url: `http://${name}:${address.port}`, port: address.port, close }
}
