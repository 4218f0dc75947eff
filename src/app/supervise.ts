import { fileURLToPath } from 'node:url'
import type { Logger } from 'pino'
import { programFile } from '../host/program-file.ts'
import { createProxyReports } from '../http/exposure.ts'
import { createThrottle } from '../identity/throttle.ts'
import { monotonicMs } from '../routing/clock.ts'
import { createRates, type Subject } from '../routing/rates.ts'
import { createRateServer } from '../routing/shared-rates.ts'
import { chainKeyOf } from '../store/books/chain-key.ts'
import { openListener } from '../store/engine/listener.ts'
import type { Db } from '../store/engine/store.ts'
import type { WorkerExit } from '../workers/messages.ts'
import { startSupervisor } from '../workers/supervisor.ts'
import type { Config } from './config.ts'
import { warnOfProxy } from './exposure.ts'
import { openMachineRates } from './fleet-rates.ts'
import { assignNodes } from './nodes.ts'

const MAX_EXITS = 100
const LISTEN_EVERY_MS = 1_000

type SuperviseDeps = {
  readonly config: Config
  readonly port: number
  readonly log: Logger
  readonly db: Db
}

/** Starts the workers, and counts rate limits and failed sign-ins for all of them together. */
export async function startWorkers({ config, port, log, db }: SuperviseDeps) {
  const assignments = assignNodes(config.dataDir, config.workers)
  const listener =
    config.databaseUrl === undefined ? undefined : openListener(config.databaseUrl, { key: chainKeyOf(db) })
  await listener?.open()
  // A connection that breaks is replaced by the next statement.
  const listening = setInterval(() => void listener?.open().catch(() => {}), LISTEN_EVERY_MS)
  listening.unref()
  const machine = assignments[0]?.machine ?? ''
  const machineRates = listener && openMachineRates({ db, listener, machine, log })
  const rates = machineRates ?? createRates({ nowMs: monotonicMs })
  const throttle = createThrottle(Date.now)
  const now = () => Math.floor(Date.now() / 1000)
  const proxies = createProxyReports(now, warnOfProxy(log))
  const exits: WorkerExit[] = []
  const supervisor = startSupervisor({
    program: fileURLToPath(programFile('main')),
    args: ['start'],
    env: {
      PORT: String(port),
      HOST: config.host,
      SLUICE_DATA: config.dataDir,
      SLUICE_LOG: log.level,
      SLUICE_LOG_FORMAT: config.logFormat,
    },
    assignments,
    drainMs: config.drainS * 1000,
    services() {
      const rateServer = createRateServer(rates)
      return {
        procedures: {
          admit: async ({ subjects, countedInput }) => rateServer.admit(subjects as Subject[], countedInput),
          leaveTicket: async id => rateServer.leave(id),
          endTicket: async ({ id, tokens }) => rateServer.end(id, tokens),
          attempt: async ({ account, address }) => throttle.attempt(account, address),
          succeed: ({ account, address }) => throttle.succeed(account, address),
          reportProxy: peer => proxies.report(peer),
          firstProxy: async () => proxies.first() ?? null,
          workerExits: async () => exits,
        },
        end: rateServer.close,
      }
    },
    onExit(slot, how) {
      log.error({ worker: slot, how }, 'A worker exited. Starting another one.')
      exits.push({ slot, how, time: now() })
      if (exits.length > MAX_EXITS) exits.shift()
    },
  })
  return {
    ...supervisor,
    async stop(): Promise<void> {
      await supervisor.stop()
      clearInterval(listening)
      await machineRates?.close()
      await listener?.close()
    },
  }
}
