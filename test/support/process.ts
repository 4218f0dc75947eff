import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { sql } from 'kysely'
import { createLog } from '../../src/app/log.ts'
import type { Report } from '../../src/cli/command.ts'
import { callControl } from '../../src/cli/control.ts'
import { createConsoleFiles } from '../../src/host/console-files.ts'
import { openStore, type Store } from '../../src/store/engine/store.ts'
import { newStore } from './first-start.ts'
import { createApi, type EngineName, ROOT_PASSWORD, ROOT_TOKEN, startGateway } from './gateway.ts'
import { commandOf } from './program.ts'
import { until } from './wait.ts'

export { until } from './wait.ts'

export type Env = Readonly<Record<string, string>>
export type Ended = {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

const living = new Set<ChildProcess>()
const directories: string[] = []

/** A directory that is deleted after the tests of the file. */
export function newDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-process-'))
  directories.push(directory)
  return directory
}

let cache: string | undefined

/** Many processes run the same source: they share a compile cache. */
function compiled(): string {
  cache ??= process.env.NODE_COMPILE_CACHE ?? newDirectory()
  return cache
}

type Launching = {
  readonly env?: Env
  readonly cwd?: string
  /** A descriptor of the test instead of a pipe that is read here. */
  readonly stdout?: number
  /** The limit of open files and sockets. */
  readonly openFiles?: number
  /** Memory or CPU time of the process is measured. */
  readonly isMeasured?: boolean | undefined
}

/** The program as a separate process, with these settings and none of the machine's environment. */
export function launch(
  args: readonly string[],
  { env = {}, cwd, stdout: fd, openFiles, isMeasured }: Launching = {},
) {
  // What NODE_OPTIONS loads into a server on PostgreSQL may wrap methods of the package `pg`, which a bundle contains.
  const isSource = env.NODE_OPTIONS !== undefined && env.DATABASE_URL !== undefined
  const command = [...commandOf({ isMeasured, isSource }), ...args]
  const limited = ['sh', '-c', `ulimit -n ${openFiles} && exec "$@"`, 'sh', ...command]
  const [file = '', ...spawnArgs] = openFiles === undefined ? command : limited
  const child = spawn(file, spawnArgs, {
    cwd: cwd ?? newDirectory(),
    env: { PATH: process.env.PATH ?? '', TMPDIR: tmpdir(), NODE_COMPILE_CACHE: compiled(), ...env },
    stdio: ['ignore', fd ?? 'pipe', 'pipe'],
  })
  living.add(child)
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject)
    // Only `close` guarantees that the last line was read.
    child.once('close', (code, signal) => {
      living.delete(child)
      resolve({ code, signal, stdout, stderr })
    })
  })
  return {
    pid: child.pid ?? 0,
    ended,
    stdout: () => stdout,
    stderr: () => stderr,
    isRunning: () => living.has(child),
    signal: (name: NodeJS.Signals) => void child.kill(name),
  }
}

export type Launched = ReturnType<typeof launch>

/** Runs a command until it exits. */
export const run = (args: readonly string[], options: Launching = {}): Promise<Ended> =>
  launch(args, options).ended

type Line = Readonly<Record<string, unknown>>

/** Reads the store of a running or ended server on a separate connection. */
export async function lookInto<T>(
  { dataDir, databaseUrl }: Pick<ServerOptions, 'dataDir' | 'databaseUrl'>,
  look: (store: Store) => Promise<T>,
): Promise<T> {
  const store =
    databaseUrl === undefined
      ? openStore({ engine: 'sqlite', path: join(dataDir, 'sluice.db'), fullSync: false })
      : openStore({ engine: 'postgres', url: databaseUrl, maxConnections: 2 })
  try {
    return await look(store)
  } finally {
    await store.close()
  }
}

/** Makes a running server verify its ledger, as `sluice verify` does. */
export async function verifyThroughSocket({ dataDir }: Pick<ServerOptions, 'dataDir'>): Promise<Report> {
  const answer = await callControl(dataDir, 'verify', {})
  if (!answer) throw new Error('nobody answers at the socket')
  return answer.result as Report
}

/** The JSON lines of a log, without the plain text between them. */
export const logLines = (stdout: string): Line[] =>
  stdout
    .split('\n')
    .filter(line => line.startsWith('{'))
    .map(line => JSON.parse(line) as Line)

export type ServerOptions = {
  readonly dataDir: string
  /** The URL of a PostgreSQL database; the embedded database if absent. */
  readonly databaseUrl?: string | undefined
  readonly env?: Env
  readonly args?: readonly string[]
  readonly openFiles?: number
  readonly isMeasured?: boolean
}

/** Settings for a server on this engine with a store that holds nothing but root. */
export async function newGround(engine: EngineName, env: Env = {}): Promise<ServerOptions> {
  const { dataDir, database } = await newStore(engine, join(newDirectory(), 'data'), env)
  return { dataDir, databaseUrl: database?.url, env }
}

/** Sessions of a killed process may still run in PostgreSQL for a moment, and commit. */
export const untilSessionsEnded = (ground: ServerOptions, killed: Date) =>
  lookInto(ground, ({ db, engine }) =>
    until('the sessions of the killed process to end', async () => {
      if (engine === 'sqlite') return true
      const { rows } = await sql<{ left: number }>`
        select count(*) as left from pg_stat_activity
        where datname = current_database() and backend_start < ${killed} and pid <> pg_backend_pid()`.execute(
        db,
      )
      return rows[0]?.left === 0 ? true : undefined
    }),
  )

/** The child processes of a process. */
export function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
  return children
    .split(' ')
    .filter(text => text.trim() !== '')
    .map(Number)
}

export function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

/** The settings of a test server: any free port, and known root credentials. */
export const settingsOf = ({ dataDir, databaseUrl, env = {} }: ServerOptions): Env => ({
  PORT: '0',
  SLUICE_DATA: dataDir,
  // No proxy is in front of it, unless a test has one.
  SLUICE_DRAIN_DELAY_S: '0',
  SLUICE_ROOT_PASSWORD: ROOT_PASSWORD,
  SLUICE_ROOT_ACCESS_TOKEN: ROOT_TOKEN,
  ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
  ...env,
})

/** A gateway in this process, on a store that is kept. It has no control socket. */
export const startGatewayOn = (options: ServerOptions) =>
  // The settings name the store, so the gateway does not use the one of this engine.
  startGateway({ engine: 'sqlite', env: settingsOf(options) })

let consoleMade: Promise<void> | undefined

/** A server as a separate process, polled until it is ready. */
export async function startServer(options: ServerOptions) {
  // Otherwise the server would build it in a second process during the test, with every start.
  consoleMade ??= createConsoleFiles(createLog('warn')).prepare()
  await consoleMade
  const program = launch(['start', ...(options.args ?? [])], {
    env: settingsOf(options),
    isMeasured: options.isMeasured,
    ...(options.openFiles !== undefined && { openFiles: options.openFiles }),
  })
  const readOutput = () => `${program.stderr()}${program.stdout()}`
  const address = await until('a server to be ready', () => {
    if (!program.isRunning()) throw new Error(`the server ended: ${readOutput()}`)
    const line = logLines(program.stdout()).find(({ msg }) => msg === 'Sluice is ready.')
    return line?.address as string | undefined
  }).catch(error => {
    throw new Error(`${error.message}; it said: ${readOutput()}`)
  })
  const origin = new URL(address).origin
  await until('/readyz to say so', async () =>
    (await fetch(`${origin}/readyz`)).status === 200 ? true : undefined,
  )
  return {
    ...program,
    url: address,
    origin,
    port: Number(new URL(address).port),
    api: createApi(address, ROOT_TOKEN),
    lines: () => logLines(program.stdout()),
    /** Ends it as an operator would, and waits. */
    stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
      program.signal(signal)
      return program.ended
    },
    /** Ends it like a power failure. */
    kill(): Promise<Ended> {
      program.signal('SIGKILL')
      return program.ended
    },
  }
}

export type Server = Awaited<ReturnType<typeof startServer>>

/** Ends the processes that a failed test left running, and deletes the directories of its file. */
export async function endProcesses(): Promise<void> {
  for (const child of living) child.kill('SIGKILL')
  await until('the last process to end', () => (living.size === 0 ? true : undefined))
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true, force: true })
}
after(endProcesses)
// The run is ended early, because a check failed.
process.once('SIGTERM', () => {
  for (const child of living) child.kill('SIGKILL')
  process.exit(1)
})
