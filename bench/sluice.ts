import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildProgram } from '../bundle.ts'
import { freePort } from '../test/support/free-port.ts'
import { createDatabase, stopOwnPostgres } from '../test/support/postgres.ts'
import { MODEL, STREAM_MODEL } from './answers.ts'
import { start, untilAnswers } from './process.ts'

const ROOT_TOKEN = 'bench-root-access-token-01'
const INSPECTOR_CHATTER = /^(Debugger|Waiting for the debugger)/
const QUOTA = 4_000_000_000_000

let program: Promise<string> | undefined
function built(): Promise<string> {
  program ??= buildProgram()
  return program
}

export const ENGINES = ['sqlite', 'postgres'] as const
export type Engine = (typeof ENGINES)[number]

export type Sluice = Awaited<ReturnType<typeof startSluice>>

/** The built gateway as a separate process: tokens are checked, money is held and settled. */
export async function startSluice({
  engine = 'sqlite',
  inspected = false,
  env = {},
  token = {},
}: {
  engine?: Engine
  inspected?: boolean
  /** Further settings. */
  env?: Readonly<Record<string, string>>
  /** Further fields of the token. */
  token?: Readonly<Record<string, unknown>> | undefined
} = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const database = engine === 'postgres' ? await createDatabase() : undefined
  const [port, inspectorPort] = [await freePort(), await freePort()]
  const flags = inspected ? [`--inspect=127.0.0.1:${inspectorPort}`, '--inspect-publish-uid=http'] : []
  const running = start(process.execPath, [...flags, await built(), 'start'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      PATH: process.env.PATH ?? '',
      // For profiling: --cpu-prof, --trace-gc and similar flags reach the gateway.
      NODE_OPTIONS: process.env.NODE_OPTIONS ?? '',
      PORT: String(port),
      SLUICE_DATA: folder,
      SLUICE_LOG: 'error',
      SLUICE_DRAIN_S: '1',
      SLUICE_DRAIN_DELAY_S: '0',
      SLUICE_ROOT_ACCESS_TOKEN: ROOT_TOKEN,
      ...(database ? { DATABASE_URL: database.url } : {}),
      ...env,
    },
  })
  running.child.stderr?.on('data', data => {
    if (!INSPECTOR_CHATTER.test(String(data))) process.stderr.write(data)
  })
  const url = `http://127.0.0.1:${port}`
  await untilAnswers(`${url}/readyz`)

  async function textOf(method: string, path: string, body?: unknown): Promise<string> {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { authorization: `Bearer ${ROOT_TOKEN}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 500)}`)
    return text
  }

  const api = async <Data>(method: string, path: string, body?: unknown): Promise<Data> =>
    (JSON.parse(await textOf(method, path, body)) as { data: Data }).data

  const addChannel = (base_url: string, models: readonly string[] = [MODEL, STREAM_MODEL]) =>
    api('POST', '/api/channel/', {
      mode: 'single',
      channel: { name: base_url.slice(-20), type: 1, key: 'k', base_url, models },
    })

  const fields = { name: 'bench', remain_quota: QUOTA, ...token }
  const { key } = await api<{ key: string }>('POST', '/api/token/', fields)
  return {
    pid: running.pid,
    url,
    folder,
    metrics: () => textOf('GET', '/metrics'),
    chatUrl: `${url}/v1/chat/completions`,
    inspectorPort,
    headers: { authorization: `Bearer ${key}` },
    api,
    addChannel,
    async stop(): Promise<void> {
      await running.stop()
      await database?.drop()
      await stopOwnPostgres()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
