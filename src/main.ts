#!/usr/bin/env node
import type { AddressInfo } from 'node:net'
import { stdout } from 'node:process'
import { buildServer, openGround, operationsOf } from './build.ts'
import { EXIT, runCli, type StartOptions } from './cli/cli.ts'
import { callControl, serveControl, socketPath } from './cli/control.ts'
import type { Operations } from './cli/operations.ts'
import { type Config, readConfig, SettingError } from './config.ts'
import { createDemo } from './demo.ts'
import { createLog } from './log.ts'
import { DirectoryInUseError } from './store/lock.ts'
import { SqliteError } from './store/sqlite.ts'
import { NewerStoreError } from './store/store.ts'
import { version } from './version.ts'

/** The longest path that every system lets a socket have. */
const MAX_SOCKET_PATH = 103

// Databases, journals and sockets are made by libraries that ask for nothing better than the process allows.
process.umask(0o077)

const print = (line: string) => void stdout.write(`${line}\n`)
const printError = (line: string) => void process.stderr.write(`${line}\n`)

function configOf({ port, host, data }: Pick<StartOptions, 'port' | 'host' | 'data'>): Config {
  const given = {
    ...(port === undefined ? {} : { PORT: port }),
    ...(host === undefined ? {} : { HOST: host }),
    ...(data === undefined ? {} : { SLUICE_DATA: data }),
  }
  const config = readConfig({ ...process.env, ...given })
  if (Buffer.byteLength(socketPath(config.dataDir)) > MAX_SOCKET_PATH)
    throw new SettingError(
      'SLUICE_DATA',
      `${config.dataDir} is too long for the socket that is to stand in it; ${MAX_SOCKET_PATH} characters are the most`,
    )
  return config
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
  // Read before anything is made, so that a wrong setting leaves no trace.
  const given = configOf(options)
  const isKept = Boolean(options.data ?? process.env.SLUICE_DATA)
  const demo = isDemo ? createDemo(isKept ? given.dataDir : undefined) : undefined
  if (demo) process.once('exit', demo.close)
  const config = { ...given, dataDir: demo?.dataDir ?? given.dataDir }
  // A demo's words are for a person: the lines of its own set-up would bury them.
  const level = isDemo && !process.env.SLUICE_LOG ? 'warn' : config.logLevel
  const log = createLog(level, stdout.isTTY)
  const ground = await openGround(config)
  const rootPassword = ground.printed?.rootPassword
  // Before anything else that can fail: it is not told a second time.
  if (rootPassword && !demo)
    print(`\n  The user root was made. Its password, shown this once:  ${rootPassword}\n`)
  const server = await buildServer(config, log, ground)
  const operations = operationsOf(config, ground, server.announce)
  const control = await serveControl(config.dataDir, operations)
  const signalled = untilSignalled()
  const port = await server.listen()
  const address = `http://${config.host.includes(':') ? `[${config.host}]` : config.host}:${port}${config.basePath}`

  if (demo) await demo.furnish({ address, operations, rootPassword, print })
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
  demo?.close()
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
  const ground = await openGround(config, { mustExist: true })
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
  if (error instanceof SqliteError)
    return { code: EXIT.failed, message: `the database in SLUICE_DATA cannot be used (${error.message})` }
  const { code, syscall, port, address, message } = error as NodeJS.ErrnoException & Partial<AddressInfo>
  if (code === 'EADDRINUSE')
    return { code: EXIT.config, message: `PORT: ${address}:${port} is taken by another program` }
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return { code: EXIT.config, message: 'HOST: this machine has no such address' }
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS' || code === 'ENOSPC')
    return { code: EXIT.config, message: `${syscall === 'listen' ? 'PORT' : 'SLUICE_DATA'}: ${message}` }
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
