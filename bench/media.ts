import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Pool } from 'undici'
import { wavFile } from '../test/support/wav.ts'
import { hasNginx, startPlainNginx } from './nginx.ts'
import type { Options } from './options.ts'
import { cpuMsOf, startReporting, untilQuiet } from './process.ts'
import { startSluice } from './sluice.ts'
import { median, printTable } from './table.ts'

/** The cost of a megabyte that passes the gateway: as speech to a client, and as an upload to a provider. */
const CONNECTIONS = 8
/** Enough requests that warm-up and background work do not matter. */
const REQUESTS = 2_000
const WARMING = 4_000
const MEGABYTE = 1_048_576

const UPSTREAM = fileURLToPath(new URL('upstream.ts', import.meta.url))

type Asked = { readonly path: string; readonly type: string; readonly body: Buffer }

/** As long as those of real clients: the parser searches for all of it, so a short one would be slow. */
const BOUNDARY = '----formdata-undici-048627193505'

const part = (name: string, value: string | Buffer, more = '') =>
  Buffer.concat([
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n`),
    Buffer.from(value),
    Buffer.from('\r\n'),
  ])

const ASKED = {
  'speech of 1 MB': {
    path: '/v1/audio/speech',
    type: 'application/json',
    body: Buffer.from(JSON.stringify({ model: 'tts-1', input: 'Hello', voice: 'alloy' })),
  },
  'an upload of 1 MB': {
    path: '/v1/audio/transcriptions',
    type: `multipart/form-data; boundary=${BOUNDARY}`,
    body: Buffer.concat([
      part('model', 'whisper-1'),
      part('file', wavFile(MEGABYTE / 8_000), '; filename="a.wav"'),
      Buffer.from(`--${BOUNDARY}--\r\n`),
    ]),
  },
} as const satisfies Record<string, Asked>

type Contender = { readonly pid: number; readonly url: string; readonly headers: Record<string, string> }

async function load({ url, headers }: Contender, { path, type, body }: Asked, requests: number) {
  const pool = new Pool(url, { connections: CONNECTIONS, pipelining: 1, allowH2: false })
  let remaining = requests
  async function lane(): Promise<void> {
    while (remaining > 0) {
      remaining -= 1
      const answer = await pool.request({
        path,
        method: 'POST',
        headers: { 'content-type': type, ...headers },
        body,
      })
      await answer.body.dump({ limit: 4 * MEGABYTE })
      if (answer.statusCode !== 200) throw new Error(`${path} was answered ${answer.statusCode}`)
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, lane))
  await pool.close()
}

async function costUs(contender: Contender, asked: Asked): Promise<number> {
  await untilQuiet(contender.pid)
  const before = cpuMsOf(contender.pid)
  await load(contender, asked, REQUESTS)
  await untilQuiet(contender.pid)
  return ((cpuMsOf(contender.pid) - before) * 1_000) / REQUESTS
}

export async function benchMedia({ runs, engine }: Options): Promise<void> {
  if (!hasNginx())
    throw new Error('nginx is not installed (Debian: nginx-light), so there is nothing to compare with')
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-media-'))
  const upstream = await startReporting<[string]>([UPSTREAM, '--does', 'media'])
  const [url] = upstream.report
  const nginx = await startPlainNginx(folder, { whole: url, stream: url })
  const sluice = await startSluice({ engine })
  try {
    await sluice.addChannel(url, ['tts-1', 'whisper-1'])
    const contenders = {
      nginx: { pid: nginx.pid, url: nginx.wholeUrl, headers: { authorization: 'Bearer k' } },
      Sluice: { pid: sluice.pid, url: sluice.url, headers: sluice.headers },
    }
    const rows: string[][] = []
    for (const [name, asked] of Object.entries(ASKED)) {
      const costs: Record<keyof typeof contenders, number[]> = { nginx: [], Sluice: [] }
      for (const contender of Object.values(contenders)) await load(contender, asked, WARMING)
      for (let run = 0; run < runs; run++)
        for (const which of ['nginx', 'Sluice'] as const)
          costs[which].push(await costUs(contenders[which], asked))
      const [limit, ours] = [median(costs.nginx), median(costs.Sluice)]
      rows.push([name, limit.toFixed(0), ours.toFixed(0), (ours / limit).toFixed(1)])
    }
    console.log(`media: median of ${runs} runs of ${REQUESTS} requests with ${CONNECTIONS} connections\n`)
    printTable(['', 'nginx, CPU µs', 'Sluice, CPU µs', '× nginx'], rows)
  } finally {
    await Promise.all([upstream, nginx, sluice].map(({ stop }) => stop()))
    rmSync(folder, { recursive: true, force: true })
  }
}
