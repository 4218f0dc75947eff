import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  closeSync,
  constants,
  createReadStream,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { retryingFetch } from '../../support/client.ts'
import { runHere } from '../../support/command.ts'
import { freePort } from '../../support/free-port.ts'
import { createApi, ENGINES, ROOT_TOKEN, startGateway } from '../../support/gateway.ts'
import {
  launch,
  logLines,
  lookInto,
  newDirectory,
  newGround,
  run,
  settingsOf,
  startServer,
  until,
} from '../../support/process.ts'
import { openRequest, openSocket } from '../../support/raw-socket.ts'
import {
  assertSettingRefused,
  countRoots,
  emptyGround,
  login,
  printedPassword,
  refusesConnections,
  untilLogged,
} from '../../support/start.ts'

const SECRET = 'correct-horse-battery-staple-0123456789'

describe('several servers on one PostgreSQL', () => {
  it('that start concurrently on an empty database create one root user together', async () => {
    const { databaseUrl } = await emptyGround('postgres')
    const env = { SLUICE_SECRET: SECRET, SLUICE_ROOT_PASSWORD: '', SLUICE_ROOT_ACCESS_TOKEN: ROOT_TOKEN }
    const grounds = Array.from({ length: 3 }, () => ({ dataDir: newDirectory(), databaseUrl, env }))
    const servers = await Promise.all(grounds.map(startServer))
    const passwords = servers
      .map(server => printedPassword(server.stdout()))
      .filter(each => each !== undefined)
    assert.equal(passwords.length, 1)
    assert.equal(await countRoots({ dataDir: '', databaseUrl }), 1)
    for (const server of servers) {
      assert.equal((await server.api('GET', '/api/user/self')).body.data.username, 'root')
      assert.equal((await login(server.url, passwords[0] ?? '')).status, 200)
    }
    // What one server writes, the others read.
    const [one, ...others] = servers
    const creation = await one?.api('POST', '/api/token/', { name: 'shared' })
    for (const server of others)
      assert.equal((await server.api('GET', `/api/token/${creation?.body.data.id}`)).body.data.name, 'shared')
    for (const server of servers) assert.equal((await server.stop()).code, 0)
  })
})

describe('a shutdown', () => {
  it('requested twice does not wait, and loses nothing', async () => {
    const ground = await newGround('sqlite')
    const server = await startServer(ground)
    const creation = await server.api('POST', '/api/token/', { name: 'kept' })
    const running = await openRequest(server.port, JSON.stringify({ name: 'never finished' }))
    server.signal('SIGINT')
    await untilLogged(server, 'Shutting down')
    assert.ok(server.isRunning())
    const { code } = await server.stop('SIGTERM')
    assert.equal(code, 0)
    await running.closed

    const tokens = await lookInto(ground, ({ db }) => db.selectFrom('tokens').select('id').execute())
    assert.deepEqual(tokens, [{ id: creation.body.data.id }])
    assert.equal((await runHere(['verify'], { env: settingsOf(ground) })).code, 0)
  })

  it('waits no longer than SLUICE_DRAIN_S for a request that does not end', async () => {
    const server = await startServer({ ...(await newGround('sqlite')), env: { SLUICE_DRAIN_S: '0' } })
    const running = await openRequest(server.port, JSON.stringify({ name: 'never finished' }))
    const { code } = await server.stop()
    assert.equal(code, 0)
    await running.closed
  })
})

describe('logs', () => {
  /** Accepts no output: a full disk, or a pipe whose reader has stopped or closed it. */
  function deafOutput(kind: 'full disk' | 'pipe that nobody reads' | 'pipe whose reader left') {
    if (kind === 'full disk') return { fd: openSync('/dev/full', 'w'), path: '/dev/full' }
    const path = join(newDirectory(), 'pipe')
    execFileSync('mkfifo', [path])
    const both = openSync(path, constants.O_RDWR)
    if (kind === 'pipe that nobody reads') return { fd: both, path }
    const fd = openSync(path, constants.O_WRONLY)
    closeSync(both)
    return { fd, path }
  }

  async function startDeaf(fd: number) {
    const port = await freePort()
    const env = { ...settingsOf(await newGround('sqlite')), PORT: String(port) }
    const program = launch(['start'], { env, stdout: fd })
    const ask = (path: string) => retryingFetch(`http://127.0.0.1:${port}${path}`).catch(() => undefined)
    await until('the gateway', async () => ((await ask('/readyz'))?.ok ? true : undefined))
    // More than a pipe and its queue hold, in long lines.
    for (let index = 0; index < 170; index++)
      assert.equal((await ask(`/api/${'long/'.repeat(2_500)}`))?.status, 404)
    return { program, ask }
  }

  for (const kind of ['full disk', 'pipe that nobody reads', 'pipe whose reader left'] as const)
    it(`are dropped if they go to a ${kind}, with no other effect`, async () => {
      const { fd } = deafOutput(kind)
      const { program } = await startDeaf(fd)
      program.signal('SIGTERM')
      const { code, signal, stderr } = await program.ended
      closeSync(fd)
      assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: '' })
    })

  it('that were dropped are reported when the reader reads again', async () => {
    const { fd, path } = deafOutput('pipe that nobody reads')
    const { program, ask } = await startDeaf(fd)
    const reader = createReadStream(path, 'utf8')
    let read = ''
    reader.on('data', text => {
      read += text
    })
    const line = await until('the line that tells of them', async () => {
      await ask('/api/status')
      return logLines(read.slice(0, read.lastIndexOf('\n'))).find(({ lines }) => lines !== undefined)
    })
    assert.equal(line.level, 'warn')
    assert.ok(Number(line.lines) > 0)
    program.signal('SIGTERM')
    assert.equal((await program.ended).code, 0)
    closeSync(fd)
    await once(reader, 'end')
    assert.match(read, /"msg":"Sluice has stopped\."}\n$/)
  })

  it('of a command may have a reader that closes the pipe: the command ends normally', async () => {
    const env = settingsOf(await newGround('sqlite'))
    const { fd } = deafOutput('pipe whose reader left')
    const { code, stderr } = await run(['verify'], { env, stdout: fd })
    closeSync(fd)
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
  })

  it('follow the level in SLUICE_LOG', async () => {
    const ground = await newGround('sqlite')
    const program = launch(['start', '--port', String(await freePort())], {
      env: { ...settingsOf(ground), SLUICE_LOG: 'silent' },
    })
    await until('the socket', () => (existsSync(join(ground.dataDir, 'sluice.sock')) ? true : undefined))
    program.signal('SIGTERM')
    const { stdout, stderr } = await program.ended
    assert.equal(stdout + stderr, '')
  })
})

for (const engine of ENGINES)
  describe(`verify on ${engine} during concurrent writes`, () => {
    it('does not report concurrent writes as errors', async () => {
      const gateway = await startGateway({ engine })
      let isOver = false
      let writeCount = 0
      const writer = async () => {
        while (!isOver) {
          const { body } = await gateway.api('POST', '/api/token/', { name: 'busy', remain_quota: 10 })
          await gateway.api('PUT', '/api/token/', { id: body.data.id, remain_quota: 20 })
          writeCount += 2
        }
      }
      const writers = [writer(), writer(), writer(), writer()]
      for (let round = 0; round < 3; round++) {
        await until('more writes', () => (writeCount > 40 * (round + 1) ? true : undefined))
        const { ok, lines } = await gateway.operations.verify({})
        assert.ok(ok, lines.join('\n'))
      }
      isOver = true
      await Promise.all(writers)
      await gateway.close()
    })
  })

describe('the demo', () => {
  it('starts with one command, prints how to use it, and leaves nothing behind after two signals', async () => {
    const temporary = newDirectory()
    // The next command of a new operator is `sluice start` in the same directory, where verify must find no anchors of the demo.
    const cwd = newDirectory()
    const env = { TMPDIR: temporary, SLUICE_LOG: 'info' }
    const demo = launch(['start', '--demo', '--port', '0'], { cwd, env })
    const stdout = await until('the demo to be ready', () => {
      if (!demo.isRunning()) throw new Error(`the demo ended: ${demo.stderr()}${demo.stdout()}`)
      return demo.stdout().includes('Ctrl-C') ? demo.stdout() : undefined
    })
    const printed = (name: string) => new RegExp(`^ +${name} +(\\S+)$`, 'm').exec(stdout)?.[1] ?? ''
    const address = printed('Console').replace(/\/$/, '')
    assert.match(address, /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.equal((await retryingFetch(`${address}/`)).status, 200)
    assert.equal(printed('User'), 'root')
    assert.equal((await login(address, printed('Password'))).status, 200)
    const key = printed('Token')
    assert.match(key, /^sk-[A-Za-z0-9]{48}$/)
    assert.match(stdout, new RegExp(`curl ${address}/v1/chat/completions[^]*Bearer ${key}[^]*"model":"`))

    const cookie =
      ((await login(address, printed('Password'))).headers.get('set-cookie') ?? '').split(';')[0] ?? ''
    const ask = async (path: string) =>
      (await createApi(address, '')('GET', path, undefined, { token: null, headers: { cookie } })).body.data
    const search = await ask(`/api/token/search?token=${key}`)
    assert.deepEqual(
      search.items.map((token: { name: string; status: number }) => [token.name, token.status]),
      [['demo', 1]],
    )
    // The credential that it used for its own setup is deleted.
    assert.equal((await ask('/api/user/access_token/')).total, 0)
    const channels = await ask('/api/channel/')
    assert.deepEqual(channels.items.map((each: { status: number }) => each.status).sort(), [1, 1, 3])
    const channel = channels.items.find((each: { name: string }) => each.name === 'Simulated provider')
    // A day of requests and a sample video, in a ledger that verifies.
    const day = `from=${Math.floor(Date.now() / 1000) - 90_000}&to=${Math.floor(Date.now() / 1000) + 900}`
    assert.equal((await ask(`/api/usage/series?${day}`)).totals.requests, 901)
    assert.equal((await ask('/api/video/')).total, 1)
    assert.equal((await ask('/api/ledger/verify')).ok, true)
    assert.equal(
      (
        await retryingFetch(`${channel.base_url}/v1/models`, {
          headers: { authorization: 'Bearer simulated-key' },
        })
      ).status,
      200,
    )
    assert.ok(channel.models.length > 0)

    // Another one cannot start on the same port, and cleans up.
    const port = Number(new URL(address).port)
    assertSettingRefused(
      await run(['start', '--demo', '--port', String(port)], { env: { TMPDIR: temporary } }),
      'PORT',
    )
    assert.equal(readdirSync(temporary).length, 1)
    // A running request is cut off by the second signal.
    const running = await openSocket(port)
    running.write(
      'POST /api/user/login HTTP/1.1\r\nhost: sluice\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n',
    )
    await running.has('100 Continue')
    demo.signal('SIGTERM')
    await until('the stop', () => (demo.stdout().includes('Shutting down') ? true : undefined))
    demo.signal('SIGTERM')
    const { code } = await demo.ended
    assert.equal(code, 0)
    assert.deepEqual(readdirSync(temporary), [])
    assert.deepEqual(readdirSync(cwd), [])
    await refusesConnections(channel.base_url)
  })

  it('shows several nodes on one PostgreSQL, and leaves nothing behind', async () => {
    // Readable for the user that PostgreSQL runs as.
    const temporary = mkdtempSync(join(tmpdir(), 'sluice-demo-test-'))
    chmodSync(temporary, 0o755)
    const demo = launch(['start', '--demo', '--nodes', '2', '--port', '0'], { env: { TMPDIR: temporary } })
    const stdout = await until('the demo to be ready', () => {
      if (!demo.isRunning()) throw new Error(`the demo ended: ${demo.stderr()}${demo.stdout()}`)
      return /Node 2 .*process/.test(demo.stdout()) ? demo.stdout() : undefined
    })
    const key = /Token +(sk-\w+)/.exec(stdout)?.[1] ?? ''
    const second = /Node 2 +(\S+)\//.exec(stdout)?.[1] ?? ''
    const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello!' }] }
    const reply = await createApi(second, key)('POST', '/v1/chat/completions', body)
    assert.equal(reply.status, 200, reply.text)
    demo.signal('SIGTERM')
    assert.equal((await demo.ended).code, 0)
    assert.deepEqual(readdirSync(temporary), [])
    await refusesConnections(second)
    rmSync(temporary, { recursive: true })
  })

  it('refuses an invalid setting, and leaves nothing behind', async () => {
    const temporary = newDirectory()
    const env = { TMPDIR: temporary, SLUICE_LOG: 'loud' }
    assertSettingRefused(await run(['start', '--demo'], { env }), 'SLUICE_LOG')
    assert.deepEqual(readdirSync(temporary), [])
  })

  it('refuses nodes with a database of its own', async () => {
    const env = { DATABASE_URL: 'postgres://a:b@127.0.0.1:1/c' }
    assertSettingRefused(await run(['start', '--demo', '--nodes', '2'], { env }), 'DATABASE_URL')
  })
})
