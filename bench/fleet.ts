import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { createDatabase, POSTGRES_VARIABLE, startPostgres } from '../test/support/postgres.ts'
import { QUESTION } from './answers.ts'
import { putLoad } from './load.ts'
import type { Options } from './options.ts'
import { costOf, startReporting } from './process.ts'
import { type Sluice, startSluice } from './sluice.ts'
import { inWords, median, printTable } from './table.ts'

/** What a request costs PostgreSQL, with 1, 2 and 4 nodes on it. */
const NODES = [1, 2, 4] as const
/** Requests of each node. */
const REQUESTS = 3_000
const CONNECTIONS = 8
/** Each connection of a paced load sends a request this often: 8 connections send 160 a second. */
const PACE_MS = 50
const WARM_UP = 400
const GOAL = { perCore: 2_000, growth: 1.2 }
const UPSTREAM = fileURLToPath(new URL('./upstream.ts', import.meta.url))
const SECRET = 'a master secret that all nodes of a bench have'

type LoadKind = 'paced' | 'full'
type Measurement = {
  readonly perSecond: number
  readonly cpuUs: number
  readonly walBytes: number
  readonly failed: number
}

async function walPosition(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') as bytes")
    return Number(rows[0].bytes)
  } finally {
    await client.end()
  }
}

/** Sends the same number of requests to every node, at a pace or as fast as they are answered. */
async function loadAll(nodes: readonly Sluice[], requests: number, kind: LoadKind) {
  const [{ headers } = { headers: {} }] = nodes
  const startMs = performance.now()
  const all = await Promise.all(
    nodes.map(({ chatUrl }) =>
      putLoad({
        url: chatUrl,
        headers,
        body: QUESTION,
        connections: CONNECTIONS,
        requests,
        ...(kind === 'paced' && { everyMs: PACE_MS }),
      }),
    ),
  )
  const sum = (of: (figures: (typeof all)[number]) => number) =>
    all.reduce((total, each) => total + of(each), 0)
  const count = sum(each => each.requests)
  return {
    requests: count,
    failed: sum(each => each.failed),
    perSecond: (count * 1_000) / (performance.now() - startMs),
  }
}

async function measure(
  nodeCount: number,
  { requests = REQUESTS }: Options,
  postgres: { readonly url: string; pid(): number },
): Promise<Record<LoadKind, Measurement>> {
  const upstream = await startReporting<[string]>([UPSTREAM, '--does', 'answer'])
  const database = await createDatabase()
  const nodes: Sluice[] = []
  const env = { DATABASE_URL: database.url, SLUICE_SECRET: SECRET, SLUICE_WORKERS: '1' }
  async function cost(kind: LoadKind): Promise<Measurement> {
    const walBefore = await walPosition(postgres.url)
    const figures = await costOf(postgres.pid(), {
      load: () => loadAll(nodes, requests, kind),
      units: each => each.requests,
    })
    const walBytes = ((await walPosition(postgres.url)) - walBefore) / figures.requests
    return { ...figures, walBytes }
  }
  try {
    for (let i = 0; i < nodeCount; i++) nodes.push(await startSluice({ env }))
    await nodes[0]?.addChannel(upstream.report[0])
    await loadAll(nodes, WARM_UP, 'full')
    return { paced: await cost('paced'), full: await cost('full') }
  } finally {
    for (const node of nodes) await node.stop()
    await database.drop()
    await upstream.stop()
  }
}

const KINDS = {
  paced: 'paced, 160 a second and node',
  full: 'as fast as answered',
} as const satisfies Record<LoadKind, string>

export async function benchFleet(options: Options): Promise<void> {
  const postgres = await startPostgres()
  process.env[POSTGRES_VARIABLE] = postgres.url
  const runs = new Map(NODES.map(nodeCount => [nodeCount, [] as Record<LoadKind, Measurement>[]]))
  try {
    // Interleaved: the speed of a shared machine changes over minutes.
    for (let run = 0; run < options.runs; run++)
      for (const nodeCount of NODES) runs.get(nodeCount)?.push(await measure(nodeCount, options, postgres))
  } finally {
    await postgres.stop()
  }
  const rows: string[][] = []
  const costs: Record<LoadKind, number[]> = { paced: [], full: [] }
  for (const kind of Object.keys(KINDS) as LoadKind[])
    for (const nodeCount of NODES) {
      const all = (runs.get(nodeCount) ?? []).map(run => run[kind])
      const of = (figure: keyof Measurement) => median(all.map(each => each[figure]))
      costs[kind].push(of('cpuUs'))
      rows.push([
        KINDS[kind],
        String(nodeCount),
        of('perSecond').toFixed(0),
        of('cpuUs').toFixed(0),
        of('walBytes').toFixed(0),
        (1_000_000 / of('cpuUs')).toFixed(0),
        String(all.reduce((sum, { failed }) => sum + failed, 0)),
      ])
    }
  console.log(`fleet: what a request costs PostgreSQL, median of ${options.runs} runs\n`)
  printTable(
    [
      'load',
      'nodes',
      'requests/s',
      'CPU µs per request',
      'WAL bytes per request',
      'requests/s per core',
      'failed',
    ],
    rows,
  )
  const growth = (kind: LoadKind) => (costs[kind].at(-1) ?? 0) / (costs[kind][0] ?? 1)
  const isFlat = growth('paced') <= GOAL.growth
  const isCheap = Math.max(...costs.full) <= 1_000_000 / GOAL.perCore
  console.log(`Goal (4 nodes cost PostgreSQL ≤ 1.2 × of 1 per request, paced): ${inWords(isFlat)}.`)
  console.log(`Goal (≥ 2,000 settled requests a second per core of PostgreSQL): ${inWords(isCheap)}.`)
}
