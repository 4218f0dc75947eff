import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { percentile } from './table.ts'

/** A separate process that keeps many streams open and prints the results as JSON. */
export type StreamLoad = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly connections: number
  readonly rounds: number
  /** The duration of one stream. The first streams of all connections start evenly spread over it. */
  readonly streamMs: number
  /** The text that a complete stream contains; absent: the end of a chat completion. */
  readonly last?: string
}

export type StreamFigures = {
  readonly streams: number
  readonly events: number
  readonly firstP50Ms: number
  readonly firstP99Ms: number
  readonly failed: number
}

const EVENT = Buffer.from('data: ')
const load = JSON.parse(process.argv[2] ?? '{}') as StreamLoad
const LAST = Buffer.from(load.last ?? 'data: [DONE]')
const url = new URL(load.url)
const pool = new Pool(url.origin, { connections: load.connections, pipelining: 1, allowH2: false })
const firsts: number[] = []
let events = 0
let failed = 0

function countEvents(chunk: Buffer): void {
  for (let at = chunk.indexOf(EVENT); at >= 0; at = chunk.indexOf(EVENT, at + EVENT.length)) events += 1
}

async function ask(): Promise<void> {
  const start = performance.now()
  let isWhole = false
  let isFirst = true
  try {
    const { statusCode, body } = await pool.request({
      path: url.pathname + url.search,
      method: 'POST',
      headers: { 'content-type': 'application/json', ...load.headers },
      body: load.body,
    })
    for await (const chunk of body as AsyncIterable<Buffer>) {
      if (isFirst) firsts.push(performance.now() - start)
      isFirst = false
      countEvents(chunk)
      isWhole ||= statusCode === 200 && chunk.includes(LAST)
    }
  } catch {
    // A broken stream lacks its last event, which is counted.
    isWhole = false
  }
  if (!isWhole) failed += 1
}

await Promise.all(
  Array.from({ length: load.connections }, async (_, i) => {
    await sleep((i * load.streamMs) / load.connections)
    for (let round = 0; round < load.rounds; round++) await ask()
  }),
)
firsts.sort((a, b) => a - b)
console.log(
  JSON.stringify({
    streams: load.connections * load.rounds,
    events,
    firstP50Ms: percentile(firsts, 0.5),
    firstP99Ms: percentile(firsts, 0.99),
    failed,
  } satisfies StreamFigures),
)
await pool.destroy()
