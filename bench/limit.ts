import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MODEL, QUESTION } from './answers.ts'
import { CHAT, type Contender, KEY, type Target } from './contenders.ts'
import { type Figures, putLoad } from './load.ts'
import { startPlainNginx, startStaticAnswer } from './nginx.ts'
import type { Options } from './options.ts'
import { type Costed, costOf, startReporting } from './process.ts'
import { startSluice } from './sluice.ts'
import { median, printTable } from './table.ts'

/**
 * How much of a request's CPU time is HTTP, how much the ledger, and how much everything else: nginx, the least gateway
 * without and with a ledger, and Sluice, interleaved.
 */
const LOADS = [
  { connections: 64, seconds: 4 },
  { connections: 1, seconds: 3 },
] as const
const WARMING_REQUESTS = 40_000

type Row = Pick<Contender, 'name' | 'pid' | 'stop'> & { readonly target: Target }

async function startLeast(name: string, origin: string, ...flags: string[]): Promise<Row> {
  const program = fileURLToPath(new URL('least-gateway.ts', import.meta.url))
  const { pid, stop, report } = await startReporting<string>([program, origin, ...flags])
  return { name, pid, stop, target: { url: `${report}${CHAT}`, headers: KEY } }
}

async function startRows(origin: string, folder: string): Promise<Row[]> {
  const nginx = await startPlainNginx(folder, { whole: origin, stream: origin })
  const sluice = await startSluice({ env: { SLUICE_LOG: 'info' } })
  await sluice.addChannel(origin, [MODEL])
  const { pid, stop, chatUrl, headers } = sluice
  return [
    {
      name: 'nginx',
      pid: nginx.pid,
      stop: nginx.stop,
      target: { url: `${nginx.wholeUrl}${CHAT}`, headers: KEY },
    },
    await startLeast('HTTP alone', origin),
    await startLeast('HTTP and ledger', origin, '--ledger'),
    { name: 'Sluice', pid, stop, target: { url: chatUrl, headers } },
  ]
}

const measure = ({ pid, target }: Row, load: (typeof LOADS)[number]): Promise<Costed<Figures>> =>
  costOf(pid, {
    load: () => putLoad({ ...target, body: QUESTION, ...load }),
    units: ({ requests }) => requests,
  })

function cellsOf(runs: readonly Costed<Figures>[], limit: readonly Costed<Figures>[]): string[] {
  const ratios = runs.map(({ cpuUs }, i) => cpuUs / (limit[i] as Costed<Figures>).cpuUs)
  const spread = `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`
  return [median(runs.map(({ cpuUs }) => cpuUs)).toFixed(1), `${median(ratios).toFixed(2)} (${spread})`]
}

export async function benchLimit({ runs }: Options): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-limit-'))
  const answers = await startStaticAnswer(join(folder, 'static'))
  let rows: readonly Row[] = []
  try {
    rows = await startRows(answers.url, join(folder, 'proxy'))
    const results = rows.map(() => LOADS.map((): Costed<Figures>[] => []))
    for (const { target } of rows)
      await putLoad({ ...target, body: QUESTION, connections: 64, requests: WARMING_REQUESTS })
    for (let run = 0; run < runs; run++)
      for (const [load, options] of LOADS.entries())
        for (const [row, each] of rows.entries()) results[row]?.[load]?.push(await measure(each, options))
    console.log(
      `limit: median of ${runs} interleaved runs (least–most), warmed by ${WARMING_REQUESTS} requests\n`,
    )
    const [nginx = []] = results
    printTable(
      ['', ...LOADS.flatMap(({ connections }) => [`CPU µs/req, ${connections}`, '× nginx'])],
      rows.map(({ name }, row) => [
        name,
        ...LOADS.flatMap((_, load) => cellsOf(results[row]?.[load] ?? [], nginx[load] ?? [])),
      ]),
    )
  } finally {
    await Promise.all([...rows, answers].map(({ stop }) => stop()))
    rmSync(folder, { recursive: true, force: true })
  }
}
