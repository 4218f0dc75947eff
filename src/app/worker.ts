import { EXIT } from '../cli/cli.ts'
import { joinSupervisor } from '../workers/peers.ts'
import type { Config } from './config.ts'
import { buildServer, openStoreAndKeys } from './gateway.ts'
import { createLog, endLog } from './log.ts'

/** One of several workers: serves what its supervisor's port takes in, until it is told to stop. */
export async function serveAsWorker(config: Config): Promise<number> {
  const stopped = Promise.withResolvers<void>()
  // An interrupt from the terminal reaches every process of the group.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stopped.resolve())
  const peers = await joinSupervisor(stopped.resolve)
  const log = createLog(config.logLevel).child({ worker: peers.assignment.slot })
  const ground = await openStoreAndKeys(config, { isLocked: true })
  const server = await buildServer(config, log, ground, peers)
  await server.listen()
  await peers.ready()
  await stopped.promise
  await server.stop()
  await ground.close()
  await endLog(log)
  process.disconnect?.()
  return EXIT.ok
}
