import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { version } from '../../../src/host/version.ts'
import { retryingFetch } from '../../support/client.ts'
import { createApi } from '../../support/gateway.ts'
import {
  childrenOf,
  launch,
  newDirectory,
  run,
  type Server,
  startServer,
  until,
} from '../../support/process.ts'
import { chat, models, SLOW, setUpChannels } from '../../support/simulated-channels.ts'

// These tests use the command line and HTTP only, so they also run on the single executable (npm run test:binary).

let simulator: Simulator
before(async () => {
  simulator = await startSimulator({})
})
after(() => simulator.close())

describe('the first start in an empty directory', () => {
  const directory = newDirectory()
  const settings = { PORT: '0' }
  let url: string
  let password: string
  let program: ReturnType<typeof launch>
  before(async () => {
    program = launch(['start', '--json'], { cwd: directory, env: settings })
    const ready = await until('the gateway to be ready', () => {
      if (!program.isRunning()) throw new Error(program.stderr())
      const lines = program
        .stdout()
        .split('\n')
        .filter(line => line !== '')
        .map(line => JSON.parse(line))
      const created = lines.find(({ msg }) => msg === 'Created the user root.')
      const address = lines.find(({ msg }) => msg === 'Sluice is ready.')?.address
      return address && { address, password: created?.password }
    })
    url = ready.address
    password = ready.password
  })

  it('creates the data directory and a password of root, which signs in', async () => {
    assert.ok(existsSync(join(directory, 'data/secret')))
    const response = await retryingFetch(`${url}/api/user/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ username: 'root', password }),
    })
    assert.equal(response.status, 200)
  })

  it('serves the console with its scripts, the API reference, and health checks', async () => {
    const page = await (await retryingFetch(`${url}/`)).text()
    const [, script = ''] = /<script[^>]+src="([^"]+\.js)"/.exec(page) ?? []
    const asset = await retryingFetch(new URL(script, `${url}/`))
    assert.equal(asset.status, 200)
    assert.match(asset.headers.get('content-type') ?? '', /javascript/)
    for (const path of ['/docs', '/docs/json', '/docs/static/swagger-ui.css', '/healthz', '/readyz'])
      assert.equal((await retryingFetch(`${url}${path}`)).status, 200, path)
  })

  it('runs commands on the running gateway, and exits with 0 on SIGTERM', async () => {
    const token = (await run(['admin', 'access-token'], { cwd: directory })).stdout.trim()
    const { body } = await createApi(url, token)('GET', '/api/price/?model=gpt-4o')
    assert.equal(body.data.items[0].model, 'gpt-4o')
    const examined = JSON.parse((await run(['doctor', '--json'], { cwd: directory, env: settings })).stdout)
    assert.equal(examined.ok, true, JSON.stringify(examined))
    program.signal('SIGTERM')
    assert.equal((await program.ended).code, 0)
  })
})

describe('a gateway with channels', () => {
  const dataDir = join(newDirectory(), 'data')
  let server: Server
  let token: string
  before(async () => {
    server = await startServer({ dataDir })
    token = await setUpChannels(server.api, simulator.url)
  })
  const relay = (path: string, body: unknown) => server.api('POST', path, body, { token })

  it('relays a chat, whole and streamed', async () => {
    const whole = await relay('/v1/chat/completions', chat(models.openai, 'hello'))
    assert.equal(whole.status, 200)
    assert.ok(whole.body.choices[0].message.content.length > 0)
    const streamed = await relay('/v1/chat/completions', chat(models.openai, 'hello', { stream: true }))
    assert.match(streamed.text, /data: \[DONE\]\n\n$/)
  })

  it('translates between formats, also binary event streams', async () => {
    for (const model of Object.values(models)) {
      const { status, text } = await relay('/v1/messages', chat(model, 'hello', { stream: true }))
      assert.equal(status, 200, text)
      assert.match(text, /event: message_stop/)
    }
  })

  it('translates a large request on a thread', async () => {
    const messages = Array.from({ length: 6_001 }, (_, index) => ({
      role: index % 2 === 0 ? 'user' : 'assistant',
      content: 'some words of a very long conversation, which fill a large document',
    }))
    const { status, text } = await relay('/v1/messages', chat(models.openai, '', { messages }))
    assert.equal(status, 200, text)
  })

  it('counts tokens with the table of the tokenizer', async () => {
    const { body } = await relay('/v1/messages/count_tokens', chat(models.openai, ' hello'.repeat(200)))
    assert.ok(body.input_tokens >= 200 && body.input_tokens < 220, `${body.input_tokens} tokens`)
  })

  it('settles what the provider would bill, and verifies', async () => {
    const { code, stdout } = await run(['verify', '--json', '--data', dataDir])
    assert.equal(code, 0, stdout)
    assert.equal(JSON.parse(stdout).ok, true)
  })

  it('finishes a running stream after SIGTERM', async () => {
    const stream = await retryingFetch(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(chat(SLOW, 'hello', { stream: true })),
    })
    const stopped = server.stop()
    assert.match(await stream.text(), /data: \[DONE\]\n\n$/)
    const { code, stdout, stderr } = await stopped
    assert.equal(code, 0, `${stdout.slice(-2_000)}${stderr}`)
  })

  it('is restored from a backup, with the same token', async () => {
    const file = join(newDirectory(), 'sluice.backup')
    const restored = join(newDirectory(), 'data')
    const secret = readFileSync(join(dataDir, 'secret'), 'utf8').trim()
    assert.equal((await run(['backup', file, '--data', dataDir])).code, 0)
    assert.equal((await run(['restore', file, '--data', restored])).code, 0)
    server = await startServer({ dataDir: restored, env: { SLUICE_SECRET: secret } })
    assert.equal((await relay('/v1/chat/completions', chat(models.openai, 'hello'))).status, 200)
    assert.equal((await server.stop()).code, 0)
  })
})

describe('a gateway with two workers', () => {
  it('serves requests with both, and survives the end of one', async () => {
    const server = await startServer({
      dataDir: join(newDirectory(), 'data'),
      env: { SLUICE_WORKERS: '2' },
    })
    const token = await setUpChannels(server.api, simulator.url)
    const ask = () =>
      server.api('POST', '/v1/chat/completions', chat(models.openai, 'hello'), { token }).then(
        ({ status }) => status,
        () => undefined,
      )
    assert.equal(await ask(), 200)
    const [worker = 0] = childrenOf(server.pid)
    process.kill(worker, 'SIGKILL')
    await until('another worker', () => (childrenOf(server.pid).length === 2 ? true : undefined))
    await until('a request to be served', async () => ((await ask()) === 200 ? true : undefined))
    assert.equal((await server.stop()).code, 0)
  })
})

describe('the demo', () => {
  it('starts its own simulator', async () => {
    const demo = launch(['start', '--demo', '--port', '0'])
    await until('the demo to be ready', () => {
      if (!demo.isRunning()) throw new Error(`the demo ended: ${demo.stderr()}${demo.stdout()}`)
      return demo.stdout().includes('Ctrl-C') ? true : undefined
    })
    demo.signal('SIGTERM')
    assert.equal((await demo.ended).code, 0)
  })
})

describe('commands', () => {
  it('print the version, help and completions', async () => {
    assert.equal((await run(['version'])).stdout, `${version}\n`)
    assert.match((await run(['help'])).stdout, /sluice doctor/)
    assert.match((await run(['completion', 'bash'])).stdout, /complete -o default/)
  })

  it('name an invalid setting and exit with 78', async () => {
    const { code, stderr } = await run(['start'], { env: { PORT: 'x' } })
    assert.deepEqual([code, stderr.split(' ')[1]], [78, 'PORT'])
  })
})
