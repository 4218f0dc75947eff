#!/usr/bin/env node
import { stdout } from 'node:process'
import { buildServer, openGround, operationsOf } from './build.ts'
import { EXIT, runCli, type StartOptions } from './cli/cli.ts'
import { callControl, serveControl } from './cli/control.ts'
import type { Operations } from './cli/operations.ts'
import { type Config, readConfig, SettingError } from './config.ts'
import { createDemo } from './demo.ts'
import { createLog } from './log.ts'
import { DirectoryInUseError } from './store/lock.ts'
import { NewerStoreError } from './store/store.ts'
import { version } from './version.ts'

const print = (line: string) => void stdout.write(`${line}\n`)
const printError = (line: string) => void process.stderr.write(`${line}\n`)

function configOf({ port, host, data }: Pick<StartOptions, 'port' | 'host' | 'data'>): Config {
  const given = {
    ...(port === undefined ? {} : { PORT: port }),
    ...(host === undefined ? {} : { HOST: host }),
    ...(data === undefined ? {} : { SLUICE_DATA: data }),
  }
  return readConfig({ ...process.env, ...given })
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

async function start({ demo: isDemo, ...options }: StartOptions): Promise<number> {
  const demo = isDemo ? createDemo(process.env) : undefined
  const config = configOf({ ...options, data: options.data ?? demo?.dataDir })
  const log = createLog(config.logLevel, stdout.isTTY)
  const ground = await openGround(config)
  const server = await buildServer(config, log, ground)
  const control = await serveControl(config.dataDir, operationsOf(config, ground))
  const signalled = untilSignalled()
  const port = await server.listen()
  const address = `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}${config.basePath}`

  if (demo) await demo.furnish({ address, ground, print })
  else if (ground.printed)
    print(`\n  The user root was made. Its password, shown this once:  ${ground.printed.rootPassword}\n`)
  log.info({ address, version, engine: ground.store.engine }, 'sluice is ready')
  if (config.databaseUrl !== undefined && config.keyring === undefined)
    log.warn('the secret lives in SLUICE_DATA; every node of a fleet needs the same SLUICE_SECRET')

  const signal = await signalled
  log.info({ signal, drain_s: config.drainS }, 'stopping: no new connections, running requests finish')
  await server.stop()
  control.close()
  await ground.close()
  await demo?.close()
  log.info('stopped')
  return EXIT.ok
}

async function operate<Name extends keyof Operations>(
  name: Name,
  input: Parameters<Operations[Name]>[0],
  data: string | undefined,
): Promise<Awaited<ReturnType<Operations[Name]>>> {
  type Result = Awaited<ReturnType<Operations[Name]>>
  const config = configOf({ data })
  const answered = await callControl(config.dataDir, name, input ?? {})
  if (answered) return answered.result as Result
  const ground = await openGround(config)
  try {
    const operation = operationsOf(config, ground)[name] as (input: unknown) => Promise<Result>
    return await operation(input)
  } finally {
    await ground.close()
  }
}

try {
  process.exitCode = await runCli(process.argv.slice(2), { version, start, operate, print, printError })
} catch (error) {
  if (error instanceof SettingError) {
    printError(`sluice: ${error.message}`)
    process.exitCode = EXIT.config
  } else if (error instanceof DirectoryInUseError || error instanceof NewerStoreError) {
    printError(`sluice: ${error.message}`)
    process.exitCode = EXIT.failed
  } else {
    printError(`sluice: ${(error as Error).stack}`)
    process.exitCode = EXIT.failed
  }
}
