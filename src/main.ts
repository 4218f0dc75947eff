#!/usr/bin/env node
import cluster from 'node:cluster'
import { enableCompileCache } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { type Config, readConfig, SettingError, settingsHelp } from './app/config.ts'
import type { OtherNodesOfDemo } from './app/demo/fleet.ts'
import { runCli, type StartOptions } from './cli/cli.ts'
import type { Report } from './cli/command.ts'
import { EXIT } from './cli/command-line.ts'
import { type CommandOutcome, callControl, socketPath } from './cli/control.ts'
import type { Operations } from './cli/operations.ts'
import { makeDirectory } from './host/directory.ts'
import { version } from './host/version.ts'
import { WorkerStartError } from './workers/supervisor.ts'

type Env = Readonly<Record<string, string | undefined>>

/** The maximum length of a socket path on every system. */
const MAX_SOCKET_PATH = 103

// Libraries create databases, journals and sockets with the default mode, so the umask restricts them to the owner.
process.umask(0o077)

/** A reader that stops early (`sluice verify | head`) does not change the exit code. */
function onOutputError(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') return
  printError(`sluice: stdout: ${error.message}`)
  process.exit(EXIT.failed)
}

function print(line: string): void {
  if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', onOutputError)
  process.stdout.write(`${line}\n`)
}
const printError = (line: string) => void process.stderr.write(`${line}\n`)

function configOf({ port, host, data, json }: Partial<StartOptions>, env: Env = process.env): Config {
  const overrides = {
    ...(json ? { SLUICE_LOG_FORMAT: 'json' } : {}),
    ...(port === undefined ? {} : { PORT: port }),
    ...(host === undefined ? {} : { HOST: host }),
    ...(data === undefined ? {} : { SLUICE_DATA: data }),
  }
  const config = readConfig({ ...env, ...overrides })
  if (Buffer.byteLength(socketPath(config.dataDir)) > MAX_SOCKET_PATH)
    throw new SettingError(
      'SLUICE_DATA',
      `is too long for the control socket in it (${config.dataDir}); the maximum is ${MAX_SOCKET_PATH} characters`,
    )
  return config
}

/**
 * Caches compiled code in the data directory, where no other user can write. The next start is faster, and threads and
 * workers, which read the variable, need no compiler in memory. A value set by the operator is kept.
 */
function cacheCompiledCode(dataDir: string): void {
  try {
    makeDirectory(dataDir)
  } catch {
    // The code that needs the directory reports what is wrong with it.
    return
  }
  process.env.NODE_COMPILE_CACHE ??= join(dataDir, 'compiled')
  enableCompileCache(process.env.NODE_COMPILE_CACHE)
}

/** Three weeks, which disables the memory reducer in practice. */
const IDLE_COLLECTION_MS = 2_000_000_000

/**
 * Socket buffers are outside V8's heap. By default V8 marks the whole heap after every 64 MiB of them, which was half of the
 * CPU time of large transfers. Accounted in the global limit, they are freed with the young generation.
 *
 * When a process is idle for some seconds, V8 runs its memory reducer, which also drops unused object shapes and the
 * optimized code that depends on them: after each pause the gateway was as slow as after its start.
 */
const tuneV8 = () => {
  setFlagsFromString('--external-memory-accounted-in-global-limit')
  setFlagsFromString(`--memory-reducer-delay-ms=${IDLE_COLLECTION_MS}`)
}

// The gateway is imported on demand: help texts and setting errors must not wait for it.
async function start(options: StartOptions): Promise<number> {
  if (options.nodes !== undefined && cluster.isPrimary) {
    const { serveDemoFleet } = await import('./app/demo/fleet.ts')
    const runFirst = (env: Env, others: OtherNodesOfDemo) => startNode(options, env, others)
    return serveDemoFleet({ nodes: options.nodes, env: process.env, runFirst, print })
  }
  return startNode(options, process.env)
}

async function startNode(options: StartOptions, env: Env, others?: OtherNodesOfDemo): Promise<number> {
  const config = configOf(options, env)
  // A demo in a temporary directory leaves nothing in the default data directory.
  const isTemporary = options.demo && !(options.data ?? env.SLUICE_DATA)
  if (!isTemporary) cacheCompiledCode(config.dataDir)
  tuneV8()
  if (cluster.isWorker) {
    const { serveAsWorker } = await import('./app/worker.ts')
    return serveAsWorker(config)
  }
  const { serve } = await import('./app/serve.ts')
  return serve({ settings: config, options, env, print, others })
}

async function operate<Name extends keyof Operations>(
  name: Name,
  input: Parameters<Operations[Name]>[0],
  data: string | undefined,
): Promise<Awaited<ReturnType<Operations[Name]>>> {
  const config = configOf({ data })
  const { result, warning } =
    (await callControl(config.dataDir, name, input ?? {})) ?? (await operateHere(config, name, input))
  if (warning !== undefined) printError(`sluice: ${warning}`)
  return result as Awaited<ReturnType<Operations[Name]>>
}

/** Runs an operation in this process, because no gateway runs on the data directory. */
async function operateHere(config: Config, name: keyof Operations, input: unknown): Promise<CommandOutcome> {
  const { openStoreAndKeys } = await import('./app/store-and-keys.ts')
  const { operationsOf } = await import('./app/operations.ts')
  const storeAndKeys = await openStoreAndKeys(config, { mustExist: true })
  try {
    const { createCommandRunner } = await import('./app/command-runner.ts')
    return await createCommandRunner(storeAndKeys.store, operationsOf(config, storeAndKeys))(name, input)
  } finally {
    await storeAndKeys.close()
  }
}

async function restore(file: string, data: string | undefined): Promise<Report> {
  const { dataDir, databaseUrl, keyring } = configOf({ data })
  const { restore: restoreBackup } = await import('./cli/restore.ts')
  return restoreBackup({ file, dataDir, databaseUrl, isSecretSet: keyring !== undefined })
}

function targetOf(dataDir: string, url: string): Config {
  try {
    return readConfig({ ...process.env, SLUICE_DATA: dataDir, DATABASE_URL: url })
  } catch (error) {
    if (!(error instanceof SettingError)) throw error
    throw new SettingError(
      '--to',
      error.message.replace(/^DATABASE_URL /, '').replace(/; or leave it.*$/, ''),
    )
  }
}

async function migrate(url: string, data: string | undefined): Promise<Report> {
  const config = configOf({ data })
  const target = targetOf(config.dataDir, url)
  const { migrate: migrateStore } = await import('./app/migrate.ts')
  return migrateStore(config, target, print)
}

async function examine(data: string | undefined) {
  const { examineGateway } = await import('./app/doctor/doctor.ts')
  return examineGateway(data === undefined ? process.env : { ...process.env, SLUICE_DATA: data })
}

/** Errors whose message is enough for the operator, and their exit codes. */
const EXIT_CODES: Readonly<Record<string, number>> = {
  SettingError: EXIT.config,
  TlsFilesError: EXIT.config,
  DirectoryInUseError: EXIT.failed,
  NewerStoreError: EXIT.failed,
  JournalDamageError: EXIT.badData,
  // A process manager must not try again: only the operator can move the journal away.
  RetiredNodeError: EXIT.badData,
}

/** Operator errors are one sentence; only internal errors print a stack. */
function explain(thrown: unknown): { code: number; message: string } {
  const { cause } = thrown as Error
  const error = cause instanceof Error && cause.name === 'SqliteError' ? cause : thrown
  const { name, code, syscall, port, address, message } = error as NodeJS.ErrnoException &
    Partial<AddressInfo>
  // The worker has printed the reason itself.
  if (error instanceof WorkerStartError) return { code: error.exitCode, message }
  const exitCode = EXIT_CODES[name]
  if (exitCode !== undefined) return { code: exitCode, message }
  if (name === 'SqliteError')
    return { code: EXIT.failed, message: `the database in SLUICE_DATA cannot be used: ${message}` }
  if (code === 'EADDRINUSE')
    return {
      code: EXIT.config,
      message: `PORT is already in use: another program listens on ${address}:${port}`,
    }
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return { code: EXIT.config, message: 'HOST must be an address of this machine' }
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS' || code === 'ENOSPC')
    return {
      code: EXIT.config,
      message: `${syscall === 'listen' ? 'PORT' : 'SLUICE_DATA'} cannot be used: ${message}`,
    }
  return { code: EXIT.failed, message: (error as Error).stack ?? String(error) }
}

try {
  process.exitCode = await runCli(process.argv.slice(2), {
    version,
    settingsHelp,
    start,
    operate,
    restore,
    migrate,
    examine,
    variable: name => process.env[name],
    configSchema: async () => (await import('./manage/contract/config-file.ts')).configSchema(),
    print,
    printError,
  })
} catch (error) {
  const { code, message } = explain(error)
  printError(`sluice: ${message}`)
  // Threads and servers that were already started must not keep the process alive.
  process.exit(code)
}
