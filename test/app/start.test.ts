import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { sql } from 'kysely'
import { readConfig, SettingError, settingsHelp } from '../../src/app/config.ts'
import { openStoreAndKeys } from '../../src/app/store-and-keys.ts'
import { runCli } from '../../src/cli/cli.ts'
import { version } from '../../src/host/version.ts'
import { runHere } from '../support/command.ts'
import { createApi, ENGINES, ROOT_PASSWORD, ROOT_TOKEN, suiteGateway } from '../support/gateway.ts'
import {
  type Ended,
  type Env,
  logLines,
  lookInto,
  newDirectory,
  newGround,
  run,
  type Server,
  type ServerOptions,
  settingsOf,
  startGatewayOn,
  startServer,
  until,
  verifyThroughSocket,
} from '../support/process.ts'
import { startProxy } from '../support/proxy.ts'
import { openRequest, openSocket } from '../support/raw-socket.ts'
import {
  assertSettingRefused,
  countRoots,
  emptyGround,
  failedStart,
  login,
  printedPassword,
  refusesConnections,
  untilLogged,
} from '../support/start.ts'
import { tableDigests } from '../support/tables.ts'

const SECRET = 'correct-horse-battery-staple-0123456789'
const OTHER_SECRET = 'another-secret-that-is-long-enough-987654'

/** Only root may listen on it, so no other test does. */
const CLOSED_PORT = 1

const modeOf = (path: string) => statSync(path).mode & 0o777

for (const engine of ENGINES) {
  describe(`the first start on ${engine} (docs/reference/process.md: First start)`, () => {
    let ground: ServerOptions
    let first: Ended
    let token: string
    let acknowledgedId: number
    before(async () => {
      ground = {
        ...(await emptyGround(engine)),
        // Empty is the same as not set.
        env: { SLUICE_ROOT_PASSWORD: '', SLUICE_ROOT_ACCESS_TOKEN: '', NODE_COMPILE_CACHE: '' },
      }
      const server = await startServer(ground)
      assert.equal(modeOf(join(ground.dataDir, 'sluice.sock')), 0o600)
      const env = { SLUICE_DATA: ground.dataDir }
      token = (await runHere(['admin', 'access-token'], { env })).stdout.trim()
      const { body } = await server.api('POST', '/api/token/', { name: 'before the kill' }, { token })
      acknowledgedId = body.data.id
      first = await server.kill()
    })

    it('creates the data directory for its owner only, and a secret in it', () => {
      assert.equal(modeOf(ground.dataDir), 0o700)
      assert.equal(modeOf(join(ground.dataDir, 'secret')), 0o600)
      assert.match(readFileSync(join(ground.dataDir, 'secret'), 'utf8'), /^[\w-]{43}\n$/)
    })

    it('caches compiled code in the data directory', () => {
      assert.equal(modeOf(join(ground.dataDir, 'compiled')), 0o700)
    })

    it('creates one root user and prints its password', async () => {
      const password = printedPassword(first.stdout) ?? ''
      assert.match(password, /^[A-Za-z0-9]{20}$/)
      assert.equal(first.stdout.split(password).length, 2, 'the password is printed once')
      assert.equal(await countRoots(ground), 1)
    })

    it('is not repeated: the second start, immediately after a kill, prints no password and keeps what was acknowledged', async () => {
      const file = (name: string) => join(ground.dataDir, name)
      assert.equal(first.signal, 'SIGKILL')
      const secret = readFileSync(file('secret'), 'utf8')
      // Files that it could not clean up are not an obstacle.
      assert.ok(existsSync(file('sluice.sock')))
      assert.ok(existsSync(file('sluice.pid')))
      // Nor is a process id that now belongs to another process.
      writeFileSync(file('sluice.pid'), `${process.pid}\n`)
      const server = await startServer({
        ...ground,
        // Both apply to the first start only.
        env: {
          SLUICE_ROOT_PASSWORD: 'quite another password',
          SLUICE_ROOT_ACCESS_TOKEN: 'another-root-token-9999',
        },
      })
      assert.equal(readFileSync(file('sluice.pid'), 'utf8'), `${server.pid}\n`)
      const ask = (path: string) => server.api('GET', path, undefined, { token })
      assert.equal((await ask('/api/user/self')).body.data.username, 'root')
      assert.equal((await ask(`/api/token/${acknowledgedId}`)).body.data.name, 'before the kill')
      const other = await server.api('GET', '/api/user/self', undefined, { token: 'another-root-token-9999' })
      assert.equal(other.status, 401)
      assert.equal((await login(server.url, 'quite another password')).status, 401)
      const { status, body } = await login(server.url, printedPassword(first.stdout) ?? '')
      assert.equal(status, 200)
      assert.equal(body.data.unlimited_quota, true)
      assert.equal(body.data.role, 100)
      assert.ok((await verifyThroughSocket(ground)).ok)
      const { stdout, code } = await server.stop()
      assert.equal(code, 0)
      assert.equal(printedPassword(stdout), undefined)
      assert.equal(readFileSync(file('secret'), 'utf8'), secret)
      assert.equal(await countRoots(ground), 1)
      assert.deepEqual(
        ['sluice.sock', 'sluice.pid'].filter(name => existsSync(file(name))),
        [],
      )
    })
  })

  describe(`a database on ${engine} written by a newer program`, () => {
    it('is refused with one sentence and left unchanged', async () => {
      const ground = await newGround(engine)
      await (await startGatewayOn(ground)).close()
      const before = await lookInto(ground, async ({ db }) => {
        await sql`insert into kysely_migration (name, timestamp) values ('9999-future', '2099')`.execute(db)
        await sql`update meta set value = '9998-removal' where key = 'schema_floor'`.execute(db)
        return tableDigests(db)
      })
      const ended = [await runHere(['verify'], { env: settingsOf(ground) }), await failedStart(ground)]
      for (const { code, stderr, stdout } of ended) {
        assert.deepEqual([code, stdout], [1, ''])
        assert.match(stderr, /^sluice: [^\n]*newer Sluice[^\n]*9999-future[^\n]*\n$/)
      }
      assert.deepEqual(await lookInto(ground, ({ db }) => tableDigests(db)), before)
    })
  })
}

/** Values that each setting must reject; the first one is tested with the whole command too. */
const WRONG: Readonly<Record<string, readonly string[]>> = {
  PORT: ['http', '-1', '65536', '80.5', '0x50', '1e3', '３０００'],
  HOST: ['my host', 'http://127.0.0.1', '127.0.0.1/8', 'a,b'],
  DATABASE_URL: ['mysql://root:hunter2hunter2@127.0.0.1/sluice', 'localhost:5432', 'sluice.db', 'http://x/y'],
  SLUICE_SECRET: [
    'too-short-hunter2hunter2',
    ',',
    `${SECRET},short`,
    'a'.repeat(64),
    'random_string'.repeat(4),
    'abcabcabcabcabcabcabcabcabcabcabcabc',
  ],
  SLUICE_ROOT_PASSWORD: ['hunter2', 'x'.repeat(129), '🔑🔑🔑🔑🔑🔑🔑'],
  SLUICE_ROOT_ACCESS_TOKEN: [
    'sk-hunter2hunter2hunter2hunter2',
    'hunter2hunter2hunte',
    'x'.repeat(201),
    'hunter2 hunter2 hunter2',
    'hunter2hunter2hunter2hunter2é',
  ],
  SLUICE_WORKERS: ['none', '0', '65', '1.5'],
  SLUICE_PRIVATE_UPSTREAMS: ['yes', 'DENY', 'true'],
  SLUICE_PRIVATE_PROXIES: ['http://proxy', 'a/b', '10.0.0.0/33'],
  SLUICE_PROXY: ['proxy:3128', 'ftp://proxy', 'http://user:hunter2@proxy/path', 'socks4://hunter2@proxy'],
  SLUICE_NO_PROXY: ['http://host', 'host:99999', 'a,b/c'],
  SLUICE_CA_CERTS: ['/nonexistent/ca.pem', '/dev/null'],
  SLUICE_DNS_SERVERS: ['dns.example', '192.0.2.1:0', '[192.0.2.1', '2001:db8::1:x'],
  SLUICE_IP_FAMILY: ['ipv4', '6'],
  SLUICE_LOG: ['loud', 'INFO', 'warning'],
  OTEL_EXPORTER_OTLP_ENDPOINT: [
    'https://user:hunter2@host',
    'localhost:4318',
    'grpc://host',
    'http://host/#hunter2',
  ],
  OTEL_EXPORTER_OTLP_HEADERS: [
    'authorization: hunter2',
    'x=%hunter2',
    '=hunter2',
    'a b=hunter2',
    'te=hunter2',
    'x=%0Ahunter2',
  ],
  OTEL_EXPORTER_OTLP_PROTOCOL: ['grpc', 'json'],
  OTEL_RESOURCE_ATTRIBUTES: ['name', 'a=b,c'],
  OTEL_TRACES_SAMPLER: ['ratio', 'jaeger_remote'],
  OTEL_TRACES_SAMPLER_ARG: ['all', '1.1', '-1'],
  SLUICE_SHIP_USAGE: ['syslog://hunter2', 'file:', '/var/log/usage.jsonl', 'https://user:hunter2@host/'],
  SLUICE_SHIP_HEADERS: ['hunter2', 'authorization=%hunter2'],
  SLUICE_DURABILITY: ['fsync', 'FULL'],
  SLUICE_DRAIN_S: ['2m', '-1', '3601'],
  SLUICE_DRAIN_DELAY_S: ['5s', '-1', '301'],
  DATABASE_REPLICA_URL: ['postgres://h/d', 'mysql://root:hunter2hunter2@h/d'],
  SLUICE_FENCE_S: ['4', '601', '1m'],
  SLUICE_OUTAGE_S: ['-1', '601', '1m'],
  SLUICE_BASE_PATH: ['gateway', '/a b', '/a//b', '/a?b', 'https://host/a', '/a/../b', '/.', '/a/..'],
  SLUICE_TRUSTED_PROXIES: ['10.0.0.0/33', 'proxy.local', '10.0.0.1,nonsense', '10', '1.2.3.4/x'],
  SLUICE_MAX_BODY_MB: ['64MB', '0', '1025'],
  SLUICE_VIDEO_DOUBT_S: ['0', '15min', '86401'],
  SLUICE_VIDEO_DEADLINE_S: ['0', '1d', '604801'],
}

/** A command reads all settings before anything else: one of them shows that its process does so. */
const WRONG_IN_A_PROCESS = 'SLUICE_SECRET'

describe('an invalid setting (docs/reference/process.md: Settings at start)', () => {
  for (const [setting, values] of Object.entries(WRONG)) {
    it(`${setting} is reported in one sentence that names it`, () => {
      for (const value of values) {
        assert.throws(
          () => readConfig({ [setting]: value }),
          (error: Error) => {
            assert.ok(error instanceof SettingError, String(error))
            assert.ok(error.message.startsWith(`${setting} `), error.message)
            assert.doesNotMatch(error.message, /\n|hunter2/)
            return true
          },
        )
      }
    })

    it(`${setting} ends the start with exit 78, and nothing was created`, async () => {
      const cwd = newDirectory()
      const env = { SLUICE_DATA: join(cwd, 'data'), PORT: '0', [setting]: values[0] as string }
      const isProcess = setting === WRONG_IN_A_PROCESS
      const ended = await (isProcess ? run : runHere)(['start'], { env, cwd })
      assertSettingRefused(ended, setting)
      assert.doesNotMatch(ended.stderr, /hunter2/)
      assert.equal(ended.stdout, '')
      assert.deepEqual(readdirSync(cwd), [])
    })
  }

  it('as an option, or for another command, is the same error', async () => {
    const cwd = newDirectory()
    const env = { SLUICE_DATA: join(cwd, 'data'), PORT: '0' }
    assertSettingRefused(
      await runHere(['verify'], { cwd, env: { ...env, SLUICE_SECRET: 'short' } }),
      'SLUICE_SECRET',
    )
    assertSettingRefused(await runHere(['start', '--port', 'http'], { cwd, env }), 'PORT')
    assertSettingRefused(await runHere(['start', '--host', 'my host'], { cwd, env }), 'HOST')
    assert.deepEqual(readdirSync(cwd), [])
  })

  it('SLUICE_DATA is named if it is not a directory, or too long for a socket path', async () => {
    const cwd = newDirectory()
    const file = join(cwd, 'file')
    writeFileSync(file, '')
    assertSettingRefused(await failedStart({ dataDir: file }), 'SLUICE_DATA')
    const deep = join(cwd, 'deep-'.repeat(30))
    assertSettingRefused(await runHere(['start', '--data', deep]), 'SLUICE_DATA')
    for (const data of [join(file, 'below'), join(cwd, 'x'.repeat(300))])
      await assert.rejects(
        openStoreAndKeys(readConfig({ SLUICE_DATA: data })),
        /^SettingError: SLUICE_DATA must /,
      )
    assert.deepEqual(readdirSync(cwd), ['file'])
    // If the system cannot create directories, Node's recursive mkdir never returns.
    if (process.platform === 'linux')
      assertSettingRefused(await failedStart({ dataDir: '/proc/sluice/data' }), 'SLUICE_DATA')
  })

  it('SLUICE_DATA is named with the lock file that cannot be opened', async () => {
    const ground = await newGround('sqlite')
    await (await startGatewayOn(ground)).close()
    const nodes = join(ground.dataDir, 'nodes')
    const lock = join(nodes, readdirSync(nodes)[0] as string, 'lock')
    rmSync(lock)
    mkdirSync(lock)
    const { code, stderr } = await failedStart(ground)
    assert.equal(code, 78, stderr)
    assert.match(
      stderr,
      /^sluice: SLUICE_DATA cannot be used: [^\n]+\/lock cannot be opened [^\n]+owner[^\n]+\n$/,
    )
  })

  it('SLUICE_DATA is named if its database is damaged, by the start and by every command', async () => {
    const ground = await newGround('sqlite')
    const env = settingsOf(ground)
    await (await startGatewayOn(ground)).close()
    const path = join(ground.dataDir, 'sluice.db')
    const whole = readFileSync(path)
    for (const damaged of [whole.subarray(0, whole.length / 4), Buffer.alloc(whole.length, 'no database')])
      for (const fail of [
        () => failedStart(ground),
        () => runHere(['verify'], { env }),
        () => runHere(['admin', 'reset-password'], { env }),
      ]) {
        writeFileSync(path, damaged)
        const { code, stderr } = await fail()
        assert.equal(code, 1)
        assert.match(stderr, /^sluice: the database in SLUICE_DATA cannot be used: [^\n]+\n$/)
      }
  })

  it('HOST is named if this machine has no such address', async () => {
    const ground = await newGround('sqlite', { HOST: '203.0.113.7' })
    assertSettingRefused(await failedStart(ground), 'HOST')
  })

  it('DATABASE_URL is named if the server is unreachable or refuses', async () => {
    const { dataDir, databaseUrl = '' } = await emptyGround('postgres')
    const altered = (change: (url: URL) => void) => {
      const url = new URL(databaseUrl)
      change(url)
      return url.href
    }
    for (const url of [
      `postgres://sluice:hunter2hunter2@127.0.0.1:${CLOSED_PORT}/sluice`,
      `postgres://sluice:hunter2hunter2@localhost:${CLOSED_PORT}/sluice`,
      'postgres://sluice:hunter2hunter2@no-such-host.invalid/sluice',
      altered(each => {
        each.pathname = '/no_such_database'
      }),
      altered(each => {
        each.searchParams.set('sslmode', 'verify-full')
      }),
    ])
      await assert.rejects(
        openStoreAndKeys(readConfig({ SLUICE_DATA: dataDir, DATABASE_URL: url })),
        error => {
          assert.match(String(error), /^SettingError: DATABASE_URL cannot be used: [^\n]+$/)
          assert.doesNotMatch(String(error), /hunter2|sluice-test/)
          return true
        },
      )
    const wrongPassword = altered(each => {
      each.password = 'hunter2hunter2'
    })
    const ended = await runHere(['verify'], { env: settingsOf({ dataDir, databaseUrl: wrongPassword }) })
    assertSettingRefused(ended, 'DATABASE_URL')
    assert.doesNotMatch(ended.stderr, /hunter2|sluice-test/)
  })
})

describe('a port that is in use', () => {
  it('is reported by its name, and a new root password is still printed', async () => {
    const blocker = createServer().listen(0, '127.0.0.1')
    await new Promise(resolve => blocker.once('listening', resolve))
    const address = blocker.address()
    const port = typeof address === 'object' && address ? address.port : 0
    try {
      const ground = await emptyGround('sqlite')
      const env = { SLUICE_DATA: ground.dataDir, PORT: String(port) }
      const ended = await run(['start'], { env })
      assertSettingRefused(ended, 'PORT')
      assert.match(ended.stderr, new RegExp(String(port)))
      // The password was printed, because it is printed only once.
      const gateway = await startGatewayOn(ground)
      assert.equal((await login(gateway.url, printedPassword(ended.stdout) ?? '')).status, 200)
      await gateway.close()
    } finally {
      blocker.close()
    }
  })
})

describe('an address of the metrics that cannot be used', () => {
  it('is reported by its own settings', async () => {
    const blocker = createServer().listen(0, '127.0.0.1')
    await new Promise(resolve => blocker.once('listening', resolve))
    const { port } = blocker.address() as AddressInfo
    try {
      const metrics = { SLUICE_METRICS_PORT: String(port) }
      const occupied = await failedStart(await newGround('sqlite', metrics))
      assertSettingRefused(occupied, 'SLUICE_METRICS_PORT')
      assert.match(occupied.stderr, new RegExp(String(port)))
      const elsewhere = await newGround('sqlite', { ...metrics, SLUICE_METRICS_HOST: '203.0.113.7' })
      assertSettingRefused(await failedStart(elsewhere), 'SLUICE_METRICS_HOST')
      const same = settingsOf(await newGround('sqlite', { ...metrics, PORT: String(port) }))
      const { stderr } = await runHere(['start'], { env: same })
      assert.match(stderr, /^sluice: SLUICE_METRICS_PORT must differ from PORT/)
    } finally {
      blocker.close()
    }
  })
})

describe('a gateway on a PostgreSQL that another one uses', () => {
  it('is refused without its secret, and changes nothing', async () => {
    const { databaseUrl } = await newGround('postgres', { SLUICE_SECRET: SECRET })
    const env = { SLUICE_SECRET: SECRET }
    await (await startGatewayOn({ dataDir: newDirectory(), databaseUrl, env })).close()
    const before = await lookInto({ dataDir: '', databaseUrl }, ({ db }) => tableDigests(db))
    const stranger = { dataDir: newDirectory(), databaseUrl }
    const wrong = await runHere(['verify'], { env: { ...settingsOf(stranger), SLUICE_SECRET: OTHER_SECRET } })
    assertSettingRefused(wrong, 'SLUICE_SECRET')
    // Without a secret it would generate one, which is a different secret too.
    const none = await runHere(['verify'], { env: settingsOf(stranger) })
    assertSettingRefused(none, 'SLUICE_SECRET')
    assert.deepEqual(await lookInto({ dataDir: '', databaseUrl }, ({ db }) => tableDigests(db)), before)
  })
})

describe('a shutdown', () => {
  it('closes idle connections, finishes running requests, accepts no new ones, reports not ready, and exits 0', async () => {
    const ground = await newGround('sqlite')
    const server = await startServer(ground)
    const running = await openRequest(server.port, JSON.stringify({ name: 'finished' }))
    const idle = await openSocket(server.port)
    const keepAliveSocket = await openSocket(server.port)
    keepAliveSocket.write('GET /healthz HTTP/1.1\r\nhost: sluice\r\n\r\n')
    await keepAliveSocket.has('"ok"')
    server.signal('SIGTERM')
    await untilLogged(server, 'Shutting down')
    await refusesConnections(server.url)
    await Promise.all([idle.closed, keepAliveSocket.closed])
    // A server that waits for the first request of a connection ends it with 408.
    assert.equal(idle.text(), '')
    assert.ok(server.isRunning())
    running.finish('GET /readyz HTTP/1.1\r\nhost: sluice\r\n\r\n')
    await running.has('"not ready"')
    assert.match(running.text(), /HTTP\/1\.1 200 OK[\s\S]*HTTP\/1\.1 503 Service Unavailable/)
    const { code } = await server.ended
    assert.equal(code, 0)
    await running.closed

    const tokens = await lookInto(ground, ({ db }) => db.selectFrom('tokens').select('name').execute())
    assert.deepEqual(tokens, [{ name: 'finished' }])
  })
})

describe('health', () => {
  it('is separate from readiness, which depends on the store', async t => {
    const { dataDir, databaseUrl = '' } = await newGround('postgres')
    const proxy = await startProxy(new URL(databaseUrl))
    t.after(() => proxy.close())
    const url = new URL(databaseUrl)
    url.port = String(proxy.port)
    const gateway = await startGatewayOn({ dataDir, databaseUrl: url.href })
    const status = async (path: string) => (await fetch(`${gateway.url}${path}`)).status
    const becomes = (expectedStatus: number) =>
      until(`/readyz to say ${expectedStatus}`, async () =>
        (await status('/readyz')) === expectedStatus ? true : undefined,
      )
    assert.deepEqual([await status('/healthz'), await status('/readyz')], [200, 200])
    for (const trouble of ['refuse', 'hang'] as const) {
      proxy.set(trouble)
      await becomes(503)
      assert.equal(await status('/healthz'), 200)
      proxy.set('refuse')
      proxy.set('pass')
      await becomes(200)
      assert.equal((await gateway.api('GET', '/api/token/')).status, 200)
    }
    await gateway.close()
  })
})

describe('logs', () => {
  it('are JSON lines, each of a request with the id of its response, and without credentials', async () => {
    // A first start with credentials of root, which it does not print either.
    const server = await startServer(await emptyGround('sqlite'))
    const answers = [
      await server.api('GET', '/api/user/self'),
      await server.api('POST', '/api/token/', { name: 'logged' }),
      await server.api('GET', '/api/nowhere'),
      await server.api('POST', '/api/token/', { name: '' }),
      await server.api('GET', '/api/token/', undefined, { token: null }),
      await login(server.url, 'a wrong password'),
      await login(server.url, ROOT_PASSWORD),
    ]
    assert.deepEqual([answers[0]?.body.data.username, answers.at(-1)?.status], ['root', 200])
    const { stdout, stderr } = await server.stop()
    assert.equal(stderr, '')
    const lines = stdout.split('\n').filter(line => line !== '')
    for (const line of lines) assert.doesNotThrow(() => JSON.parse(line), line)
    for (const line of logLines(stdout)) {
      assert.match(String(line.time), /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
      assert.match(String(line.level), /^(info|warn)$/)
    }
    const requests = logLines(stdout).filter(({ method }) => method !== undefined)
    assert.deepEqual(
      requests.map(({ request_id, status }) => [request_id, status]),
      answers.map(({ headers, status }) => [headers.get('x-request-id'), status]),
    )
    for (const { request_id } of requests) assert.match(String(request_id), /^req_[0-9A-Z]{26}$/)
    for (const secret of [ROOT_TOKEN, ROOT_PASSWORD, answers[1]?.body.data.key, 'a wrong password'])
      assert.ok(!stdout.includes(secret))
  })
})

describe('behind a proxy', () => {
  const server = suiteGateway({
    engine: 'sqlite',
    env: { SLUICE_BASE_PATH: '/gateway/one', SLUICE_TRUSTED_PROXIES: '127.0.0.0/8, 10.0.0.0/8' },
  })
  let origin: string
  before(() => {
    origin = new URL(server.url).origin
  })

  it('everything is under SLUICE_BASE_PATH: API, reference, pages and cookie', async () => {
    assert.ok(server.url.endsWith('/gateway/one'))
    assert.equal((await server.api('GET', '/api/user/self')).status, 200)
    const { docs_link, reset_command } = (await server.api('GET', '/api/status')).body.data
    assert.equal(docs_link, '/gateway/one/docs')
    // The path of the data directory is not public.
    assert.equal(reset_command, './sluice admin reset-password root --data DIR')
    assert.equal((await server.api('GET', '/api/openapi.json')).body.servers[0].url, '/gateway/one')
    const docs = await server.api('GET', '/docs', undefined, { token: null })
    assert.equal(docs.status, 200)
    // Every URL on the page stays behind the proxy.
    const addresses = [...docs.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(match => match[1] as string)
    assert.ok(addresses.length > 0)
    for (const address of addresses) {
      const target = new URL(address, `${server.url}/docs`)
      assert.ok(target.pathname.startsWith('/gateway/one/'), address)
      assert.equal((await fetch(target)).status, 200, address)
    }
    const page = (await server.api('GET', '/')).text
    const own = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(match => match[1] as string)
    assert.ok(own.length > 0)
    for (const address of own) assert.ok(address.startsWith('/gateway/one/'), address)
    const cookie = (await login(server.url, ROOT_PASSWORD)).headers.get('set-cookie') ?? ''
    assert.match(cookie, /^sluice_session=[A-Za-z0-9]+;.*Path=\/gateway\/one(;|$)/)
    assert.match(cookie, /HttpOnly/)
    assert.match(cookie, /SameSite=Strict/)
  })

  it('only health checks are outside it', async () => {
    const outside = createApi(origin, ROOT_TOKEN)
    for (const path of [
      '/',
      '/api/user/self',
      '/docs',
      '/gateway/oneself/api/status',
      '/gateway',
      '/v1/models',
    ]) {
      const { status, body } = await outside('GET', path)
      assert.equal(status, 404, path)
      assert.equal(body.code, 'not_found')
    }
    for (const path of ['/healthz', '/readyz', '/gateway/one/healthz', '/gateway/one/readyz'])
      for (const form of ['', '/', '?probe=1', '/?probe=1']) {
        assert.equal((await outside('GET', path + form)).status, 200, path + form)
        assert.equal((await fetch(origin + path + form, { method: 'HEAD' })).status, 200, path + form)
        const refused = await outside('POST', path + form)
        assert.equal(refused.status, 405, path + form)
        assert.equal(refused.body.code, 'method_not_allowed')
        assert.equal(refused.headers.get('allow'), 'GET, HEAD')
      }
    for (const path of ['/healthzz', '/healthz/deeper', '/gateway/one/healthz/deeper'])
      assert.equal((await outside('GET', path)).status, 404, path)
  })

  const addressOf = async (headers: Env) => {
    const { headers: responseHeaders } = await server.api(
      'POST',
      '/api/token/',
      { name: 'addressed' },
      { headers },
    )
    const { body } = await server.api('GET', '/api/audit/?page_size=5')
    const record = body.data.items.find(
      (each: { request_id: string }) => each.request_id === responseHeaders.get('x-request-id'),
    )
    return record?.address
  }

  it('the client is the last address that is not a trusted proxy', async () => {
    assert.equal(await addressOf({}), '127.0.0.1')
    assert.equal(await addressOf({ 'x-forwarded-for': '198.51.100.7' }), '198.51.100.7')
    assert.equal(await addressOf({ 'x-forwarded-for': '198.51.100.7, 10.1.2.3' }), '198.51.100.7')
    // Addresses that the client itself claims are further left and are ignored.
    assert.equal(await addressOf({ 'x-forwarded-for': '203.0.113.9, 198.51.100.7' }), '198.51.100.7')
    assert.equal(await addressOf({ 'x-forwarded-for': '::ffff:198.51.100.8' }), '198.51.100.8')
    assert.equal(await addressOf({ 'x-forwarded-for': '2001:db8::1' }), '2001:db8::1')
    assert.equal(await addressOf({ 'x-forwarded-for': '10.1.2.3' }), '127.0.0.1')
  })

  it('the cookie is Secure if the client used TLS to the proxy', async () => {
    const secure = async (headers: Env) =>
      /; Secure/.test((await login(server.url, ROOT_PASSWORD, headers)).headers.get('set-cookie') ?? '')
    assert.equal(await secure({}), false)
    assert.equal(await secure({ 'x-forwarded-proto': 'https' }), true)
    assert.equal(await secure({ 'x-forwarded-proto': 'http' }), false)
  })
})

describe('without SLUICE_TRUSTED_PROXIES', () => {
  const server = suiteGateway({ engine: 'sqlite' })
  it('forwarding headers of any client are ignored', async () => {
    const headers = { 'x-forwarded-for': '198.51.100.7', 'x-forwarded-proto': 'https' }
    const { headers: responseHeaders } = await login(server.url, ROOT_PASSWORD, headers)
    assert.doesNotMatch(responseHeaders.get('set-cookie') ?? '', /Secure/)
    const { body } = await server.api('GET', '/api/audit/?action=user.login')
    assert.deepEqual(
      body.data.items.map((each: { address: string }) => each.address),
      ['127.0.0.1'],
    )
  })
})

const COMMANDS = [
  'start',
  'admin reset-password',
  'admin access-token',
  'admin rotate-secret',
  'explain',
  'replay',
  'apply',
  'export',
  'config log',
  'config show',
  'config diff',
  'config rollback',
  'config schema',
  'verify',
  'backup',
  'restore',
  'migrate',
  'node list',
  'node drain',
  'node retire',
  'doctor',
  'completion',
  'canary list',
  'canary start',
  'canary show',
  'canary set',
  'canary pause',
  'canary resume',
  'canary promote',
  'canary drop',
  'import new-api',
  'import one-api',
  'import litellm',
  'import openrouter',
  'import csv',
  'version',
  'help',
]

/** The command line without the program: nothing here may start or change anything. */
async function say(...words: string[]) {
  const printed: string[] = []
  const complained: string[] = []
  const code = await runCli(words, {
    version,
    settingsHelp,
    start: () => assert.fail('it started'),
    operate: () => assert.fail('it worked'),
    restore: () => assert.fail('it restored'),
    examine: () => assert.fail('it examined'),
    migrate: () => assert.fail('it examined'),
    configSchema: async () => ({}),
    print: line => void printed.push(line),
    printError: line => void complained.push(line),
  })
  return { code, stdout: printed.join('\n'), stderr: complained.join('\n') }
}

describe('the command line', () => {
  it('prints its version and an overview of every command', async () => {
    for (const word of ['version', '--version', '-v'])
      assert.deepEqual(await say(word), { code: 0, stdout: version, stderr: '' })
    const overview = await say('help')
    assert.deepEqual([overview.code, overview.stderr], [0, ''])
    for (const name of COMMANDS) assert.match(overview.stdout, new RegExp(`sluice ${name}  +\\w`))
    assert.equal(overview.stdout.match(/^ {2}sluice /gm)?.length, COMMANDS.length)
    assert.deepEqual(await say('--help'), overview)
    assert.deepEqual(await say('-h'), overview)
    assert.deepEqual(await say(), { ...overview, code: 64 })
  })

  for (const name of COMMANDS) {
    it(`explains "${name}" on request, and does nothing else`, async () => {
      const help = await say(...name.split(' '), '--help')
      assert.deepEqual([help.code, help.stderr], [0, ''])
      assert.match(help.stdout, new RegExp(`^sluice ${name}\\b`))
      assert.deepEqual(await say('help', ...name.split(' ')), help)
      assert.deepEqual(await say(...name.split(' '), '-h'), help)
    })

    it(`shows an example, the exit codes and --json in the help of "${name}"`, async () => {
      const { stdout } = await say(...name.split(' '), '--help')
      assert.match(stdout, new RegExp(`^ {2}Example: .*\\bsluice ${name}\\b`, 'm'))
      assert.match(stdout, /\bExit 0: /)
      assert.match(stdout.split('\n')[0] ?? '', /\[--json\]/)
    })
  }

  it('prints JSON with --json', async () => {
    const described = JSON.parse((await say('help', '--json')).stdout)
    assert.deepEqual(
      described.commands.map(({ name }: { name: string }) => name),
      COMMANDS,
    )
    assert.equal(JSON.parse((await say('version', '--json')).stdout).version, version)
    const { script } = JSON.parse((await say('completion', 'fish', '--json')).stdout)
    assert.equal((await say('completion', 'fish')).stdout, script.trimEnd())
  })

  it('lists every setting in the help of "start"', async () => {
    const { stdout } = await say('start', '--help')
    assert.match(stdout, /^ {2}PORT +port to listen on \(default: 3000\)$/m)
    assert.match(stdout, /^ {2}SLUICE_MAX_TMP_MB +\w/m)
  })

  it('rejects unknown commands', async () => {
    for (const words of [
      'nonsense',
      'admin',
      'admin nonsense',
      'constructor',
      '__proto__',
      'help nonsense',
      'help toString',
    ]) {
      const { code, stdout, stderr } = await say(...words.split(' '))
      assert.deepEqual([code, stdout], [64, ''], words)
      assert.match(stderr, /^sluice: [^\n]*unknown command[^\n]*sluice help[^\n]*$/)
    }
  })

  it('lists the commands of a group for its help, and names them after a wrong second word', async () => {
    for (const words of ['config --help', 'config -h', 'help config']) {
      const { code, stdout } = await say(...words.split(' '))
      assert.equal(code, 0, words)
      assert.match(stdout, /^ {2}sluice config log .*\n {2}sluice config show /, words)
      assert.doesNotMatch(stdout, /sluice start/, words)
    }
    const { code, stderr } = await say('config', 'rolback')
    assert.equal(code, 64)
    assert.match(stderr, /"config rolback".*log, show, diff, rollback, schema/)
  })

  it('names an unknown option, and nothing else about it', async () => {
    const { stderr } = await say('start', '--prot', '3')
    assert.equal(stderr.split('\n')[0], "sluice: Unknown option '--prot'")
  })

  it('responds to invalid arguments with the usage of the command', async () => {
    for (const words of [
      'start --nonsense',
      'start --port',
      'start here',
      'start --demo=yes',
      'verify --audit=yes',
      'admin reset-password one two',
      'admin access-token --name',
      'version please',
      'backup',
      'restore',
      'restore one two',
    ]) {
      const { code, stdout, stderr } = await say(...words.split(' '))
      assert.deepEqual([code, stdout], [64, ''], words)
      assert.match(
        stderr,
        /^sluice: [\s\S]+\nsluice (start|verify|backup|restore|admin [a-z-]+|version)\b[^\n]*$/,
      )
    }
  })

  it('distinguishes an internal error from wrong usage', async () => {
    const fault = Object.assign(new TypeError('ours'), { code: 'ERR_INVALID_ARG_TYPE' })
    const silent = () => {}
    const fail = () => assert.fail('it worked')
    const output = { print: silent, printError: silent }
    const broken = {
      version,
      settingsHelp,
      operate: fail,
      restore: fail,
      examine: fail,
      migrate: fail,
      configSchema: fail,
      ...output,
    }
    await assert.rejects(runCli(['start'], { ...broken, start: () => Promise.reject(fault) }), fault)
  })

  it('ends the process with its output on the right streams and the right exit code', async () => {
    assert.deepEqual(await run(['version']), { code: 0, signal: null, stdout: `${version}\n`, stderr: '' })
    const unknown = await run(['nonsense'])
    assert.deepEqual([unknown.code, unknown.stdout], [64, ''])
    assert.match(unknown.stderr, /^sluice: [^\n]*nonsense[^\n]*\n$/)
  })

  it('refuses to work on a gateway that was never started, and creates none', async () => {
    const cwd = newDirectory()
    for (const args of [['verify'], ['admin', 'access-token']])
      assertSettingRefused(await runHere([...args, '--data', 'typo'], { cwd }), 'SLUICE_DATA')
    assert.deepEqual(readdirSync(cwd), [])
    const { databaseUrl = '' } = await emptyGround('postgres')
    const env = { DATABASE_URL: databaseUrl, SLUICE_DATA: join(cwd, 'data') }
    assertSettingRefused(await runHere(['verify'], { cwd, env }), 'DATABASE_URL')
    assert.equal(await lookInto({ dataDir: '', databaseUrl }, store => store.isInitialised()), false)
  })
})

for (const engine of ENGINES) {
  // Through the socket the server executes the command, on both engines.
  for (const isRunning of engine === 'sqlite' ? [true, false] : [false]) {
    const where = isRunning ? 'through the socket of a running server' : 'without a server'
    describe(`commands on ${engine}, ${where}`, () => {
      let ground: ServerOptions
      let server: Pick<Server, 'api' | 'url'>
      let end: (() => Promise<unknown>) | undefined
      /** Only a process has a socket. */
      async function start(): Promise<void> {
        if (isRunning) {
          const started = await startServer(ground)
          server = started
          end = async () => assert.equal((await started.stop()).code, 0)
        } else {
          const gateway = await startGatewayOn(ground)
          server = gateway
          end = gateway.close
        }
      }
      async function stop(): Promise<void> {
        await end?.()
        end = undefined
      }
      before(async () => {
        ground = await newGround(engine)
        await start()
        await server.api('POST', '/api/token/', { name: 'a token', remain_quota: 1_000 })
      })
      after(stop)

      const command = (...args: string[]) => runHere(args, { env: settingsOf(ground) })
      const stopForCommands = async () => {
        if (!isRunning) await stop()
      }

      it('create access tokens and passwords that work, and report what they cannot do', async () => {
        const session = (await login(server.url, ROOT_PASSWORD)).headers.get('set-cookie') ?? ''
        const headers = { cookie: session.split(';')[0] as string }
        await stopForCommands()
        const creation = await command('admin', 'access-token', '--name', 'from the command line')
        const reset = await command('admin', 'reset-password')
        const refusal = await command('admin', 'reset-password', 'unknown-user')
        for (const name of ['', ' ', 'n'.repeat(51)]) {
          const unnamed = await command('admin', 'access-token', '--name', name)
          assert.deepEqual([unnamed.code, unnamed.stdout], [1, ''])
          assert.equal(unnamed.stderr, 'sluice: the name of the token must have 1 to 50 characters\n')
        }
        if (!isRunning) await start()
        assert.deepEqual([creation.code, creation.stderr], [0, ''])
        assert.match(creation.stdout, /^sat-[A-Za-z0-9]{48}\n$/)
        const token = creation.stdout.trim()
        const { body } = await server.api('GET', '/api/user/access_token/', undefined, { token })
        assert.equal(body.data.items[0].name, 'from the command line')

        assert.deepEqual([reset.code, reset.stderr], [0, ''])
        const password = /^password of root: ([A-Za-z0-9]{20})\n$/.exec(reset.stdout)?.[1] ?? ''
        assert.equal((await login(server.url, ROOT_PASSWORD)).status, 401)
        assert.equal((await login(server.url, password)).status, 200)
        const old = await server.api('GET', '/api/user/self', undefined, { token: null, headers })
        assert.equal(old.status, 401)

        assert.deepEqual([refusal.code, refusal.stdout], [1, ''])
        assert.match(refusal.stderr, /^sluice: [^\n]*unknown-user[^\n]*\n$/)
        const audit = await server.api('GET', '/api/audit/?page_size=50')
        const byCommand = audit.body.data.items.filter(({ via }: { via: string }) =>
          via.startsWith('command:'),
        )
        assert.deepEqual(
          byCommand.map(({ action }: { action: string }) => action),
          ['user.password', 'access_token.create', 'user.create'],
        )
      })

      it('verify the ledger, find a changed record, and exit 65', async () => {
        await stopForCommands()
        const whole = await command('verify')
        await lookInto(ground, async ({ db }) => {
          await db.updateTable('accounts').set({ credited: 7 }).where('kind', '=', 'token').execute()
          await db.updateTable('audit').set({ actor_name: 'another user' }).where('seq', '=', 2).execute()
        })
        const changed = await command('verify')
        const audit = await command('verify', '--audit')
        assert.deepEqual([whole.code, changed.code, audit.code], [0, 65, 65])
        assert.match(whole.stdout, /^audit: \d+ records, unbroken\n[\s\S]*^store: 1 records, unbroken\n/m)
        assert.match(whole.stdout, /^balances: \d+ accounts match their entries\n$/m)
        assert.match(changed.stdout, /^store: 1 records, unbroken$/m)
        assert.match(
          changed.stdout,
          /^balances: 1 of \d+ accounts do not match their entries\ntoken:\d+: the account has 7\/0/m,
        )
        assert.equal(audit.stdout, 'audit: BROKEN after 1 records: record 2 was changed\n')
      })

      if (isRunning)
        it('still reach it after a second server was refused on the same data directory', async () => {
          const { pid } = server as Server
          const { code, stderr, stdout } = await run(['start'], { env: settingsOf(ground) })
          assert.deepEqual([code, stdout], [1, ''])
          assert.match(
            stderr,
            new RegExp(`^sluice: [^\\n]*in use by another Sluice process \\(pid ${pid}\\)\\n$`),
          )
          // The socket and the process id file of the first still exist.
          const { body } = await server.api('POST', '/api/token/', { name: 'mine' })
          const created = await run(['admin', 'access-token'], { env: settingsOf(ground) })
          assert.equal(created.code, 0, created.stderr)
          const token = created.stdout.trim()
          const reply = await server.api('GET', `/api/token/${body.data.id}`, undefined, { token })
          assert.equal(reply.body.data.name, 'mine')
        })
    })
  }
}

describe('the demo', () => {
  it('refuses nodes without a demo, and a wrong number of them', async () => {
    for (const words of [
      ['--nodes', '3'],
      ['--demo', '--nodes', '1'],
      ['--demo', '--nodes', 'x'],
    ])
      assert.match((await say('start', ...words)).stderr, /--nodes must be a number from 2 to 9, with --demo/)
  })
})
