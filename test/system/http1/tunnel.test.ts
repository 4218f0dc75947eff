import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpsServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, describe, it } from 'node:test'
import { createSecureContext } from 'node:tls'
import type { ClientProxy, ClientRoute } from '../../../src/http1/client/route.ts'
import { freePort } from '../../support/free-port.ts'
import { fetchRaw, openClient } from '../../support/http1-client.ts'
import { startConnectProxy, startSocksProxy } from '../../support/outbound-proxies.ts'
import { PRIVATE_CA, PRIVATE_CLIENT, PRIVATE_SERVER } from '../../support/private-ca.ts'
import { skipWithout } from '../../support/programs.ts'
import { startRawServer } from '../../support/raw-server.ts'
import { until } from '../../support/wait.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})
const opened = async <T extends { close(): unknown }>(opening: Promise<T>): Promise<T> => {
  const resource = await opening
  closing.push(resource.close)
  return resource
}

const HELLO = 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello'
const startPlain = () =>
  opened(
    startRawServer(async connection => {
      while (await connection.request()) connection.socket.write(HELLO)
    }),
  )

/** A server with TLS that answers with the subject of the client's certificate. */
const secureServer = createHttpsServer(
  { ...PRIVATE_SERVER, ca: PRIVATE_CA, requestCert: true, rejectUnauthorized: false },
  (request, response) => {
    const socket = request.socket as import('node:tls').TLSSocket
    response.end(`hello ${socket.authorized ? socket.getPeerCertificate().subject.CN : 'stranger'}`)
  },
)
after(() => void secureServer.close())
const secureOrigin = async () => {
  if (!secureServer.listening)
    await new Promise<void>(resolve => secureServer.listen(0, '127.0.0.1', () => resolve()))
  secureServer.unref()
  const address = secureServer.address()
  return `https://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}

const CREDENTIALS = { username: 'ann', password: 'secret: ü' }
const trusting = createSecureContext({ ca: PRIVATE_CA })
const proxyAt = (port: number, options: Partial<ClientProxy> = {}): ClientProxy => ({
  kind: 'http',
  endpoint: { isTls: false, hostname: '127.0.0.1', port },
  label: `proxy:${port}`,
  username: '',
  password: '',
  resolvesHere: false,
  resolver: {},
  ...options,
})
const routeBy = (proxy: ClientProxy, rest: Partial<ClientRoute> = {}): ClientRoute => ({
  name: proxy.label,
  proxy,
  ...rest,
})

function connect(options: Parameters<typeof openClient>[0] = {}) {
  const client = openClient(options)
  closing.push(client.close)
  return client
}

const KINDS = { http: startConnectProxy, socks5: startSocksProxy } as const

for (const kind of ['http', 'socks5'] as const) {
  describe(`a ${kind} proxy`, () => {
    const start = (options?: Parameters<typeof startConnectProxy>[0]) => opened(KINDS[kind](options))

    it('connects to a plain server, and the connection is used again', async () => {
      const [server, proxy] = [await startPlain(), await start()]
      const client = connect()
      const route = routeBy(proxyAt(proxy.port, { kind }))
      for (const _ of [1, 2]) {
        const result = await fetchRaw(client, { origin: server.origin, route })
        assert.deepEqual([result.error, result.body], [undefined, 'hello'])
      }
      assert.deepEqual(proxy.targets, [new URL(server.origin).host])
    })

    it('connects to a server with TLS, whose certificate the client checks', async () => {
      const proxy = await start()
      const client = connect()
      const origin = await secureOrigin()
      const own = proxyAt(proxy.port, { kind })
      const untrusted = await fetchRaw(client, { origin, route: routeBy(own) })
      assert.match(untrusted.error?.code ?? '', /UNABLE_TO|SELF_SIGNED/)
      const route = routeBy(own, { name: 'trusting', secureContext: trusting })
      const result = await fetchRaw(client, { origin, route })
      assert.deepEqual([result.error, result.body], [undefined, 'hello stranger'])
      const client_ = createSecureContext({ ca: PRIVATE_CA, ...PRIVATE_CLIENT })
      const authenticatedResult = await fetchRaw(client, {
        origin,
        route: routeBy(own, { name: 'known', secureContext: client_ }),
      })
      assert.equal(authenticatedResult.body, 'hello client')
    })

    it('is sent a user name and a password', async () => {
      const [server, proxy] = [await startPlain(), await start({ credentials: CREDENTIALS })]
      const client = connect()
      const fetchBy = (options: Partial<ClientProxy>, name: string) =>
        fetchRaw(client, {
          origin: server.origin,
          route: routeBy(proxyAt(proxy.port, { kind, ...options }), { name }),
        })
      assert.equal((await fetchBy(CREDENTIALS, 'right')).body, 'hello')
      const wrong = await fetchBy({ ...CREDENTIALS, password: 'another' }, 'wrong')
      assert.equal(wrong.error?.code, 'PROXY_REFUSED')
      assert.match(wrong.error?.message ?? '', /refused the user name or password/)
      const without = await fetchBy({}, 'without')
      assert.match(without.error?.message ?? '', /requires a user name and password/)
      assert.equal(wrong.sent, 0)
    })

    if (kind === 'http')
      it('may refuse a password with 401, as tinyproxy does', async () => {
        const proxy = await start({ answer: 'HTTP/1.1 401 Unauthorized\r\n\r\n' })
        const route = routeBy(proxyAt(proxy.port, { kind, ...CREDENTIALS }), { name: 'refused' })
        const { error } = await fetchRaw(connect(), { origin: 'http://127.0.0.1:9', route })
        assert.match(error?.message ?? '', /refused the user name or password \(401\)/)
      })

    it('resolves names itself, or gets the address', async () => {
      const server = await startPlain()
      const { port } = new URL(server.origin)
      const proxy = await start({ names: { 'only-the-proxy-knows.test': '127.0.0.1' } })
      const client = connect()
      const origin = `http://only-the-proxy-knows.test:${port}`
      const there = await fetchRaw(client, { origin, route: routeBy(proxyAt(proxy.port, { kind })) })
      assert.equal(there.body, 'hello')
      const here = await fetchRaw(client, {
        origin,
        route: routeBy(proxyAt(proxy.port, { kind, resolvesHere: true }), {
          name: 'here',
          resolver: {
            lookup: (_name, _options, callback) => callback(null, [{ address: '127.0.0.1', family: 4 }]),
          },
        }),
      })
      assert.equal(here.body, 'hello')
      assert.deepEqual(proxy.targets, [`only-the-proxy-knows.test:${port}`, `127.0.0.1:${port}`])
    })

    it('may not reach the server', async () => {
      const proxy = await start()
      const { error } = await fetchRaw(connect(), {
        origin: 'http://127.0.0.1:1',
        route: routeBy(proxyAt(proxy.port, { kind })),
      })
      assert.equal(error?.code, 'PROXY_REFUSED')
      assert.match(error?.message ?? '', kind === 'http' ? /status 502/ : /connection refused \(SOCKS 5\)/)
    })

    it('may be unreachable, or something else', async () => {
      const server = await startPlain()
      const client = connect()
      const gone = await fetchRaw(client, {
        origin: server.origin,
        route: routeBy(proxyAt(1, { kind })),
      })
      assert.equal(gone.error?.code, 'PROXY_UNREACHABLE')
      assert.match(gone.error?.message ?? '', /proxy proxy:1 cannot be reached: ECONNREFUSED/)
      const other = await opened(startConnectProxy({ answer: '220 mail.test ESMTP\r\n\r\n' }))
      const { error } = await fetchRaw(client, {
        origin: server.origin,
        route: routeBy(proxyAt(other.port, { kind })),
      })
      assert.equal(error?.code, 'PROXY_MALFORMED')
    })
  })
}

/** Real proxies, if they are installed. */
const PROGRAMS = {
  tinyproxy: {
    kind: 'http',
    args: (port: number, folder: string) => {
      const file = join(folder, 'tinyproxy.conf')
      writeFileSync(file, `Port ${port}\nListen 127.0.0.1\nTimeout 60\nBasicAuth ann secret1\n`)
      return ['-d', '-c', file]
    },
  },
  microsocks: {
    kind: 'socks5',
    args: (port: number) => ['-i', '127.0.0.1', '-p', String(port), '-u', 'ann', '-P', 'secret1'],
  },
} as const

for (const program of ['tinyproxy', 'microsocks'] as const) {
  const { kind, args } = PROGRAMS[program]
  describe(program, { skip: skipWithout(import.meta.filename, program) }, () => {
    it('connects to plain servers and those with TLS, with the right password only', async () => {
      const folder = mkdtempSync(join(tmpdir(), 'sluice-proxy-'))
      const port = await freePort()
      const running = spawn(program, args(port, folder), { stdio: 'ignore' })
      closing.push(() => {
        running.kill('SIGKILL')
        rmSync(folder, { recursive: true, force: true })
      })
      const server = await startPlain()
      const own = proxyAt(port, { kind, username: 'ann', password: 'secret1' })
      const client = connect()
      const plain = await until('the proxy', async () => {
        const result = await fetchRaw(client, { origin: server.origin, route: routeBy(own) })
        return result.error?.code === 'PROXY_UNREACHABLE' ? undefined : result
      })
      assert.deepEqual([plain.error, plain.body], [undefined, 'hello'])
      const secure = routeBy(own, { name: 'trusting', secureContext: trusting })
      const result = await fetchRaw(client, { origin: await secureOrigin(), route: secure })
      assert.deepEqual([result.error, result.body], [undefined, 'hello stranger'])
      const wrong = routeBy({ ...own, password: 'another' }, { name: 'wrong' })
      const { error } = await fetchRaw(client, { origin: server.origin, route: wrong })
      assert.equal(error?.code, 'PROXY_REFUSED')
      const nowhere = await fetchRaw(client, { origin: 'http://127.0.0.1:1', route: routeBy(own) })
      assert.equal(nowhere.error?.code, 'PROXY_REFUSED')
    })
  })
}

describe('a proxy', () => {
  it('may have TLS itself', async () => {
    const proxy = await opened(startConnectProxy({ tls: PRIVATE_SERVER }))
    const own = proxyAt(proxy.port, { endpoint: { isTls: true, hostname: '127.0.0.1', port: proxy.port } })
    const client = connect({ secureContext: trusting })
    for (const origin of [await secureOrigin(), (await startPlain()).origin]) {
      const result = await fetchRaw(client, { origin, route: routeBy(own) })
      assert.equal(result.error, undefined)
      assert.match(result.body, /^hello/)
    }
    const { error } = await fetchRaw(connect(), { origin: await secureOrigin(), route: routeBy(own) })
    assert.equal(error?.code, 'PROXY_UNREACHABLE')
  })

  it('that does not answer is given up after the connect timeout', async () => {
    const silent = await opened(startRawServer(() => new Promise(() => {})))
    const { error } = await fetchRaw(connect(), {
      origin: 'http://127.0.0.1:1',
      connectMs: 50,
      route: routeBy(proxyAt(Number(new URL(silent.origin).port))),
    })
    assert.equal(error?.code, 'CONNECT_TIMEOUT')
    assert.match(error?.message ?? '', /through proxy/)
  })

  it('that speaks before the server does is refused', async () => {
    const proxy = await opened(startConnectProxy({ answer: `HTTP/1.1 200 OK\r\n\r\n${HELLO}` }))
    const server = await startPlain()
    const { error, body } = await fetchRaw(connect(), {
      origin: server.origin,
      route: routeBy(proxyAt(proxy.port)),
    })
    assert.deepEqual([error?.code, body], ['PROXY_MALFORMED', ''])
  })

  it('has connections of its own: none is shared with another route to the same server', async () => {
    const [server, proxy] = [await startPlain(), await opened(startConnectProxy())]
    const client = connect()
    await fetchRaw(client, { origin: server.origin })
    await fetchRaw(client, { origin: server.origin, route: routeBy(proxyAt(proxy.port)) })
    await fetchRaw(client, { origin: server.origin, route: { name: 'another' } })
    assert.deepEqual([server.opened(), client.originCount(), proxy.targets.length], [3, 3, 1])
  })

  it('carries a long response', async () => {
    const long = 'x'.repeat(300_000)
    const server = await opened(
      startRawServer(async connection => {
        while (await connection.request())
          connection.socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${long.length}\r\n\r\n${long}`)
      }),
    )
    const proxy = await opened(startSocksProxy())
    const route = routeBy(proxyAt(proxy.port, { kind: 'socks5' }))
    const result = await fetchRaw(connect(), { origin: server.origin, route })
    assert.equal(result.body.length, long.length)
  })
})
