import { fileURLToPath } from 'node:url'
import { QUESTION } from './answers.ts'
import { openInspector } from './inspector.ts'
import { putLoad } from './load.ts'
import type { Options } from './options.ts'
import { rssMibOf, startReporting, untilQuiet } from './process.ts'
import { startSluice } from './sluice.ts'
import { printTable } from './table.ts'

/** Whether memory grows with the number of requests: a leak shows as a slope. */
const REQUESTS = 200_000
const SAMPLES = 10
const CONNECTIONS = 64
const UPSTREAM = fileURLToPath(new URL('./upstream.ts', import.meta.url))

type Sample = { readonly requests: number; readonly rssMib: number; readonly heapMib: number }

/** Least squares, in bytes per request. */
function slopeOf(samples: readonly Sample[], pick: (sample: Sample) => number): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
  const x = samples.map(sample => sample.requests)
  const y = samples.map(pick)
  const [midX, midY] = [mean(x), mean(y)]
  const rise = x.reduce((sum, value, i) => sum + (value - midX) * ((y[i] ?? 0) - midY), 0)
  const run = x.reduce((sum, value) => sum + (value - midX) ** 2, 0)
  return (rise / run) * 1_048_576
}

export async function benchGrowth({ requests = REQUESTS, engine }: Options): Promise<void> {
  const upstream = await startReporting<[string]>([UPSTREAM])
  const sluice = await startSluice({ engine, inspected: true })
  try {
    await sluice.addChannel(upstream.report[0])
    const inspector = await openInspector(sluice.inspectorPort)
    const samples: Sample[] = []
    let failed = 0
    const sample = async (done: number) => {
      await untilQuiet(sluice.pid)
      const heapMib = await inspector.liveHeapMib()
      samples.push({ requests: done, rssMib: rssMibOf(sluice.pid), heapMib })
    }
    await sample(0)
    const step = Math.ceil(requests / SAMPLES)
    for (let done = step; done <= step * SAMPLES; done += step) {
      const load = { url: sluice.chatUrl, headers: sluice.headers, body: QUESTION, connections: CONNECTIONS }
      failed += (await putLoad({ ...load, requests: step })).failed
      await sample(done)
    }
    inspector.close()
    console.log(
      `growth: memory over ${step * SAMPLES} requests on ${engine}, sampled when idle and after garbage collection\n`,
    )
    printTable(
      ['requests', 'RSS MiB', 'live heap MiB'],
      samples.map(({ requests: done, rssMib, heapMib }) => [
        String(done),
        rssMib.toFixed(1),
        heapMib.toFixed(2),
      ]),
    )
    // The first half fills caches and pools; only growth after it matters.
    const late = samples.slice(SAMPLES / 2)
    console.log(
      `Slope of the second half: RSS ${slopeOf(late, ({ rssMib }) => rssMib).toFixed(1)}, ` +
        `live heap ${slopeOf(late, ({ heapMib }) => heapMib).toFixed(1)} bytes per request; ${failed} requests failed.`,
    )
  } finally {
    await sluice.stop()
    await upstream.stop()
  }
}
