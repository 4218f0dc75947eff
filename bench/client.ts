import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import type { Figures, Load } from './load.ts'
import { percentile } from './table.ts'

/** A separate process that sends requests to one URL as fast as they are answered, and prints the results as JSON. */
const load = JSON.parse(process.argv[2] ?? '{}') as Load
const { everyMs = 0 } = load
const url = new URL(load.url)
const pool = new Pool(url.origin, { connections: load.connections, pipelining: 1, allowH2: false })
const times: number[] = []
let failed = 0

async function ask(): Promise<void> {
  const start = performance.now()
  try {
    const { statusCode, body } = await pool.request({
      path: url.pathname,
      method: 'POST',
      headers: { 'content-type': 'application/json', ...load.headers },
      body: load.body,
    })
    await body.dump()
    if (statusCode !== 200) failed += 1
  } catch {
    // A broken connection is a failed request, which is counted.
    failed += 1
  }
  times.push(performance.now() - start)
}

const started = performance.now()
let sentRequests = 0
const isOver =
  'seconds' in load
    ? () => performance.now() - started >= load.seconds * 1_000
    : () => ++sentRequests > load.requests
await Promise.all(
  Array.from({ length: load.connections }, async () => {
    for (let nextMs = performance.now() + Math.random() * everyMs; !isOver(); nextMs += everyMs) {
      if (everyMs > 0) await sleep(Math.max(0, nextMs - performance.now()))
      await ask()
    }
  }),
)
const seconds = (performance.now() - started) / 1_000
times.sort((a, b) => a - b)
console.log(
  JSON.stringify({
    requests: times.length,
    perSecond: times.length / seconds,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
    failed,
  } satisfies Figures),
)
await pool.destroy()
