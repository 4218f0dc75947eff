import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const STOP_MS = 10_000
const OUTPUT_MOST = 1_048_576
const living = new Set<ChildProcess>()

/** Every process that a bench started ends with it. */
process.on('exit', () => {
  for (const child of living) child.kill('SIGKILL')
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

export function findProgram(name: string): string | undefined {
  // Debian installs nginx outside the PATH of an ordinary user.
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']
  return folders.map(folder => join(folder, name)).find(path => existsSync(path))
}

export type Running = {
  readonly pid: number
  /** Waits for the end of the process, and kills it after 10 s. */
  stop(signal?: NodeJS.Signals): Promise<void>
}

export function start(command: string, args: readonly string[], options: SpawnOptions = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'inherit'], ...options })
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', code => {
      living.delete(child)
      resolve(code)
    })
  })
  // A caller that waits for the end gets the error; others notice that the process does not answer.
  ended.catch(() => living.delete(child))
  living.add(child)
  return {
    child,
    ended,
    pid: child.pid ?? 0,
    async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
      if (!living.has(child)) return
      child.kill(signal)
      const kill = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
      await ended
      clearTimeout(kill)
    },
  }
}

/** Runs a program for at most `mostMs` and returns its output. */
export async function run(
  command: string,
  args: readonly string[],
  { mostMs, ...options }: SpawnOptions & { mostMs: number },
): Promise<string> {
  const { child, ended } = start(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
  const parts: string[] = []
  const keep = (part: Buffer) => {
    if (parts.length < OUTPUT_MOST / 1024) parts.push(String(part))
  }
  child.stdout?.on('data', keep)
  child.stderr?.on('data', keep)
  const timer = setTimeout(() => child.kill('SIGKILL'), mostMs)
  const code = await ended.finally(() => clearTimeout(timer))
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${parts.join('').slice(-2_000)}`)
  return parts.join('')
}

/** Starts one of our programs, which prints one line of JSON when it is ready, such as its address. */
export async function startReporting<Report>(args: readonly string[], options: SpawnOptions = {}) {
  const running = start(process.execPath, args, { ...options, stdio: ['ignore', 'pipe', 'inherit'] })
  const report = new Promise<Report>((resolve, reject) => {
    running.child.stdout?.once('data', data => resolve(JSON.parse(String(data)) as Report))
    running.ended.then(code => reject(new Error(`${args[0]} ended with ${code}`)), reject)
  })
  return { ...running, report: await report }
}

export async function untilAnswers(url: string, mostMs = 30_000): Promise<void> {
  for (const endMs = performance.now() + mostMs; performance.now() < endMs; await sleep(50)) {
    const response = await fetch(url).catch(() => undefined)
    await response?.body?.cancel()
    if (response && response.status < 500) return
  }
  throw new Error(`nothing answers at ${url}`)
}

/** Waits until a port of this machine accepts connections. */
export async function untilConnected(port: number, mostMs = 30_000): Promise<void> {
  for (const endMs = performance.now() + mostMs; performance.now() < endMs; await sleep(50)) {
    const isOpen = await new Promise<boolean>(resolve => {
      const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false))
      socket.on('close', () => resolve(false)).on('connect', () => socket.end())
    })
    if (isOpen) return
  }
  throw new Error(`nothing listens on port ${port}`)
}

/** The kernel reports times in ticks of USER_HZ, which is 100 wherever Node.js runs. */
const TICK_MS = 10

/** A thread or process may end between listing and reading. */
function look(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return ''
    throw error
  }
}

export function childrenOf(pid: number): number[] {
  if (!existsSync(`/proc/${pid}/task`)) return []
  return readdirSync(`/proc/${pid}/task`).flatMap(thread =>
    look(`/proc/${pid}/task/${thread}/children`).split(' ').filter(Boolean).map(Number),
  )
}

/** The current processes of a tree. */
const treeOf = (pid: number): number[] => [pid, ...childrenOf(pid).flatMap(treeOf)]

const sumOver = (pid: number, of: (id: number) => number): number =>
  treeOf(pid).reduce((sum, id) => sum + of(id), 0)

/**
 * User and system time of a process with all its threads and children, including ended ones. It is CPU time, so a load
 * generator on the same cores does not change it.
 */
export const cpuMsOf = (pid: number): number =>
  sumOver(pid, id => {
    // The name is in parentheses and may contain anything; utime, stime, cutime, cstime are the 12th to 15th field after it.
    const stat = look(`/proc/${id}/stat`)
    const fields = stat.slice(stat.lastIndexOf(') ') + 2).split(' ')
    return fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0) * TICK_MS
  })

export const MAIN_THREAD = 'main thread'

/** CPU time of the threads of a process, added up by their names. */
export function threadCpuMsOf(pid: number): Map<string, number> {
  const times = new Map<string, number>()
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const stat = look(`/proc/${pid}/task/${thread}/stat`)
    if (stat === '') continue
    const name =
      Number(thread) === pid ? MAIN_THREAD : stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'))
    const [userTicks, systemTicks] = stat
      .slice(stat.lastIndexOf(') ') + 2)
      .split(' ')
      .slice(11, 13)
    const ms = (Number(userTicks) + Number(systemTicks)) * TICK_MS
    times.set(name, (times.get(name) ?? 0) + ms)
  }
  return times
}

export const rssMibOf = (pid: number): number =>
  sumOver(pid, id => Number(/VmRSS:\s+(\d+)/.exec(look(`/proc/${id}/status`))?.[1] ?? 0) / 1024)

const QUIET = { everyMs: 250, looks: 2, mostCpuMs: 10, mostMs: 15_000 }

/** Waits until a process tree is idle: deferred work belongs to the cost of a request. */
export async function untilQuiet(pid: number): Promise<void> {
  let quiet = 0
  for (let waitedMs = 0; waitedMs < QUIET.mostMs && quiet < QUIET.looks; waitedMs += QUIET.everyMs) {
    const before = cpuMsOf(pid)
    await sleep(QUIET.everyMs)
    quiet = cpuMsOf(pid) - before <= QUIET.mostCpuMs ? quiet + 1 : 0
  }
}

export type Costed<F> = F & { readonly cpuUs: number }

/** Runs a load and returns its CPU time in the tree, including deferred work. */
export async function costOf<F>(
  pid: number,
  { load, units }: { load: () => Promise<F>; units: (figures: F) => number },
): Promise<Costed<F>> {
  await untilQuiet(pid)
  const before = cpuMsOf(pid)
  const figures = await load()
  await untilQuiet(pid)
  return { ...figures, cpuUs: ((cpuMsOf(pid) - before) * 1_000) / units(figures) }
}
