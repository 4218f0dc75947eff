import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'

/** Names a file that collects the CPU time of each test file, over all processes of a run. */
export const CPU_VARIABLE = 'SLUICE_TEST_CPU'
const STAT = '/proc/self/stat'
const TICKS_PER_S = 100
const SHOWN = 10

type FileCost = { readonly file: string; readonly seconds: number }

/** The CPU time of this process and of its children that have ended, in seconds. 0 where the system does not tell. */
export function cpuSeconds(): number {
  if (!existsSync(STAT)) return 0
  const stat = readFileSync(STAT, 'utf8')
  // The name of the program is in parentheses and may contain spaces; utime is the 12th field after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_S
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
