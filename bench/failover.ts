import { fileURLToPath } from 'node:url'
import { freePort } from '../test/support/free-port.ts'
import { QUESTION } from './answers.ts'
import { putLoad } from './load.ts'
import type { Options } from './options.ts'
import { startReporting, untilQuiet } from './process.ts'
import { startSluice } from './sluice.ts'
import { inWords, printTable } from './table.ts'

/** One of three channels is down: how many requests succeed, and how many attempts they need. */
const REQUESTS = 10_000
const CONNECTIONS = 32
const GOAL = { share: 0.999, attempts: 1.2 }
const UPSTREAM = fileURLToPath(new URL('./upstream.ts', import.meta.url))
const PAGE = 500

const startUpstream = (does: string) => startReporting<[string]>([UPSTREAM, '--does', does])

type Dead = { readonly url: string; stop(): Promise<void>; dieMidway?: () => Promise<void> }

/** The kinds of failure. */
const DEATHS = {
  'refuses connections': async () => ({ url: `http://127.0.0.1:${await freePort()}`, stop: async () => {} }),
  'resets connections': async () => {
    const { report, stop } = await startUpstream('reset')
    return { url: report[0], stop }
  },
  'answers 500': async () => {
    const { report, stop } = await startUpstream('refuse')
    return { url: report[0], stop }
  },
  'killed in the middle': async () => {
    const { report, stop } = await startUpstream('answer')
    return { url: report[0], stop, dieMidway: () => stop('SIGKILL') }
  },
} as const satisfies Record<string, () => Promise<Dead>>

type Row = { readonly other: { readonly trace?: { readonly attempts: readonly unknown[] } } | string }

/** The gateway logs every attempt of a request that needed several. */
function attemptsOf({ other }: Row): number {
  const details =
    typeof other === 'string' ? (JSON.parse(other || '{}') as Exclude<Row['other'], string>) : other
  return details.trace?.attempts.length ?? 1
}

async function countAttempts(api: <T>(method: string, path: string) => Promise<T>) {
  let [rows, attempts] = [0, 0]
  for (let page = 1; ; page++) {
    const { items } = await api<{ items: Row[] }>('GET', `/api/log/?p=${page}&page_size=${PAGE}`)
    rows += items.length
    attempts += items.reduce((sum, row) => sum + attemptsOf(row), 0)
    if (items.length < PAGE) return { rows, attempts }
  }
}

async function measure(death: keyof typeof DEATHS, { requests = REQUESTS, engine }: Options) {
  const dead: Dead = await DEATHS[death]()
  const alive = [await startUpstream('answer'), await startUpstream('answer')]
  const sluice = await startSluice({ engine })
  try {
    for (const url of [dead.url, ...alive.map(({ report }) => report[0])]) await sluice.addChannel(url)
    const load = { url: sluice.chatUrl, headers: sluice.headers, body: QUESTION, connections: CONNECTIONS }
    const asking = putLoad({ ...load, requests })
    if (dead.dieMidway) {
      while ((await countAttempts(sluice.api)).rows < requests / 4) await new Promise(setImmediate)
      await dead.dieMidway()
    }
    const figures = await asking
    await untilQuiet(sluice.pid)
    return { ...figures, ...(await countAttempts(sluice.api)) }
  } finally {
    await sluice.stop()
    await Promise.all([dead, ...alive].map(({ stop }) => stop()))
  }
}

export async function benchFailover(options: Options): Promise<void> {
  const deaths = Object.keys(DEATHS) as (keyof typeof DEATHS)[]
  const rows: string[][] = []
  let isReached = true
  for (const death of deaths) {
    const { requests, failed, rows: logged, attempts, p50Ms, p99Ms } = await measure(death, options)
    const share = (requests - failed) / requests
    const each = attempts / Math.max(1, logged)
    isReached &&= share >= GOAL.share && each <= GOAL.attempts
    rows.push([
      death,
      String(requests),
      `${(share * 100).toFixed(2)} %`,
      each.toFixed(4),
      String(logged),
      `${p50Ms.toFixed(1)} / ${p99Ms.toFixed(1)}`,
    ])
  }
  console.log('failover: one of three channels of equal weight is down\n')
  printTable(['failure', 'requests', 'succeeded', 'attempts per request', 'in the log', 'p50/p99 ms'], rows)
  console.log(`Goal (≥ 99.9 % succeed, ≤ 1.2 attempts per request): ${inWords(isReached)}.`)
}
