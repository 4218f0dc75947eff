import { appendFileSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'

/** Names a file that collects the cost of each test file, over all processes of a run. */
export const COSTS_VARIABLE = 'SLUICE_TEST_COSTS'
const TICKS_PER_S = 100

/** What a test file costs: CPU time with the processes and browsers it starts, and the time from its start to its end. */
export type FileCost = { readonly file: string; readonly cpuS: number; readonly wallS: number }

type ProcessTimes = {
  readonly parent: number
  readonly command: string
  /** The CPU time of the process and of its children that have ended. */
  readonly seconds: number
}

/** Nothing if the process has ended, or the system does not tell. */
function processTimes(pid: number): ProcessTimes | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    // The name of the program is in parentheses and may contain spaces; utime is the 12th field after it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const ticks = fields.slice(11, 15).reduce((sum, each) => sum + Number(each), 0)
    return { parent: Number(fields[1]), command, seconds: ticks / TICKS_PER_S }
  } catch {
    return undefined
  }
}

let secondsOfBrowsers = 0

/** The CPU time of a process and of its children that have ended, in seconds. 0 where the system does not tell. */
export const cpuSecondsOf = (pid: number): number => processTimes(pid)?.seconds ?? 0
const cpuSeconds = () => cpuSecondsOf(process.pid) + secondsOfBrowsers

/**
 * Counts the pages of a browser that this process has started, before it is closed: they are children of helpers of the browser,
 * which end without telling their CPU time to anyone.
 */
export function countBrowser(): void {
  if (!existsSync('/proc')) return
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger)
  const times = new Map(pids.map(pid => [pid, processTimes(pid)]))
  const ancestry = (pid: number): number[] => {
    const parent = times.get(pid)?.parent
    return parent === undefined ? [] : [pid, ...ancestry(parent)]
  }
  const isHelper = (pid: number) => times.get(pid)?.command.includes('--type=zygote')
  for (const pid of pids) {
    const line = ancestry(pid)
    if (line.includes(process.pid) && line.some(isHelper)) secondsOfBrowsers += times.get(pid)?.seconds ?? 0
  }
}

const tenths = (value: number) => Math.round(value * 10) / 10

/** Begins to measure a file. Returns a function that records its cost. A process of its own counts from its start. */
export function startCost(file: string, cpuBefore = cpuSeconds()): () => void {
  const begin = performance.now()
  return () => {
    const path = process.env[COSTS_VARIABLE]
    if (path === undefined || !existsSync(path)) return
    const wallS = tenths((performance.now() - begin) / 1_000)
    const cost: FileCost = { file: relative('.', file), cpuS: tenths(cpuSeconds() - cpuBefore), wallS }
    appendFileSync(path, `${JSON.stringify(cost)}\n`)
  }
}

/** The cost of each file, the most expensive first. A file that ran again has the cost of its first run. */
export function readCosts(lines: string): readonly FileCost[] {
  const costs = lines
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as FileCost)
  const first = new Map(costs.toReversed().map(cost => [cost.file, cost]))
  return [...first.values()].sort((a, b) => b.cpuS - a.cpuS)
}

/** Every file with its cost, so that the next one who shortens the suite knows where to begin. */
export function describeCosts(costs: readonly FileCost[]): string {
  const row = (cpu: string, wall: string, name: string) => `${cpu.padStart(8)}${wall.padStart(8)}  ${name}`
  const total = costs.reduce((sum, { cpuS }) => sum + cpuS, 0)
  return [
    row('CPU s', 'wall s', 'file'),
    ...costs.map(({ file, cpuS, wallS }) => row(cpuS.toFixed(1), wallS.toFixed(1), file)),
    `${Math.round(total)} s of CPU in ${costs.length} test files, without PostgreSQL`,
  ].join('\n')
}
