#!/usr/bin/env node
import cluster from 'node:cluster'
import { enableCompileCache } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { type Config, readConfig, SettingError } from './app/config.ts'
import { EXIT, runCli, type StartOptions } from './cli/cli.ts'
import type { Report } from './cli/command.ts'
import { callControl, socketPath } from './cli/control.ts'
import type { Operations } from './cli/operations.ts'
import { makeDirectory } from './host/directory.ts'
import { version } from './host/version.ts'
import { WorkerStartError } from './workers/supervisor.ts'

/** The longest path that every system lets a socket have. */
const MAX_SOCKET_PATH = 103

// Databases, journals and sockets are made by libraries that ask for nothing better than the process allows.
process.umask(0o077)

/** Whoever reads only the first lines (`sluice verify | head`) changes nothing of how a command ends. */
function whenUnread(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') return
  printError(`sluice: stdout: ${error.message}`)
  process.exit(EXIT.failed)
}

function print(line: string): void {
  if (process.stdout.listenerCount('error') === 0) process.stdout.on('error', whenUnread)
  process.stdout.write(`${line}\n`)
}
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

/**
 * What is compiled once is kept beside the data, where nobody else can write: the next start is quicker, and threads and
 * workers, which read the variable, need no compiler in memory. An operator's own choice stands.
 */
function keepCompiled(dataDir: string): void {
  try {
    makeDirectory(dataDir)
  } catch {
    // Whoever needs the directory says what is wrong with it.
    return
  }
  process.env.NODE_COMPILE_CACHE ??= join(dataDir, 'compiled')
  enableCompileCache(process.env.NODE_COMPILE_CACHE)
}

/** Three weeks, which is as good as never. */
const IDLE_COLLECTION_MS = 2_000_000_000

/**
 * What sockets read lies outside V8's heap, and by itself V8 walks the whole heap whenever 64 MiB of that have come since
 * the last walk: half of all work where files pass. Counted with the heap, such bytes go with the young garbage.
 *
 * And when little happens for some seconds, V8 collects twice to give memory back, forgets the shapes of objects of which
 * none is alive, and with them the compiled code that relied on them: after each pause a gateway began as slow as after
 * its start.
 */
const tuneV8 = () => {
  setFlagsFromString('--external-memory-accounted-in-global-limit')
  setFlagsFromString(`--memory-reducer-delay-ms=${IDLE_COLLECTION_MS}`)
}

// The gateway itself is loaded only when it is needed: a wrong setting or a word of help should not wait for it.
async function start(options: StartOptions): Promise<number> {
  const given = configOf(options)
  keepCompiled(given.dataDir)
  tuneV8()
  if (cluster.isWorker) {
    const { serveAsWorker } = await import('./app/worker.ts')
    return serveAsWorker(given)
  }
  const { serve } = await import('./app/serve.ts')
  return serve({ given, options, env: process.env, print })
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
  const { openStoreAndKeys: openGround, operationsOf } = await import('./app/gateway.ts')
  const ground = await openGround(config, { mustExist: true })
  try {
    const operation = operationsOf(config, ground)[name] as (input: unknown) => Promise<Result>
    return await operation(input)
  } finally {
    await ground.close()
  }
}

async function restore(file: string, data: string | undefined): Promise<Report> {
  const { dataDir, databaseUrl, keyring } = configOf({ data })
  const { restore: putBack } = await import('./cli/restore.ts')
  return putBack({ file, dataDir, databaseUrl, isSecretGiven: keyring !== undefined })
}

/** Errors whose own sentence says everything, and how the program ends with them. */
const SPOKEN: Readonly<Record<string, number>> = {
  SettingError: EXIT.config,
  DirectoryInUseError: EXIT.failed,
  NewerStoreError: EXIT.failed,
  JournalDamageError: EXIT.badData,
}

/** Mistakes of the operator are told in one sentence; only faults of ours show where they happened. */
function explain(thrown: unknown): { code: number; message: string } {
  const { cause } = thrown as Error
  const error = cause instanceof Error && cause.name === 'SqliteError' ? cause : thrown
  const { name, code, syscall, port, address, message } = error as NodeJS.ErrnoException &
    Partial<AddressInfo>
  // What is wrong with a worker it has said itself.
  if (error instanceof WorkerStartError) return { code: error.exitCode, message }
  const spoken = SPOKEN[name]
  if (spoken !== undefined) return { code: spoken, message }
  if (name === 'SqliteError')
    return { code: EXIT.failed, message: `the database in SLUICE_DATA cannot be used (${message})` }
  if (code === 'EADDRINUSE')
    return { code: EXIT.config, message: `PORT: ${address}:${port} is taken by another program` }
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return { code: EXIT.config, message: 'HOST: this machine has no such address' }
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS' || code === 'ENOSPC')
    return { code: EXIT.config, message: `${syscall === 'listen' ? 'PORT' : 'SLUICE_DATA'}: ${message}` }
  return { code: EXIT.failed, message: (error as Error).stack ?? String(error) }
}

try {
  process.exitCode = await runCli(process.argv.slice(2), {
    version,
    start,
    operate,
    restore,
    print,
    printError,
  })
} catch (error) {
  const { code, message } = explain(error)
  printError(`sluice: ${message}`)
  // Threads and servers that were built before the fault must not keep the process alive.
  process.exit(code)
}
