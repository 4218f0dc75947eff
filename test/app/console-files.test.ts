import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { brotliDecompressSync } from 'node:zlib'
import Fastify, { type FastifyInstance } from 'fastify'
import { publish } from '../../src/host/build-folders.ts'
import { createConsoleBuilds, digestOfSources, SOURCE_DIGEST_FILE } from '../../src/host/console-files.ts'
import { managementError, refusalOfError } from '../../src/http/errors.ts'
import { serveConsole } from '../../src/manage/server/console.ts'
import { type ConsoleServer, PAGES, startConsole } from '../support/console.ts'
import { until } from '../support/process.ts'

const PREFIX = '/gateway/one'
const HTML = { accept: 'text/html' }

/** Bytes over the wire for a browser that supports gzip. */
const FIRST_SCRIPTS_BYTES = 180 * 1024
const FIRST_STYLES_BYTES = 25 * 1024

describe('the files of the console', () => {
  let server: ConsoleServer
  let page: Response
  let html: string
  before(async () => {
    server = await startConsole({ SLUICE_BASE_PATH: PREFIX })
    page = await fetch(`${server.url}/`, { headers: HTML })
    html = await page.text()
  })
  after(() => server.close())

  const assetsOf = (kind: 'js' | 'css') =>
    [...html.matchAll(/(?:src|href)="([^"]+)"/g)]
      .map(([, path]) => path as string)
      .filter(path => path.endsWith(`.${kind}`))

  it('are requested under the path prefix, and nowhere else', () => {
    const addresses = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path as string)
    assert.ok(addresses.length > 3)
    for (const address of addresses) assert.ok(address.startsWith(`${PREFIX}/`), address)
  })

  it('have a policy that blocks all other origins, and a new nonce each time', async () => {
    const policy = page.headers.get('content-security-policy') ?? ''
    assert.match(policy, /default-src 'none'/)
    assert.match(policy, /script-src 'self';/)
    assert.ok(!/unsafe|https?:|\*/.test(policy), policy)
    const again = await fetch(`${server.url}/`, { headers: HTML })
    assert.notEqual(again.headers.get('content-security-policy'), policy)
    const nonce = /'nonce-([^']+)'/.exec(policy)?.[1] as string
    assert.ok(html.includes(`nonce="${nonce}"`))
  })

  it('are one page for every console URL, always revalidated by the browser', async () => {
    for (const path of [...PAGES, '/channels/7/edit', '/usage/req_x', '/sign-in']) {
      const reply = await fetch(`${server.url}${path}`, { headers: HTML })
      assert.equal(reply.status, 200, path)
      assert.equal(reply.headers.get('cache-control'), 'no-cache', path)
      assert.ok((await reply.text()).includes('id="root"'), path)
    }
  })

  it('respond to HEAD without a body', async () => {
    const reply = await fetch(`${server.url}/`, { method: 'HEAD' })
    assert.deepEqual([reply.status, await reply.text()], [200, ''])
    assert.match(reply.headers.get('content-type') ?? '', /^text\/html/)
  })

  it('respond to unknown paths with an error', async () => {
    for (const path of ['/nothing', '/assets/nothing.js', '/channelsx']) {
      const reply = await fetch(`${server.url}${path}`, { headers: HTML })
      assert.equal(reply.status, 404, path)
    }
    const above = await fetch(`${server.url}/assets/..%2f..%2fpackage.json`, { headers: HTML })
    assert.equal(above.status, 404)
    const program = await fetch(`${server.url}/channels`, { headers: { accept: 'application/json' } })
    assert.equal(program.status, 404)
  })

  it('are named by their content, cached for a year and sent compressed', async () => {
    const [script] = assetsOf('js').filter(path => path.includes('/assets/'))
    const address = `${server.origin}${script}`
    const reply = await fetch(address, { headers: { 'accept-encoding': 'br' } })
    assert.equal(reply.headers.get('cache-control'), 'public, max-age=31536000, immutable')
    assert.equal(reply.headers.get('content-encoding'), 'br')
    assert.match(reply.headers.get('content-type') ?? '', /javascript/)
    const { default: http } = await import('node:http')
    const raw = await new Promise<Buffer>((resolve, reject) => {
      http.get(address, { headers: { 'accept-encoding': 'br' } }, response => {
        response.toArray().then(parts => resolve(Buffer.concat(parts)), reject)
      })
    })
    assert.ok(brotliDecompressSync(raw).length > raw.length)
  })

  it('are small: scripts and styles of the first page stay within their budget', async () => {
    const weigh = async (paths: readonly string[]) => {
      let bytes = 0
      for (const path of paths) {
        const reply = await fetch(`${server.origin}${path}`, {
          method: 'GET',
          headers: { 'accept-encoding': 'gzip' },
        })
        bytes += Number(reply.headers.get('content-length'))
        await reply.arrayBuffer()
      }
      return bytes
    }
    assert.ok((await weigh(assetsOf('js'))) <= FIRST_SCRIPTS_BYTES)
    assert.ok((await weigh(assetsOf('css'))) <= FIRST_STYLES_BYTES)
  })
})

describe('a console that is rebuilt while a gateway runs', () => {
  let place: string
  let app: FastifyInstance
  let own: string
  before(async () => {
    place = mkdtempSync(join(tmpdir(), 'sluice-console-'))
    own = await build('own', await digestOfSources())
    app = Fastify()
    app.setErrorHandler((error, _request, reply) => {
      const { status, body } = managementError(refusalOfError(error, ''))
      return reply.code(status).send(body)
    })
    await serveConsole(app, { basePath: '', consoleBuilds: createConsoleBuilds(builds()) })
  })
  after(async () => {
    await app.close()
    rmSync(place, { recursive: true, force: true })
  })

  const builds = () => join(place, 'dist')

  /** A page and the one script it loads, which is named by the build. */
  function build(name: string, madeFrom: string): Promise<string> {
    const draft = join(place, 'draft')
    mkdirSync(join(draft, 'assets'), { recursive: true })
    writeFileSync(join(draft, 'index.html'), `<script src="./assets/${name}.js"></script>`)
    writeFileSync(join(draft, 'assets', `${name}.js`), `'${name}'`)
    writeFileSync(join(draft, SOURCE_DIGEST_FILE), madeFrom)
    return publish(draft, builds())
  }

  const scriptOfPage = async () => /assets\/(\w+)\.js/.exec((await app.inject('/')).body)?.[1]
  const askFor = (name: string) => app.inject(`/assets/${name}.js`)

  it('stays the build that the gateway was started with, and requested files of another build are served too', async () => {
    await build('newer', 'other sources')
    assert.equal(await scriptOfPage(), 'own')
    for (const name of ['own', 'newer']) {
      const { statusCode, body, headers } = await askFor(name)
      assert.deepEqual([statusCode, body], [200, `'${name}'`])
      assert.equal(headers['cache-control'], 'public, max-age=31536000, immutable')
    }
  })

  it('is the newest build once its own is deleted; missing files are a 404 that is not cached for a year', async () => {
    rmSync(join(builds(), own), { recursive: true })
    assert.equal(await scriptOfPage(), 'newer')
    const { statusCode, headers } = await askFor('own')
    assert.equal(statusCode, 404)
    assert.equal(headers['cache-control'], undefined)
  })

  it('is waited for while there is none', async () => {
    rmSync(builds(), { recursive: true })
    assert.match((await app.inject('/')).body, /The console is being built/)
    for (const path of ['/assets/own.js', '/theme.js', '/icon.svg'])
      assert.equal((await app.inject(path)).statusCode, 404, path)
  })
})

describe('a build of the console', () => {
  const place = fileURLToPath(new URL('../../console/', import.meta.url))
  const lock = join(place, 'dist.lock')

  it('continues after one that was killed, and leaves nothing behind when it is stopped itself', async () => {
    const killed = spawn(process.execPath, ['--eval', '0'])
    await once(killed, 'exit')
    writeFileSync(lock, String(killed.pid))
    mkdirSync(join(place, `dist.${killed.pid}`))
    const builder = spawn(process.execPath, [join(place, 'build.ts')], { stdio: 'ignore' })
    const ended = once(builder, 'exit')
    await until('the lock to be taken', () =>
      existsSync(lock) && readFileSync(lock, 'utf8') === String(builder.pid) ? true : undefined,
    )
    await until('what was left to be swept', () =>
      existsSync(join(place, `dist.${killed.pid}`)) ? undefined : true,
    )
    builder.kill()
    await ended
    assert.deepEqual(
      readdirSync(place).filter(name => name.startsWith('dist.')),
      [],
    )
  })
})
