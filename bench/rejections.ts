import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { QUESTION } from './answers.ts'
import { openInspector } from './inspector.ts'
import { putLoad } from './load.ts'
import type { Options } from './options.ts'
import { costOf, rssMibOf, startReporting, untilQuiet } from './process.ts'
import { type Sluice, startSluice } from './sluice.ts'
import { STALL_BY_CPU_MS, WATCH_STALLS } from './stalls.ts'
import { inWords, median, printTable } from './table.ts'

/** The cost of requests that are rejected and recorded, and of good requests after them. */
const REJECTED = 100_000
const WARM_UP = 30_000
const GOOD = { connections: 64, seconds: 4 }
const STORM_CONNECTIONS = 32
const GOAL_US = 2
const UNKNOWN = JSON.stringify({ ...JSON.parse(QUESTION), model: 'no-such-model' })
const COUNTED = /^sluice_requests_total\{.*code="model_not_found".*\} (\d+)$/gm
const UPSTREAM = fileURLToPath(new URL('./upstream.ts', import.meta.url))

const sizeMibOf = (folder: string): number =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).reduce(
    (sum, name) => sum + statSync(join(folder, name)).size / 1_048_576,
    0,
  )

const targetOf = ({ chatUrl: url, headers }: Sluice) => ({ url, headers })

const goodCostOf = (sluice: Sluice) =>
  costOf(sluice.pid, {
    load: () => putLoad({ ...targetOf(sluice), body: QUESTION, ...GOOD }),
    units: ({ requests }) => requests,
  })

const storm = (sluice: Sluice, requests: number) =>
  costOf(sluice.pid, {
    load: () => putLoad({ ...targetOf(sluice), body: UNKNOWN, connections: STORM_CONNECTIONS, requests }),
    units: figures => figures.requests,
  })

async function countedBy(sluice: Sluice): Promise<number> {
  const counts = (await sluice.metrics()).matchAll(COUNTED).map(([, count]) => Number(count))
  return counts.reduce((sum, count) => sum + count, 0)
}

async function startWarm(engine: Options['engine'], upstream: string): Promise<Sluice> {
  const sluice = await startSluice({ engine, inspected: true })
  await sluice.addChannel(upstream)
  await putLoad({ ...targetOf(sluice), body: QUESTION, connections: GOOD.connections, requests: WARM_UP })
  return sluice
}

/** The longest time that the event loop did not turn during a storm. Last: the watch itself takes CPU time. */
async function stallOf(sluice: Sluice, requests: number): Promise<number> {
  const inspector = await openInspector(sluice.inspectorPort)
  await inspector.evaluate(WATCH_STALLS)
  await storm(sluice, requests)
  const stallMs = await inspector.evaluate(STALL_BY_CPU_MS)
  inspector.close()
  return stallMs
}

export async function benchRejections({ runs, engine, requests = REJECTED }: Options): Promise<void> {
  const upstream = await startReporting<[string]>([UPSTREAM])
  const [upstreamUrl] = upstream.report
  const gateways: Sluice[] = []
  try {
    const calm = await startWarm(engine, upstreamUrl)
    gateways.push(calm)
    const stormy = await startWarm(engine, upstreamUrl)
    gateways.push(stormy)
    await untilQuiet(stormy.pid)
    const beforeMib = rssMibOf(stormy.pid)
    const growthMib: number[] = []
    const costs = { rejected: [] as number[], calm: [] as number[], after: [] as number[] }
    for (let run = 0; run < runs; run++) {
      const diskMib = sizeMibOf(stormy.folder)
      costs.rejected.push((await storm(stormy, requests)).cpuUs)
      growthMib.push(sizeMibOf(stormy.folder) - diskMib)
      costs.calm.push((await goodCostOf(calm)).cpuUs)
      costs.after.push((await goodCostOf(stormy)).cpuUs)
    }
    const stallMs = await stallOf(stormy, requests)
    const total = requests * (runs + 1)
    const counted = await countedBy(stormy)
    const more = median(costs.after.map((us, run) => us - (costs.calm[run] ?? 0)))
    console.log(
      `rejections: ${runs + 1} times ${requests} requests with an unknown model, median of ${runs} runs\n`,
    )
    printTable(
      ['', 'figure'],
      [
        ['CPU µs per rejected request', median(costs.rejected).toFixed(1)],
        ['CPU µs per good request, gateway without rejections', median(costs.calm).toFixed(1)],
        ['CPU µs per good request, after rejections', median(costs.after).toFixed(1)],
        [
          'difference in each run',
          costs.after.map((us, run) => (us - (costs.calm[run] ?? 0)).toFixed(1)).join(' '),
        ],
        ['RSS MiB, before and after', `${beforeMib.toFixed(0)} ${rssMibOf(stormy.pid).toFixed(0)}`],
        ['growth of the data directory in a storm, MiB', median(growthMib).toFixed(1)],
        ['longest stall of the event loop, ms of CPU', stallMs.toFixed(1)],
        ['rejected, counted by the metrics', `${total} ${counted}`],
      ],
    )
    console.log(`Goal (a good request takes ≤ ${GOAL_US} µs more): ${inWords(more <= GOAL_US)}.`)
    console.log(`Goal (every rejection is counted): ${inWords(counted === total)}.`)
  } finally {
    for (const gateway of gateways) await gateway.stop()
    await upstream.stop()
  }
}
