import type { Logger } from 'pino'
import { EXIT, type StartOptions } from '../cli/cli.ts'
import { serveControl } from '../cli/control.ts'
import { createConsoleFiles } from '../host/console-files.ts'
import { mismatches, readMachine } from '../host/machine.ts'
import { version } from '../host/version.ts'
import { claimPort } from '../http/server.ts'
import type { Config } from './config.ts'
import { createDemo } from './demo/demo.ts'
import { warnOfPublicHost } from './exposure.ts'
import { buildServer, openStoreAndKeys, operationsOf, type StoreAndKeys } from './gateway.ts'
import { createLog, endLog } from './log.ts'
import { startWorkers } from './supervise.ts'

type Serving = {
  /** Read before anything is made, so that a wrong setting leaves no trace. */
  readonly given: Config
  readonly options: StartOptions
  readonly env: Readonly<Record<string, string | undefined>>
  print(line: string): void
}

/** Resolves at the first signal; a second one ends the process at once, and loses nothing: every write is whole. */
const untilSignalled = () =>
  new Promise<NodeJS.Signals>(resolve => {
    let count = 0
    for (const signal of ['SIGTERM', 'SIGINT'] as const)
      process.on(signal, () => {
        count += 1
        if (count > 1) process.exit(EXIT.ok)
        resolve(signal)
      })
  })

/** A gateway in this process, or in several of its own. */
type Gateway = {
  announce(targets: readonly string[]): Promise<void>
  /** The port, once everybody listens. */
  listen(): Promise<number>
  stop(): Promise<void>
}

const serveHere = (config: Config, log: Logger, ground: StoreAndKeys): Promise<Gateway> =>
  buildServer(config, log, ground)

async function serveByWorkers(config: Config, log: Logger): Promise<Gateway> {
  const port = await claimPort(config.port, config.host)
  const supervisor = startWorkers(config, port, log)
  return {
    announce: targets => supervisor.broadcast({ name: 'news', input: targets }),
    listen: () => supervisor.ready.then(() => port),
    stop: supervisor.stop,
  }
}

/** Starts the gateway, serves until it is told to stop, and answers the exit code. */
export async function serve({ given, options, env, print }: Serving): Promise<number> {
  const isDemo = options.demo
  const isKept = Boolean(options.data ?? env.SLUICE_DATA)
  const demo = isDemo ? createDemo(isKept ? given.dataDir : undefined) : undefined
  if (demo) process.once('exit', demo.close)
  const config = { ...given, dataDir: demo?.dataDir ?? given.dataDir }
  // A demo's words are for a person: the lines of its own set-up would bury them.
  const level = isDemo && !env.SLUICE_LOG ? 'warn' : config.logLevel
  const log = createLog(level)
  const ground = await openStoreAndKeys(config)
  const rootPassword = ground.printed?.rootPassword
  // Before anything else that can fail: it is not told a second time.
  if (rootPassword && !demo)
    print(`\n  The user root was made. Its password, shown this once:  ${rootPassword}\n`)
  const gateway = await (config.workers === 1 ? serveHere(config, log, ground) : serveByWorkers(config, log))
  const operations = operationsOf(config, ground, gateway.announce)
  const control = await serveControl(config.dataDir, operations)
  const signalled = untilSignalled()
  const port = await gateway.listen()
  const consoleFiles = createConsoleFiles(log)
  void consoleFiles.prepare()
  const address = `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}${config.basePath}`

  if (demo) {
    const { store } = ground
    const { announce } = gateway
    await demo.furnish({ address, operations, rootPassword, store, announce, print })
  }
  log.info({ address, version, engine: ground.store.engine, workers: config.workers }, 'sluice is ready')
  warnOfPublicHost(log, config)
  for (const mismatch of mismatches(config, readMachine(config.dataDir))) log.warn(mismatch)
  if (config.databaseUrl !== undefined && config.keyring === undefined)
    log.warn('the secret lives in SLUICE_DATA; every node of a fleet needs the same SLUICE_SECRET')

  const signal = await signalled
  log.info({ signal, drain_s: config.drainS }, 'stopping: no new connections, running requests finish')
  consoleFiles.close()
  await gateway.stop()
  control.close()
  await ground.close()
  demo?.close()
  log.info('stopped')
  await endLog(log)
  return EXIT.ok
}
