import { EXIT } from '../cli/cli.ts'
import { joinSupervisor } from '../workers/peers.ts'
import type { Config } from './config.ts'
import { buildServer } from './gateway.ts'
import { createLog, endLog } from './log.ts'
import { openStoreAndKeys } from './store-and-keys.ts'

/** One of several workers: serves requests until its supervisor stops it. */
export async function serveAsWorker(config: Config): Promise<number> {
  const stopped = Promise.withResolvers<void>()
  // Ctrl-C in a terminal reaches every process of the group.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stopped.resolve())
  const peers = await joinSupervisor(stopped.resolve)
  const log = createLog(config.logLevel).child({ worker: peers.assignment.slot })
  const storeAndKeys = await openStoreAndKeys(config, { isLocked: true })
  const server = await buildServer(config, log, storeAndKeys, peers)
  await server.listen()
  await peers.ready()
  await stopped.promise
  await server.stop()
  await storeAndKeys.close()
  await endLog(log)
  process.disconnect?.()
  return EXIT.ok
}
