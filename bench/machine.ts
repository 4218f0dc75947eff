import { availableParallelism, cpus, release, totalmem, type } from 'node:os'

const GIB = 1024 ** 3

/** What a figure is worth nothing without: where it was measured, and when. */
export function describeMachine(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor'
  return [
    `${availableParallelism()} cores of ${model}, ${(totalmem() / GIB).toFixed(1)} GiB`,
    `${type()} ${release()}`,
    `Node.js ${process.version}`,
    new Date().toISOString().slice(0, 10),
  ].join('; ')
}
