import { EXIT } from '../cli/command-line.ts'
import { joinSupervisor } from '../workers/peers.ts'
import type { Config } from './config.ts'
import { buildServer } from './gateway.ts'
import { createLog, endLog } from './log.ts'
import { watchStopSignals } from './stop-signals.ts'
import { openStoreAndKeys } from './store-and-keys.ts'

/** One of several workers: serves requests until its supervisor stops it. */
export async function serveAsWorker(config: Config): Promise<number> {
  const draining = Promise.withResolvers<void>()
  const stopped = Promise.withResolvers<void>()
  // Ctrl-C in a terminal, and systemd, send a signal to every process of the group. The supervisor, which gets it too, ends
  // this process if it must end at once.
  const signals = watchStopSignals(() => {})
  signals.first.then(async () => {
    draining.resolve()
    if (config.drainDelayS > 0) await signals.delay(config.drainDelayS * 1000)
    stopped.resolve()
  })
  const peers = await joinSupervisor({ onDrain: draining.resolve, onStop: stopped.resolve })
  const log = createLog(config.logLevel, config.logFormat).child({ worker: peers.assignment.slot })
  const storeAndKeys = await openStoreAndKeys(config, { isLocked: true })
  const server = await buildServer(config, log, storeAndKeys, peers)
  draining.promise.then(server.startDraining)
  await server.listen()
  await peers.ready()
  await stopped.promise
  await server.stop()
  await storeAndKeys.close()
  await endLog(log)
  process.disconnect?.()
  return EXIT.ok
}
