import { appendFileSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'

/** Names a file that collects the CPU time of each test file, over all processes of a run. */
export const CPU_VARIABLE = 'SLUICE_TEST_CPU'
const TICKS_PER_S = 100
const SHOWN = 10

type FileCost = { readonly file: string; readonly seconds: number }

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

/** The CPU time of this process and of its children that have ended, in seconds. 0 where the system does not tell. */
export const cpuSeconds = () => (processTimes(process.pid)?.seconds ?? 0) + secondsOfBrowsers

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

export function recordCost(file: string, seconds: number): void {
  const path = process.env[CPU_VARIABLE]
  if (path !== undefined && existsSync(path))
    appendFileSync(path, `${JSON.stringify({ file: relative('.', file), seconds })}\n`)
}

/** The most expensive files, so that the next one who shortens the suite knows where to begin. */
export function describeCosts(lines: string): string {
  const costs = lines
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as FileCost)
    .sort((a, b) => b.seconds - a.seconds)
  const total = costs.reduce((sum, { seconds }) => sum + seconds, 0)
  const shown = costs.slice(0, SHOWN).map(({ file, seconds }) => `${file} ${Math.round(seconds)} s`)
  return `${Math.round(total)} s of CPU in ${costs.length} test files, most of it in: ${shown.join(', ')}`
}
