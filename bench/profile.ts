import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { fileURLToPath } from 'node:url'
import { QUESTION, STREAM, STREAM_QUESTION } from './answers.ts'
import { type CpuProfile, openInspector } from './inspector.ts'
import { putLoad } from './load.ts'
import type { Options } from './options.ts'
import { MAIN_THREAD, run, startReporting, threadCpuMsOf } from './process.ts'
import { startSluice } from './sluice.ts'
import type { StreamLoad } from './stream-client.ts'
import { printTable } from './table.ts'

/** Where the CPU time of a request, and of a chunk of a stream, goes: by thread, and in the main thread by part of the code. */
const WARMING = 30_000
const BUSY = { connections: 64, seconds: 10 }
const STREAMS = { connections: 200, rounds: 4, streamMs: STREAM.chunks * STREAM.paceMs }
/** Groups below this share are added up. */
const LEAST_SHARE = 0.01
const STREAM_MOST_MS = 120_000

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url))

/** Finds the source of a place in the built program. */
function createSources() {
  const maps = new Map<string, SourceMap | undefined>()
  const mapOf = (url: string): SourceMap | undefined => {
    if (!maps.has(url)) {
      let map: SourceMap | undefined
      try {
        map = new SourceMap(JSON.parse(readFileSync(`${fileURLToPath(url)}.map`, 'utf8')))
      } catch {
        // A file without a map is its own source.
      }
      maps.set(url, map)
    }
    return maps.get(url)
  }
  return (url: string, line: number, column: number): string => {
    if (!url.startsWith('file:')) return url
    const entry = mapOf(url)?.findEntry(line, column)
    return entry && 'originalSource' in entry ? entry.originalSource : url
  }
}

type CallFrame = CpuProfile['nodes'][number]['callFrame']

/** The part of the code that a function belongs to: a room of `src`, a package, a module of Node.js. */
function groupOf({ functionName, url, lineNumber, columnNumber }: CallFrame, sourceOf: SourceFinder): string {
  if (url === '') return functionName.startsWith('(') ? functionName : 'native functions'
  if (url.startsWith('node:')) return url.split('/').slice(0, 2).join('/')
  const source = sourceOf(url, lineNumber, columnNumber)
  const modulePath = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source)?.[1]
  if (modulePath !== undefined) return modulePath
  return /\bsrc\/[^/]+(?=\/)/.exec(source)?.[0] ?? 'other'
}

type SourceFinder = ReturnType<typeof createSources>

/** Microseconds by group, the idle time left out. */
function timesOf({ nodes, samples, timeDeltas }: CpuProfile, sourceOf: SourceFinder): Map<string, number> {
  const groups = new Map(nodes.map(({ id, callFrame }) => [id, groupOf(callFrame, sourceOf)]))
  const times = new Map<string, number>()
  for (const [i, id] of samples.entries()) {
    const group = groups.get(id) ?? 'other'
    if (group !== '(idle)') times.set(group, (times.get(group) ?? 0) + (timeDeltas[i] ?? 0))
  }
  return times
}

/** `cpuUs`: of the main thread, per unit. Samples are taken by wall time, so only their shares count. */
function printGroups(times: ReadonlyMap<string, number>, cpuUs: number): void {
  const total = [...times.values()].reduce((sum, us) => sum + us, 0)
  const large = [...times].filter(([, us]) => us / total >= LEAST_SHARE).sort(([, a], [, b]) => b - a)
  const rest = total - large.reduce((sum, [, us]) => sum + us, 0)
  const row = (name: string, us: number) => [
    name,
    ((us / total) * cpuUs).toFixed(1),
    `${((us / total) * 100).toFixed(1)} %`,
  ]
  const rows = [...large, ['smaller parts', rest] as const].map(([name, us]) => row(name, us))
  printTable(['main thread', 'µs', 'share'], [...rows, row('all', total)])
}

type Measured = { load(): Promise<number> }

/** Runs a load, and prints where its CPU time went. */
async function profile(
  title: string,
  { load }: Measured,
  { pid, inspectorPort }: { pid: number; inspectorPort: number },
): Promise<void> {
  const inspector = await openInspector(inspectorPort)
  const before = threadCpuMsOf(pid)
  const { result: units, profile: taken } = await inspector.profile(load)
  const after = threadCpuMsOf(pid)
  inspector.close()
  console.log(`\n${title}: ${units}, with the profiler on, which makes everything slower`)
  const threads = [...after].map(([name, ms]) => {
    return [name, ((ms - (before.get(name) ?? 0)) * 1_000) / units] as const
  })
  printTable(
    ['threads', 'µs'],
    threads.filter(([, us]) => us > 0).map(([name, us]) => [name, us.toFixed(1)]),
  )
  printGroups(timesOf(taken, createSources()), new Map(threads).get(MAIN_THREAD) ?? 0)
}

export async function benchProfile({ engine }: Options): Promise<void> {
  const upstream = await startReporting<[string]>([pathOf('upstream.ts')])
  const sluice = await startSluice({ engine, inspected: true, env: { SLUICE_LOG: 'info' } })
  try {
    await sluice.addChannel(upstream.report[0])
    const target = { url: sluice.chatUrl, headers: sluice.headers }
    await putLoad({ ...target, body: QUESTION, connections: BUSY.connections, requests: WARMING })
    const requests = { load: async () => (await putLoad({ ...target, body: QUESTION, ...BUSY })).requests }
    await profile('requests', requests, sluice)
    const load: StreamLoad = { ...target, body: STREAM_QUESTION, ...STREAMS }
    const chunks = {
      async load() {
        const args = [pathOf('stream-client.ts'), JSON.stringify(load)]
        const printed = await run(process.execPath, args, { mostMs: STREAM_MOST_MS })
        return (JSON.parse(printed) as { streams: number }).streams * STREAM.chunks
      },
    }
    await profile('chunks of streams', chunks, sluice)
  } finally {
    await sluice.stop()
    await upstream.stop()
  }
}
