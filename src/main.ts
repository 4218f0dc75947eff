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
  const demo = isDemo ? createDemo(options.data ?? process.env.SLUICE_DATA) : undefined
  const config = configOf({ ...options, data: demo?.dataDir ?? options.data })
  const log = createLog(config.logLevel, stdout.isTTY)
  const ground = await openGround(config)
  const server = await buildServer(config, log, ground)
  const operations = operationsOf(config, ground)
  const control = await serveControl(config.dataDir, operations)
  const signalled = untilSignalled()
  const port = await server.listen()
  const address = `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}${config.basePath}`

  const rootPassword = ground.printed?.rootPassword
  if (demo) await demo.furnish({ address, operations, rootPassword, print })
  else if (rootPassword)
    print(`\n  The user root was made. Its password, shown this once:  ${rootPassword}\n`)
  log.info({ address, version, engine: ground.store.engine }, 'sluice is ready')
  if (config.databaseUrl !== undefined && config.keyring === undefined)
    log.warn('the secret lives in SLUICE_DATA; every node of a fleet needs the same SLUICE_SECRET')
  if (config.workers > 1)
    log.warn('SLUICE_WORKERS counts relay processes, and this version has no relay: one process serves')

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

/** Mistakes of the operator are told in one sentence; only faults of ours show where they happened. */
function explain(error: unknown): { code: number; message: string } {
  if (error instanceof SettingError) return { code: EXIT.config, message: error.message }
  if (error instanceof DirectoryInUseError || error instanceof NewerStoreError)
    return { code: EXIT.failed, message: error.message }
  const { code, port, address } = error as NodeJS.ErrnoException & { port?: number; address?: string }
  if (code === 'EADDRINUSE')
    return { code: EXIT.config, message: `PORT: ${address}:${port} is taken by another program` }
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return { code: EXIT.config, message: 'HOST: this machine has no such address' }
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return { code: EXIT.config, message: `SLUICE_DATA or PORT: not permitted (${(error as Error).message})` }
  if (code === 'ECONNREFUSED' || code === '28P01' || code === '3D000')
    return {
      code: EXIT.config,
      message: `DATABASE_URL: PostgreSQL cannot be used (${(error as Error).message})`,
    }
  return { code: EXIT.failed, message: (error as Error).stack ?? String(error) }
}

try {
  process.exitCode = await runCli(process.argv.slice(2), { version, start, operate, print, printError })
} catch (error) {
  const { code, message } = explain(error)
  printError(`sluice: ${message}`)
  // Threads and servers that were built before the fault must not keep the process alive.
  process.exit(code)
}
