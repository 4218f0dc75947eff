import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findProgram, run } from './process.ts'

export type Load = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly connections: number
  /** Each connection sends a request this often, and not as fast as they are answered. */
  readonly everyMs?: number
} & ({ readonly seconds: number } | { readonly requests: number })

export type Figures = {
  readonly requests: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly failed: number
}

const CLIENT = fileURLToPath(new URL('./client.ts', import.meta.url))
const MOST_MS = 300_000

export const LOAD_GENERATOR = findProgram('wrk') ? 'wrk' : 'a Node.js client (wrk is not installed)'

// The JSON escapes of printable text are also valid in Lua.
const inLua = (text: string) => JSON.stringify(text)

/** wrk reports percentiles in microseconds and counts statuses of 400 and above as failed. */
const luaOf = ({ headers, body }: Load) => `
wrk.method = "POST"
wrk.body = ${inLua(body)}
${Object.entries({ 'content-type': 'application/json', ...headers })
  .map(([name, value]) => `wrk.headers[${inLua(name)}] = ${inLua(value)}`)
  .join('\n')}
done = function(summary, latency, requests)
  local e = summary.errors
  print(string.format('FIGURES {"requests":%d,"perSecond":%f,"p50Ms":%f,"p99Ms":%f,"failed":%d}',
    summary.requests, summary.requests / summary.duration * 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    e.connect + e.read + e.write + e.status + e.timeout))
end
`

async function byWrk(wrk: string, load: Load & { seconds: number }): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-wrk-'))
  try {
    writeFileSync(join(folder, 'load.lua'), luaOf(load))
    const args = [
      '-t1',
      `-c${load.connections}`,
      `-d${load.seconds}s`,
      '-s',
      join(folder, 'load.lua'),
      load.url,
    ]
    const printed = await run(wrk, args, { mostMs: MOST_MS })
    return JSON.parse(/^FIGURES (.*)$/m.exec(printed)?.[1] ?? 'null') as Figures
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Sends requests as fast as they are answered, from a separate process: wrk for a duration, our own client for a number. */
export async function putLoad(load: Load): Promise<Figures> {
  const wrk = findProgram('wrk')
  if (wrk && 'seconds' in load) return byWrk(wrk, load)
  return JSON.parse(
    await run(process.execPath, [CLIENT, JSON.stringify(load)], { mostMs: MOST_MS }),
  ) as Figures
}
