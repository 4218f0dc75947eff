import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MODEL, QUESTION, STREAM, STREAM_MODEL, STREAM_QUESTION } from './answers.ts'
import { type Figures, LOAD_GENERATOR, putLoad } from './load.ts'
import { hasNginx, startPlainNginx, startStaticAnswer } from './nginx.ts'
import type { Options } from './options.ts'
import { startPortkey } from './portkey.ts'
import { type Costed, childrenOf, costOf, cpuMsOf, rssMibOf, run, startReporting } from './process.ts'
import { startSluice } from './sluice.ts'
import type { StreamFigures, StreamLoad } from './stream-client.ts'
import { median, printTable } from './table.ts'

/**
 * The cost of a gateway, in one run on one machine: CPU time for a small chat request and for a chunk of a stream, compared
 * with nginx as a plain proxy, a minimal proxy in Node.js, and another gateway.
 */
const BUSY = { connections: 64, seconds: 4 }
const ALONE = { connections: 1, seconds: 2 }
const STREAMS = { connections: 200, rounds: 4, streamMs: STREAM.chunks * STREAM.paceMs }
/** Warm-up until the code is compiled: before that, the compiler threads would be measured. */
const WARMING = { seconds: 10, rounds: 2 }
const STREAM_MOST_MS = 120_000

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url))

type Target = { readonly url: string; readonly headers: Readonly<Record<string, string>> }
type Contender = {
  readonly name: string
  /** The root of the measured process tree. */
  readonly pid: number
  readonly whole: Target
  readonly stream: Target
  stop(): Promise<void>
}
type Upstreams = { readonly whole: string; readonly stream: string }

const OBSERVED = 'Sluice, log and traces'
const CHAT = '/v1/chat/completions'
const KEY = { authorization: 'Bearer k' }

async function nginx(upstreams: Upstreams, folder: string): Promise<Contender> {
  const { pid, stop, wholeUrl, streamUrl } = await startPlainNginx(folder, upstreams)
  return {
    name: 'nginx, plain proxy',
    pid,
    stop,
    whole: { url: `${wholeUrl}${CHAT}`, headers: KEY },
    stream: { url: `${streamUrl}${CHAT}`, headers: KEY },
  }
}

async function bare({ whole, stream }: Upstreams): Promise<Contender> {
  const { pid, stop, report } = await startReporting<string>([pathOf('plain-proxy.ts'), whole, stream])
  const target = { url: `${report}${CHAT}`, headers: KEY }
  return { name: 'bare node:http + undici', pid, stop, whole: target, stream: target }
}

async function portkey({ whole, stream }: Upstreams): Promise<Contender> {
  const { pid, stop, url, headersFor } = await startPortkey()
  return {
    name: 'Portkey 1.15.2',
    pid,
    stop,
    whole: { url: `${url}${CHAT}`, headers: headersFor(whole) },
    stream: { url: `${url}${CHAT}`, headers: headersFor(stream) },
  }
}

type SluiceSetup = { readonly engine: Options['engine']; readonly name: string; readonly env?: Env }
type Env = Readonly<Record<string, string>>

async function sluice(
  { whole, stream }: Upstreams,
  { engine, name, env = {} }: SluiceSetup,
): Promise<Contender> {
  const { pid, stop, chatUrl, headers, addChannel } = await startSluice({ engine, env })
  await addChannel(whole, [MODEL])
  await addChannel(stream, [STREAM_MODEL])
  const target = { url: chatUrl, headers }
  return { name, pid, stop, whole: target, stream: target }
}

/** Sluice with the log line of each request, traces and metrics by OTLP. This process receives and discards them. */
async function observedSluice(upstreams: Upstreams): Promise<Contender> {
  const receiver = createServer((request, response) => {
    request.resume().on('end', () => response.end())
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  const { port } = receiver.address() as AddressInfo
  const env = { SLUICE_LOG: 'info', OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` }
  const contender = await sluice(upstreams, { engine: 'sqlite', name: OBSERVED, env })
  return {
    ...contender,
    async stop() {
      await contender.stop()
      receiver.close()
      receiver.closeAllConnections()
    },
  }
}

async function assemble(upstreams: Upstreams, { engine }: Options, folder: string): Promise<Contender[]> {
  const contenders: Contender[] = []
  if (hasNginx()) contenders.push(await nginx(upstreams, folder))
  else
    console.log('nginx is not installed (Debian: nginx-light), so there is no lower bound to compare with.')
  contenders.push(await bare(upstreams))
  try {
    contenders.push(await portkey(upstreams))
  } catch (error) {
    console.log(`Portkey is left out: ${error instanceof Error ? error.message : error}.`)
  }
  // One gateway only uses the bench's PostgreSQL, whose CPU time is divided by its requests.
  if (engine === 'sqlite') contenders.push(await observedSluice(upstreams))
  contenders.push(await sluice(upstreams, { engine, name: `Sluice, ${engine}` }))
  return contenders
}

const ask = (target: Target, how: typeof BUSY) => putLoad({ ...target, body: QUESTION, ...how })

async function askStreams(target: Target, rounds: number): Promise<StreamFigures> {
  const load: StreamLoad = { ...target, body: STREAM_QUESTION, ...STREAMS, rounds }
  const printed = await run(process.execPath, [pathOf('stream-client.ts'), JSON.stringify(load)], {
    mostMs: STREAM_MOST_MS,
  })
  return JSON.parse(printed) as StreamFigures
}

type Runs = { busy: Costed<Figures>[]; alone: Figures[]; streams: Costed<StreamFigures>[]; rssMib: number }

async function measureOnce({ pid, whole, stream }: Contender, runs: Runs): Promise<void> {
  runs.busy.push(await costOf(pid, { load: () => ask(whole, BUSY), units: ({ requests }) => requests }))
  runs.alone.push(await ask(whole, ALONE))
  runs.streams.push(
    await costOf(pid, {
      load: () => askStreams(stream, STREAMS.rounds),
      units: ({ streams }) => streams * STREAM.chunks,
    }),
  )
  runs.rssMib = rssMibOf(pid)
}

const HEAD = [
  '',
  'req/s',
  'CPU µs/req',
  '× nginx',
  'p50/p99 ms, 1',
  'p50/p99 ms, 64',
  'CPU µs/chunk',
  '× nginx',
  '+first byte p50/p99 ms',
  'RSS MiB',
  'failed',
]

type Baseline = {
  readonly requestUs: number | undefined
  readonly chunkUs: number | undefined
  readonly direct: { readonly p50Ms: number; readonly p99Ms: number }
}

function rowOf(name: string, runs: Runs, { requestUs, chunkUs, direct }: Baseline): string[] {
  const busy = (pick: (run: Costed<Figures>) => number) => median(runs.busy.map(pick))
  const alone = (pick: (run: Figures) => number) => median(runs.alone.map(pick))
  const streams = (pick: (run: Costed<StreamFigures>) => number) => median(runs.streams.map(pick))
  const times = (value: number, of: number | undefined) => (of ? (value / of).toFixed(1) : '–')
  const pair = (p50: number, p99: number) => `${p50.toFixed(2)} / ${p99.toFixed(2)}`
  const failed = [...runs.busy, ...runs.alone, ...runs.streams].reduce((sum, run) => sum + run.failed, 0)
  return [
    name,
    busy(run => run.perSecond).toFixed(0),
    busy(run => run.cpuUs).toFixed(1),
    times(
      busy(run => run.cpuUs),
      requestUs,
    ),
    pair(
      alone(run => run.p50Ms),
      alone(run => run.p99Ms),
    ),
    pair(
      busy(run => run.p50Ms),
      busy(run => run.p99Ms),
    ),
    streams(run => run.cpuUs).toFixed(1),
    times(
      streams(run => run.cpuUs),
      chunkUs,
    ),
    pair(streams(run => run.firstP50Ms) - direct.p50Ms, streams(run => run.firstP99Ms) - direct.p99Ms),
    runs.rssMib.toFixed(0),
    String(failed),
  ]
}

/** PostgreSQL is a separate server: its CPU time is reported separately. */
const postgresPid = () =>
  childrenOf(process.pid).find(pid => readFileSync(`/proc/${pid}/comm`, 'utf8').trim() === 'postgres')

async function measure(contenders: readonly Contender[], streamUrl: string, { runs, engine }: Options) {
  const results = contenders.map((): Runs => ({ busy: [], alone: [], streams: [], rssMib: 0 }))
  const direct: StreamFigures[] = []
  const directTarget = { url: `${streamUrl}${CHAT}`, headers: KEY }
  for (const { whole, stream } of contenders) {
    await ask(whole, { ...BUSY, seconds: WARMING.seconds })
    await askStreams(stream, WARMING.rounds)
  }
  const postgres = engine === 'postgres' ? postgresPid() : undefined
  const postgresMs = postgres ? cpuMsOf(postgres) : 0
  // All targets alternate in each run, so that changes of the machine affect all.
  for (let run = 0; run < runs; run++) {
    direct.push(await askStreams(directTarget, 2))
    for (const [i, contender] of contenders.entries()) await measureOnce(contender, results[i] as Runs)
  }
  const postgresSpentMs = postgres ? cpuMsOf(postgres) - postgresMs : undefined
  return { results, direct, postgresSpentMs }
}

function report(
  contenders: readonly Contender[],
  { results, direct, postgresSpentMs }: Awaited<ReturnType<typeof measure>>,
): void {
  const limit = contenders[0]?.name.startsWith('nginx') ? results[0] : undefined
  const baseline = {
    requestUs: limit && median(limit.busy.map(run => run.cpuUs)),
    chunkUs: limit && median(limit.streams.map(run => run.cpuUs)),
    direct: {
      p50Ms: median(direct.map(run => run.firstP50Ms)),
      p99Ms: median(direct.map(run => run.firstP99Ms)),
    },
  }
  printTable(
    HEAD,
    contenders.map(({ name }, i) => rowOf(name, results[i] as Runs, baseline)),
  )
  const { p50Ms, p99Ms } = baseline.direct
  console.log(
    `First byte of a stream from the provider itself: p50 ${p50Ms.toFixed(2)} ms, p99 ${p99Ms.toFixed(2)} ms.`,
  )
  const ours = results.at(-1) as Runs
  const observed = results[contenders.findIndex(({ name }) => name === OBSERVED)]
  const cpuOf = (runs: Runs) => median(runs.busy.map(run => run.cpuUs))
  if (observed)
    console.log(
      `Log line, traces and metrics: ${((cpuOf(observed) / cpuOf(ours) - 1) * 100).toFixed(1)} % more CPU per request.`,
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
  const paced = await startReporting<[string]>([pathOf('upstream.ts')])
  const [streamUrl] = paced.report
  const still = hasNginx() ? await startStaticAnswer(join(folder, 'static')) : undefined
  const upstreams = { whole: still?.url ?? streamUrl, stream: streamUrl }
  let contenders: readonly Contender[] = []
  try {
    contenders = await assemble(upstreams, options, join(folder, 'proxy'))
    console.log(
      `relay: median of ${options.runs} runs; whole answers for ${BUSY.seconds} s with ${BUSY.connections} connections ` +
        `by ${LOAD_GENERATOR}; ${STREAMS.connections} streams at once of ${STREAM.chunks} chunks ${STREAM.paceMs} ms apart\n`,
    )
    report(contenders, await measure(contenders, streamUrl, options))
  } finally {
    await Promise.all([...contenders, paced, ...(still ? [still] : [])].map(({ stop }) => stop()))
    rmSync(folder, { recursive: true, force: true })
  }
}
