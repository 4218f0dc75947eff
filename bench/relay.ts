import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { QUESTION, STREAM, STREAM_QUESTION } from './answers.ts'
import { createAuthority } from './authority.ts'
import { type Contender, DEFAULT_ROW, startContenders, type Target } from './contenders.ts'
import { type Figures, LOAD_GENERATOR, putLoad } from './load.ts'
import { hasNginx, startStaticAnswer } from './nginx.ts'
import type { Options } from './options.ts'
import { type Costed, childrenOf, costOf, cpuMsOf, rssMibOf, run, startReporting } from './process.ts'
import type { StreamFigures, StreamLoad } from './stream-client.ts'
import { median, printTable } from './table.ts'

/**
 * The cost of a gateway, in one run on one machine: CPU time for a small chat request and for a chunk of a stream, compared
 * with nginx as a plain proxy, a minimal proxy in Node.js, and other gateways.
 */
const BUSY = { connections: 64, seconds: 4 }
const ALONE = { connections: 1, seconds: 3 }
const STREAMS = { connections: 200, rounds: 4, streamMs: STREAM.chunks * STREAM.paceMs }
/** Until the code is compiled. By count: a slow machine needs more time. */
const WARMING = { connections: 64, requests: 30_000, rounds: 2 }
const STREAM_MOST_MS = 120_000
/** A gateway that is quiet has returned the memory of its young generation by then (ADR 42). */
const RETURNED_AFTER_MS = 100_000

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url))

async function askStreams(target: Target, rounds: number): Promise<StreamFigures> {
  const load: StreamLoad = { ...target, body: STREAM_QUESTION, ...STREAMS, rounds }
  const printed = await run(process.execPath, [pathOf('stream-client.ts'), JSON.stringify(load)], {
    mostMs: STREAM_MOST_MS,
  })
  return JSON.parse(printed) as StreamFigures
}

type Runs = {
  readonly busy: Costed<Figures>[]
  readonly alone: Costed<Figures>[]
  readonly streams: Costed<StreamFigures>[]
  readonly startMib: number
  rssMib: number
  quietMib: number
}

const whole = (pid: number, target: Target, how: typeof BUSY): Promise<Costed<Figures>> =>
  costOf(pid, {
    load: () => putLoad({ ...target, body: QUESTION, ...how }),
    units: ({ requests }) => requests,
  })

async function measureOnce(contender: Contender, runs: Runs): Promise<void> {
  const { pid } = contender
  runs.busy.push(await whole(pid, contender.whole, BUSY))
  runs.alone.push(await whole(pid, contender.whole, ALONE))
  runs.streams.push(
    await costOf(pid, {
      load: () => askStreams(contender.stream, STREAMS.rounds),
      units: ({ streams }) => streams * STREAM.chunks,
    }),
  )
  runs.rssMib = rssMibOf(pid)
}

async function measure(contenders: readonly Contender[], { runs, engine }: Options) {
  const results = contenders.map(
    ({ pid }): Runs => ({
      busy: [],
      alone: [],
      streams: [],
      startMib: rssMibOf(pid),
      rssMib: 0,
      quietMib: 0,
    }),
  )
  for (const { whole: target, stream } of contenders) {
    await putLoad({ ...target, body: QUESTION, ...WARMING })
    await askStreams(stream, WARMING.rounds)
  }
  const postgres = engine === 'postgres' ? postgresPid() : undefined
  const postgresMs = postgres ? cpuMsOf(postgres) : 0
  // All contenders alternate in each run, so that changes of the machine affect all.
  for (let run = 0; run < runs; run++)
    for (const [i, contender] of contenders.entries()) await measureOnce(contender, results[i] as Runs)
  await sleep(RETURNED_AFTER_MS)
  for (const [i, { pid }] of contenders.entries()) (results[i] as Runs).quietMib = rssMibOf(pid)
  const postgresSpentMs = postgres ? cpuMsOf(postgres) - postgresMs : undefined
  return { results, postgresSpentMs }
}

/** PostgreSQL is a separate server: its CPU time is reported separately. */
const postgresPid = () =>
  childrenOf(process.pid).find(pid => readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'postgres')

const HEAD = [
  '',
  'CPU µs/req, 64',
  '× nginx',
  'CPU µs/req, 1',
  '× nginx',
  'p50 ms, 1',
  '× nginx',
  'CPU µs/chunk',
  '× nginx',
  '+first byte p50 ms',
  'p99 ms, 64',
  'req/s',
  'RSS start/load/quiet',
  'failed',
]

type Series<F> = readonly F[]

/** The ratio in each run, as its median and spread: the machine changes between runs. */
function ratio<F>(ours: Series<F>, limit: Series<F> | undefined, pick: (run: F) => number): string {
  if (!limit) return '–'
  const ratios = ours.map((run, i) => pick(run) / pick(limit[i] as F))
  const [least, most] = [Math.min(...ratios), Math.max(...ratios)]
  return `${median(ratios).toFixed(2)} (${least.toFixed(2)}–${most.toFixed(2)})`
}

const cpu = (run: { readonly cpuUs: number }) => run.cpuUs
const p50 = (run: Figures) => run.p50Ms

function rowOf(name: string, runs: Runs, limit: Runs | undefined): string[] {
  const { busy, alone, streams } = runs
  const firstMs = streams.map((run, i) => run.firstP50Ms - (limit?.streams[i]?.firstP50Ms ?? 0))
  const failed = [...busy, ...alone, ...streams].reduce((sum, run) => sum + run.failed, 0)
  return [
    name,
    median(busy.map(cpu)).toFixed(1),
    ratio(busy, limit?.busy, cpu),
    median(alone.map(cpu)).toFixed(1),
    ratio(alone, limit?.alone, cpu),
    median(alone.map(p50)).toFixed(3),
    ratio(alone, limit?.alone, p50),
    median(streams.map(cpu)).toFixed(1),
    ratio(streams, limit?.streams, cpu),
    median(firstMs).toFixed(2),
    median(busy.map(run => run.p99Ms)).toFixed(2),
    median(busy.map(run => run.perSecond)).toFixed(0),
    [runs.startMib, runs.rssMib, runs.quietMib].map(mib => mib.toFixed(0)).join(' / '),
    String(failed),
  ]
}

function report(
  contenders: readonly Contender[],
  { results, postgresSpentMs }: Awaited<ReturnType<typeof measure>>,
): void {
  const limit = contenders[0]?.name.startsWith('nginx') ? results[0] : undefined
  printTable(
    HEAD,
    contenders.map(({ name }, i) => rowOf(name, results[i] as Runs, limit)),
  )
  const ours = results[contenders.findIndex(({ name }) => name === DEFAULT_ROW)] as Runs
  for (const [i, { name }] of contenders.entries())
    if (name.startsWith(`${DEFAULT_ROW},`))
      console.log(
        `${name}: CPU per request ${ratio((results[i] as Runs).busy, ours.busy, cpu)} × ${DEFAULT_ROW}.`,
      )
  if (postgresSpentMs === undefined) return
  const requests = [...ours.busy, ...ours.alone].reduce((sum, run) => sum + run.requests, 0)
  const streams = ours.streams.reduce((sum, run) => sum + run.streams, 0)
  console.log(
    `PostgreSQL itself, not in the table: ${((postgresSpentMs * 1_000) / (requests + streams)).toFixed(1)} µs per request.`,
  )
}

export async function benchRelay(options: Options): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-relay-'))
  const authority = options.tls ? await createAuthority(folder) : undefined
  const paced = await startReporting<[string]>([
    pathOf('upstream.ts'),
    ...(authority ? ['--cert', authority.cert, '--key', authority.key] : []),
  ])
  const [streamUrl] = paced.report
  const still = hasNginx() ? await startStaticAnswer(join(folder, 'static'), authority) : undefined
  const upstreams = { whole: still?.url ?? streamUrl, stream: streamUrl, ca: authority?.cert }
  let contenders: readonly Contender[] = []
  try {
    contenders = await startContenders(upstreams, options, join(folder, 'proxy'))
    console.log(
      `relay${options.tls ? ' over TLS to the provider' : ''}: median of ${options.runs} runs (least–most); whole answers for ${BUSY.seconds} s with ` +
        `${BUSY.connections} connections by ${LOAD_GENERATOR}; ${STREAMS.connections} streams at once of ${STREAM.chunks} chunks ` +
        `${STREAM.paceMs} ms apart; warmed by ${WARMING.requests} requests\n`,
    )
    report(contenders, await measure(contenders, options))
  } finally {
    await Promise.all([...contenders, paced, ...(still ? [still] : [])].map(({ stop }) => stop()))
    rmSync(folder, { recursive: true, force: true })
  }
}
