import { readFileSync, writeFileSync } from 'node:fs'
import type { FileCost } from './cost.ts'
import { filesOf } from './files.ts'

/** The cost of each file in the last run with --record. */
const TIMES = 'test/times.json'

type Times = Readonly<Record<string, { readonly cpuS: number; readonly wallS: number }>>

const readTimes = (): Times => JSON.parse(readFileSync(TIMES, 'utf8'))

/** The slowest files first, so that none of them runs alone at the end. A file without a recorded time may be one. */
export function slowestFirst(files: readonly string[]): readonly string[] {
  const times = readTimes()
  const wallOf = (file: string) => times[file]?.wallS ?? Number.POSITIVE_INFINITY
  return files.toSorted((a, b) => wallOf(b) - wallOf(a) || a.localeCompare(b))
}

/** Replaces the times of the files that ran, and drops those of files that are gone. */
export function recordTimes(costs: readonly FileCost[]): void {
  const times: Times = {
    ...readTimes(),
    ...Object.fromEntries(costs.map(({ file, cpuS, wallS }) => [file, { cpuS, wallS }])),
  }
  const files = [...filesOf('test'), ...filesOf('system')].sort()
  const lines = files.flatMap(file => {
    const time = times[file]
    return time ? [`  ${JSON.stringify(file)}: { "cpuS": ${time.cpuS}, "wallS": ${time.wallS} }`] : []
  })
  writeFileSync(TIMES, `{\n${lines.join(',\n')}\n}\n`)
}
