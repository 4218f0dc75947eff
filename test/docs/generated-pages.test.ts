import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { PATHS } from '../../src/relay/operations/index.ts'
import { ROOT_TOKEN } from '../support/gateway.ts'
import { providersPage } from '../support/providers-page.ts'
import { suiteRelay } from '../support/relay.ts'
import { SETTINGS_PAGE, settingsPage } from '../support/settings-page.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = (name: string) => readFileSync(join(root, 'docs', name), 'utf8')
const run = promisify(execFile)

const MODELS = [
  'gpt-4o-mini',
  'gpt-3.5-turbo-instruct',
  'text-embedding-3-small',
  'tts-1',
  'whisper-1',
  'text-moderation-latest',
  'bge-reranker-v2-m3',
  'gpt-image-1',
  'dall-e-2',
  'sora-2',
]
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg=='

/** The blocks of a page in a language, in their order. */
const blocksIn = (text: string, language: string) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(([, block = '']) => block)

describe('docs/providers.md', () => {
  it('agrees with the provider files; `npm run docs:providers` writes it', () => {
    assert.equal(page('providers.md'), providersPage())
  })
})

describe(SETTINGS_PAGE, () => {
  it('agrees with the settings; `npm run docs:settings` writes its tables', () => {
    const text = readFileSync(join(root, SETTINGS_PAGE), 'utf8')
    assert.equal(settingsPage(text), text)
  })
})

describe('docs/api.md', () => {
  const relay = suiteRelay('sqlite')
  let dir: string
  let env: Record<string, string>
  before(async () => {
    await relay.addChannel({ models: MODELS })
    // Its vendor has retired it, and with it the shipped price.
    await relay.must(relay.api('POST', '/api/price/', { model: 'dall-e-2', per_image: 0.02 }))
    const { key } = await relay.newToken({ unlimited_quota: true })
    dir = mkdtempSync(join(tmpdir(), 'sluice-docs-'))
    symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'), 'dir')
    writeFileSync(join(dir, 'package.json'), '{"type":"module"}')
    writeFileSync(join(dir, 'cat.png'), Buffer.from(PNG, 'base64'))
    // A refused request must end the script, whatever a line does with the response.
    writeFileSync(join(dir, '.curlrc'), 'fail-with-body\nsilent\nshow-error\n')
    env = {
      ...(process.env as Record<string, string>),
      SLUICE: relay.gateway.url,
      KEY: key,
      SAT: ROOT_TOKEN,
      CURL_HOME: dir,
    }
  })
  after(async () => {
    rmSync(dir, { recursive: true, force: true })
  })

  it('has curl lines that work', async () => {
    const script = ['set -eo pipefail', ...blocksIn(page('api.md'), 'sh')].join('\n')
    assert.ok(script.split('curl ').length > 20)
    const pendingRun = run('bash', ['-c', script], { cwd: dir, env, maxBuffer: 16 * 1_048_576 })
    const { stdout } = await pendingRun.catch(({ stdout: output, stderr }) =>
      assert.fail(`${stderr} ${output.slice(-600)}`),
    )
    assert.match(stdout, /I heard speech\.mp3/)
    assert.ok(readFileSync(join(dir, 'lake.mp4')).length > 0)
  })

  it('has SDK lines that work', async () => {
    writeFileSync(join(dir, 'lines.ts'), blocksIn(page('api.md'), 'ts').join('\n'))
    rmSync(join(dir, 'lake.mp4'), { force: true })
    await run(process.execPath, ['lines.ts'], { cwd: dir, env })
    assert.ok(readFileSync(join(dir, 'lake.mp4')).length > 0)
  })

  it('names every path of the relay', () => {
    const apiPage = page('api.md')
    for (const path of [...PATHS, '/v1/models', '/v1/videos', '/v1/video/generations', '/api/openapi.json'])
      assert.ok(apiPage.includes(path), path)
  })
})
