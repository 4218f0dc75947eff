import type { Logger } from 'pino'
import type { StartOptions } from '../cli/cli.ts'
import { EXIT } from '../cli/command-line.ts'
import { serveControl } from '../cli/control.ts'
import type { AccountId } from '../domain/account.ts'
import { createConsoleFiles } from '../host/console-files.ts'
import { mismatches, readMachine } from '../host/machine.ts'
import { version } from '../host/version.ts'
import { claimPort } from '../http/server.ts'
import { anchorIn, type Config } from './config.ts'
import { createDemo } from './demo/demo.ts'
import type { OtherNodesOfDemo } from './demo/fleet.ts'
import { warnOfPublicHost } from './exposure.ts'
import { buildServer } from './gateway.ts'
import { createLog, endLog } from './log.ts'
import { watchStopSignals } from './stop-signals.ts'
import { openStoreAndKeys, type StoreAndKeys } from './store-and-keys.ts'
import { startWorkers } from './supervise.ts'

type Serving = {
  /** Read before any file is created: an invalid setting changes nothing on disk. */
  readonly settings: Config
  readonly options: StartOptions
  readonly env: Readonly<Record<string, string | undefined>>
  print(line: string): void
  /** The further nodes of a demo. */
  readonly others?: OtherNodesOfDemo | undefined
}

/** A gateway in this process, or in several worker processes. */
type Gateway = {
  announce(targets: readonly string[]): Promise<unknown>
  flushAndReturn(account: AccountId): Promise<void>
  reloadSecret?(): Promise<void>
  /** Resolves to the port when all workers listen. */
  listen(): Promise<number>
  startDraining(): void
  stop(): Promise<void>
}

const serveHere = (config: Config, log: Logger, storeAndKeys: StoreAndKeys): Promise<Gateway> =>
  buildServer(config, log, storeAndKeys)

async function serveByWorkers(config: Config, log: Logger, { store }: StoreAndKeys): Promise<Gateway> {
  const port = await claimPort(config.port, config.host)
  const supervisor = await startWorkers({ config, port, log, db: store.db })
  return {
    announce: targets => supervisor.broadcast({ name: 'invalidate', input: targets }),
    flushAndReturn: account => supervisor.broadcast({ name: 'flushAndReturn', input: account }),
    reloadSecret: () => supervisor.broadcast({ name: 'reloadSecret', input: null }),
    listen: () => supervisor.ready.then(() => port),
    startDraining: supervisor.startDraining,
    stop: supervisor.stop,
  }
}

/** The address at which this machine reaches a server that listens on `host`. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

/** Runs the gateway until a signal stops it. Returns the exit code. */
export async function serve({ settings, options, env, print, others }: Serving): Promise<number> {
  const isDemo = options.demo
  const isPersistent = Boolean(options.data ?? env.SLUICE_DATA)
  const demo = isDemo ? createDemo(isPersistent ? settings.dataDir : undefined) : undefined
  if (demo) process.once('exit', demo.close)
  // The demo calls its own address, which a certificate does not name.
  const tls = demo ? undefined : settings.tls
  const dataDir = demo?.dataDir ?? settings.dataDir
  // Anchors of a temporary ledger must not be in a data directory of a real gateway: `sluice verify` would report them there.
  const anchor = demo && !isPersistent && !env.SLUICE_ANCHOR ? anchorIn(dataDir) : settings.anchor
  const config = { ...settings, dataDir, anchor, tls }
  const scheme = tls === undefined ? 'http' : 'https'
  // At level info, the log of the demo's set-up would hide the text that the demo prints.
  const level = isDemo && !env.SLUICE_LOG ? 'warn' : config.logLevel
  const log = createLog(level, config.logFormat)
  const storeAndKeys = await openStoreAndKeys(config)
  const { rootPassword } = storeAndKeys
  // Printed before any step that can fail, because the password cannot be shown again.
  if (rootPassword && !demo)
    print(
      config.logFormat === 'json'
        ? JSON.stringify({
            level: 'info',
            msg: 'Created the user root.',
            username: 'root',
            password: rootPassword,
          })
        : `\n  Created the user root. Password (shown only once):  ${rootPassword}\n`,
    )
  const gateway = await (config.workers === 1
    ? serveHere(config, log, storeAndKeys)
    : serveByWorkers(config, log, storeAndKeys))
  let ownAddress: string | undefined
  const loadCommands = async () => {
    const { operationsOf } = await import('./operations.ts')
    const { createCommandRunner } = await import('./command-runner.ts')
    const operations = operationsOf(config, storeAndKeys, {
      announce: gateway.announce,
      flushAndReturn: gateway.flushAndReturn,
      reloadSecret: gateway.reloadSecret,
      address: () => ownAddress,
    })
    return { operations, run: createCommandRunner(storeAndKeys.store, operations) }
  }
  const control = await serveControl(config.dataDir, loadCommands)
  // A third signal, or a second one without a drain delay, ends the process at once. No data is lost, because every write is
  // atomic.
  const signals = watchStopSignals(() => process.exit(EXIT.ok))
  const port = await gateway.listen()
  ownAddress = `${scheme}://${reachable(config.host)}:${port}${config.basePath}`
  const consoleFiles = createConsoleFiles(log)
  void consoleFiles.prepare()
  const address = `${scheme}://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}${config.basePath}`

  if (demo) {
    const { store } = storeAndKeys
    const { announce } = gateway
    const { operations } = await loadCommands()
    await demo.setUp({ address, operations, rootPassword, store, announce, print })
    await others?.start()
  }
  log.info(
    { address, version, engine: storeAndKeys.store.engine, workers: config.workers },
    'Sluice is ready.',
  )
  warnOfPublicHost(log, config)
  for (const mismatch of mismatches(config, readMachine(config.dataDir))) log.warn(mismatch)
  if (config.databaseUrl !== undefined && config.keyring === undefined)
    log.warn(
      'The master secret is in SLUICE_DATA/secret. Gateways that share this database need the same SLUICE_SECRET.',
    )

  const signal = await signals.first
  await others?.stop()
  gateway.startDraining()
  if (config.drainDelayS > 0) {
    log.info(
      { signal, drain_delay_s: config.drainDelayS },
      'Draining: /readyz reports 503, and new requests are still served.',
    )
    await signals.delay(config.drainDelayS * 1000)
  }
  log.info(
    { signal, drain_s: config.drainS },
    'Shutting down: refusing new connections, finishing running requests.',
  )
  consoleFiles.close()
  await gateway.stop()
  control.close()
  await storeAndKeys.close()
  demo?.close()
  log.info('Sluice has stopped.')
  await endLog(log)
  return EXIT.ok
}
