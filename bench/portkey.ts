import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../test/support/free-port.ts'
import { run, start, untilAnswers } from './process.ts'

const VERSION = '1.15.2'
// The newest version in its range gives it immutable headers, and then every stream is a 500.
const MANIFEST = { private: true, overrides: { '@hono/node-server': '1.3.3' } }
const FOLDER = fileURLToPath(
  new URL(`../node_modules/.cache/sluice-bench/portkey-${VERSION}`, import.meta.url),
)
const PROGRAM = join(FOLDER, 'node_modules/@portkey-ai/gateway/build/start-server.js')
const INSTALL_MS = 120_000

/** Fetched at the first comparison. It is no dependency of ours, and install scripts are disabled. */
async function install(): Promise<void> {
  if (existsSync(PROGRAM)) return
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(join(FOLDER, 'package.json'), JSON.stringify(MANIFEST))
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--fetch-retries=1']
  const name = `@portkey-ai/gateway@${VERSION}`
  try {
    await run('npm', ['install', ...flags, name], { cwd: FOLDER, mostMs: INSTALL_MS })
  } catch (cause) {
    throw new Error(`${name} could not be fetched from the npm registry`, { cause })
  }
}

/** Portkey's gateway without guardrails, caches or retries; headers name the provider. */
export async function startPortkey() {
  await install()
  const port = await freePort()
  const running = start(process.execPath, [PROGRAM, `--port=${port}`, '--headless'], {
    cwd: FOLDER,
    env: { PATH: process.env.PATH ?? '', NODE_ENV: 'production' },
  })
  const url = `http://127.0.0.1:${port}`
  await untilAnswers(`${url}/`)
  return {
    ...running,
    url,
    headersFor: (provider: string) => ({
      authorization: 'Bearer k',
      'x-portkey-provider': 'openai',
      'x-portkey-custom-host': `${provider}/v1`,
    }),
  }
}
