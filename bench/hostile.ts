import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { QUESTION } from './answers.ts'
import { HOSTILE, type HostileOrder } from './hostile-client.ts'
import { openInspector } from './inspector.ts'
import { putLoad } from './load.ts'
import type { Options } from './options.ts'
import { start, startTold } from './process.ts'
import { type Sluice, startSluice } from './sluice.ts'
import { inWords, printTable } from './table.ts'

/**
 * How long everybody waits while one client sends what hurts: seen from outside by a question every millisecond, and
 * inside by the event loop's own delay, read through the inspector.
 */
const GOAL_MS = 20
const TIMES = 5
const RESOLUTION_MS = 1

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url))

const WATCH = `globalThis.benchDelay ??= (() => {
  const delay = process.getBuiltinModule('node:perf_hooks').monitorEventLoopDelay({ resolution: ${RESOLUTION_MS} })
  delay.enable()
  return delay
})(); benchDelay.reset(); 0`

const startTalking = (args: readonly string[]) =>
  start(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })

async function heard(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error('nothing can be heard of it')
  const [data] = await once(child.stdout, 'data')
  return String(data).trim()
}

type Watch = {
  readonly pinger: ChildProcess
  readonly inspector: Awaited<ReturnType<typeof openInspector>>
}

async function outsideMs(pinger: ChildProcess): Promise<number> {
  pinger.stdin?.write('\n')
  return (JSON.parse(await heard(pinger)) as { mostMs: number }).mostMs
}

async function measure(
  name: keyof typeof HOSTILE,
  { chatUrl, headers }: Sluice,
  { pinger, inspector }: Watch,
) {
  const order: HostileOrder = { url: chatUrl, headers, name, times: TIMES }
  const sender = startTalking([pathOf('hostile-client.ts'), JSON.stringify(order)])
  await heard(sender.child)
  await inspector.evaluate(WATCH)
  await outsideMs(pinger)
  sender.child.stdin?.write('\n')
  const statuses = JSON.parse(await heard(sender.child)) as string[]
  await sleep(200)
  const outside = await outsideMs(pinger)
  const inside = (await inspector.evaluate('benchDelay.max')) / 1e6 - RESOLUTION_MS
  await sender.stop()
  return { statuses, outside, inside }
}

export async function benchHostile({ engine }: Options): Promise<void> {
  const upstream = await startTold<[string]>([pathOf('upstream.ts')])
  const sluice = await startSluice({ engine, inspected: true })
  const pinger = startTalking([pathOf('pinger.ts'), sluice.url])
  try {
    await sluice.addChannel(upstream.told[0])
    const load = { url: sluice.chatUrl, headers: sluice.headers, body: QUESTION, connections: 16 }
    await putLoad({ ...load, requests: 5_000 })
    const inspector = await openInspector(sluice.inspectorPort)
    const rows: string[][] = []
    let mostMs = 0
    for (const name of Object.keys(HOSTILE) as (keyof typeof HOSTILE)[]) {
      const { statuses, outside, inside } = await measure(name, sluice, { pinger: pinger.child, inspector })
      mostMs = Math.max(mostMs, inside)
      rows.push([name, statuses.join(' '), outside.toFixed(1), inside.toFixed(1)])
    }
    inspector.close()
    console.log(`hostile: the longest wait of others while a client sends each of these ${TIMES} times\n`)
    printTable(['sent', 'answered', 'outside ms', 'event loop ms'], rows)
    console.log(`Goal (event loop stalls ≤ ${GOAL_MS} ms): ${inWords(mostMs <= GOAL_MS)}.`)
  } finally {
    await pinger.stop()
    await sluice.stop()
    await upstream.stop()
  }
}
