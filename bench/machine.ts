import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, release, totalmem, type } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

const GIB = 1024 ** 3

/** Where and when the figures were measured. */
export function describeMachine(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor'
  return [
    `${availableParallelism()} cores of ${model}, ${(totalmem() / GIB).toFixed(1)} GiB`,
    `${type()} ${release()}`,
    `Node.js ${process.version}`,
    new Date().toISOString().slice(0, 10),
  ].join('; ')
}

const LOOK_MS = 1_000
const NOTICED_CORES = 0.2

/** Busy and total ticks of all cores. */
function ticks(): { busy: number; all: number } {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
  const fields = line.trim().split(/\s+/).slice(1, 9).map(Number)
  const all = fields.reduce((sum, field) => sum + field, 0)
  const [, , , idle = 0, waiting = 0] = fields
  return { busy: all - idle - waiting, all }
}

/** A warning if other programs are busy before a bench begins, because they distort its figures. */
export async function describeOthers(): Promise<string | undefined> {
  const before = ticks()
  await sleep(LOOK_MS)
  const after = ticks()
  const cores = ((after.busy - before.busy) / (after.all - before.all)) * availableParallelism()
  if (cores < NOTICED_CORES) return undefined
  return `Other programs keep ${cores.toFixed(1)} cores busy: throughput and latency are worse than on an idle machine.`
}
