import { Pool } from 'undici'

/** A process of its own that asks one address as fast as it is answered, and prints what it saw as JSON. */
type Order = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly connections: number
  readonly requests: number
}

const order = JSON.parse(process.argv[2] ?? '{}') as Order
const url = new URL(order.url)
const pool = new Pool(url.origin, { connections: order.connections, pipelining: 1, allowH2: false })
const times: number[] = []
let left = order.requests
let failed = 0

async function ask(): Promise<void> {
  const start = performance.now()
  const { statusCode, body } = await pool.request({
    path: url.pathname,
    method: 'POST',
    headers: { 'content-type': 'application/json', ...order.headers },
    body: order.body,
  })
  await body.dump()
  if (statusCode !== 200) failed += 1
  times.push(performance.now() - start)
}

const started = performance.now()
await Promise.all(
  Array.from({ length: order.connections }, async () => {
    while (left-- > 0) await ask()
  }),
)
const seconds = (performance.now() - started) / 1000
times.sort((a, b) => a - b)
const at = (share: number) => times[Math.floor(times.length * share)] ?? 0
console.log(JSON.stringify({ perSecond: times.length / seconds, p50Ms: at(0.5), p99Ms: at(0.99), failed }))
await pool.close()
