import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { after, afterEach, describe, it, type TestContext } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import type { ClientOptions } from '../../src/http1/client/client.ts'
import { TEST_CERTIFICATE, TEST_KEY } from '../support/certificate.ts'
import { fetchRaw, openClient, start } from '../support/http1-client.ts'
import { until } from '../support/process.ts'
import { type RawConnection, type RawServer, startRawServer } from '../support/raw-server.ts'

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

async function serve(...args: Parameters<typeof startRawServer>): Promise<RawServer> {
  const server = await startRawServer(...args)
  closing.push(server.close)
  return server
}

function connectTo(options?: Partial<ClientOptions>) {
  const client = openClient(options)
  closing.push(client.close)
  return client
}

/** Answers every request of a connection with the same bytes. */
const always = (text: string) => async (connection: RawConnection) => {
  while (await connection.request()) connection.socket.write(text, 'latin1')
}

const trusted = getCACertificates('default')
after(() => setDefaultCACertificates(trusted))

const OK = 'HTTP/1.1 200 OK\r\n'
const REQUEST = {
  method: 'POST',
  path: '/',
  headers: {},
  connectMs: 10_000,
  idleMs: 60_000,
  isRepeatable: false,
} as const
const HELLO = `${OK}content-length: 5\r\n\r\nhello`
const SMALL_READ_BYTES = 8_192
const come = (what: string, is: () => boolean) => until(what, async () => (is() ? true : undefined))

describe('a response', () => {
  for (const [name, text, body] of [
    ['has the length of its content-length', HELLO, 'hello'],
    ['may be empty', `${OK}content-length: 0\r\n\r\n`, ''],
    [
      'may be chunked',
      `${OK}transfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;a=b\r\nlo\r\n0\r\n\r\n`,
      'hello',
    ],
    [
      'may have trailers, which are not headers',
      `${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx: y\r\n\r\n`,
      'hello',
    ],
    ['with status 204 has no body', 'HTTP/1.1 204 No Content\r\n\r\n', ''],
    ['with status 304 has no body', 'HTTP/1.1 304 Not Modified\r\n\r\n', ''],
    ['may follow an unsolicited 100 Continue', `HTTP/1.1 100 Continue\r\n\r\n${HELLO}`, 'hello'],
    [
      'may follow several informational responses',
      `HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n${HELLO}`,
      'hello',
    ],
  ] as const) {
    it(name, async () => {
      const server = await serve(always(text))
      const client = connectTo()
      for (const _ of [1, 2]) {
        const result = await fetchRaw(client, server)
        assert.equal(result.error, undefined)
        assert.equal(result.body, body)
        assert.deepEqual([result.headers.link, result.headers.x], [undefined, undefined])
      }
      assert.equal(server.opened(), 1)
    })

    it(`${name}, also if it arrives byte by byte`, async () => {
      const server = await serve(async connection => {
        while (await connection.request())
          for (const byte of text) {
            connection.socket.write(byte, 'latin1')
            await new Promise(setImmediate)
          }
      })
      const result = await fetchRaw(connectTo(), server)
      assert.equal(result.error, undefined)
      assert.equal(result.body, body)
    })
  }

  it('may end with its connection', async () => {
    const server = await serve(async connection => {
      await connection.request()
      connection.socket.end('HTTP/1.0 200 OK\r\n\r\nhello', 'latin1')
    })
    const client = connectTo()
    assert.equal((await fetchRaw(client, server)).body, 'hello')
    assert.equal((await fetchRaw(client, server)).body, 'hello')
    assert.equal(server.opened(), 2)
  })

  it('to HEAD has no body, whatever its length says', async () => {
    const server = await serve(always(`${OK}content-length: 5\r\n\r\n`))
    const client = connectTo()
    for (const _ of [1, 2]) assert.equal((await fetchRaw(client, { ...server, method: 'HEAD' })).status, 200)
    assert.equal(server.opened(), 1)
  })

  it('has headers with lower-case names, joined as in node:http', async () => {
    const server = await serve(
      always(
        `${OK}Content-Length: 0\r\nX-A: 1\r\nx-a: 2 \r\nSet-Cookie: a\r\nSet-Cookie: b\r\n__proto__: p\r\n\r\n`,
      ),
    )
    const { headers } = await fetchRaw(connectTo(), server)
    assert.deepEqual(Object.entries(headers), [
      ['content-length', '0'],
      ['x-a', '1, 2'],
      ['set-cookie', ['a', 'b']],
      ['__proto__', 'p'],
    ])
  })

  for (const [name, text] of [
    ['switches protocols', 'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'],
    ['has two lengths', `${OK}content-length: 5\r\ncontent-length: 5\r\n\r\nhello`],
    ['has a length and chunks', `${OK}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['has another transfer coding', `${OK}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    ['has a folded header', `${OK}a: b\r\n c\r\ncontent-length: 0\r\n\r\n`],
    ['has a bare line feed', `${OK}a: b\ncontent-length: 0\r\n\r\n`],
    ['has a space before a colon', `${OK}content-length : 0\r\n\r\n`],
    ['has a chunk size that is no number', `${OK}transfer-encoding: chunked\r\n\r\nx\r\n`],
    ['has a chunk size with a space', `${OK}transfer-encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n`],
    ['has a chunk longer than its size', `${OK}transfer-encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n`],
    ['is of another version', 'HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n'],
    ['is not HTTP', 'SSH-2.0-OpenSSH_9.9\r\n'],
    ['has headers that are too large', `${OK}a: ${'a'.repeat(17_000)}\r\n\r\n`],
    ['has too many headers', `${OK}${'a: b\r\n'.repeat(300)}\r\n`],
    ['has endless empty lines', '\r\n'.repeat(40_000)],
    ['has an endless chunk extension', `${OK}transfer-encoding: chunked\r\n\r\n1;${'a'.repeat(80_000)}`],
    ['has endless trailers', `${OK}transfer-encoding: chunked\r\n\r\n0\r\n${'a: b\r\n'.repeat(9_000)}`],
    ['follows endless informational ones', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(50)],
  ] as const)
    it(`that ${name} is malformed, and its connection is closed`, async () => {
      const server = await serve(always(text))
      const client = connectTo()
      const { error } = await fetchRaw(client, server)
      assert.equal(error?.code, 'MALFORMED_RESPONSE', String(error))
      assert.equal(client.connectionCount(), 0)
      await come('the connection to be closed', () => server.open() === 0)
    })

  for (const [name, text, body] of [
    ['in its head', `${OK}content-le`, ''],
    ['before its length', `${OK}content-length: 6\r\n\r\nhello`, 'hello'],
    ['between chunks', `${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n`, 'hello'],
  ] as const)
    it(`that breaks off ${name} fails after the content that arrived`, async () => {
      const server = await serve(async connection => {
        await connection.request()
        connection.socket.end(text, 'latin1')
      })
      const result = await fetchRaw(connectTo(), server)
      assert.equal(result.error?.code, 'CLOSED')
      assert.equal(result.body, body)
    })

  it('with content before a malformed chunk has that content', async () => {
    const server = await serve(always(`${OK}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz`))
    const { error, body } = await fetchRaw(connectTo(), server)
    assert.deepEqual([error?.code, body], ['MALFORMED_RESPONSE', 'hello'])
  })

  it('that stops for too long is a timeout', async () => {
    const server = await serve(always(`${OK}content-length: 6\r\n\r\nhello`))
    const { error, body } = await fetchRaw(connectTo(), { ...server, idleMs: 100 })
    assert.deepEqual([error?.code, body], ['IDLE_TIMEOUT', 'hello'])
  })

  /** Deadlines on a clock that only the test advances. */
  function simulateDeadlines(t: TestContext) {
    const waiting = new Set<{ readonly atMs: number; readonly onLate: () => void }>()
    let nowMs = 0
    t.mock.method(performance, 'now', () => nowMs)
    return {
      after(ms: number, onLate: () => void) {
        const deadline = { atMs: nowMs + ms, onLate }
        waiting.add(deadline)
        return { cancel: () => void waiting.delete(deadline) }
      },
      pass(ms: number): void {
        nowMs += ms
        for (const deadline of [...waiting])
          if (deadline.atMs <= nowMs && waiting.delete(deadline)) deadline.onLate()
      },
    }
  }

  it('is not idle while bytes arrive, nor while it is paused', async t => {
    const deadlines = simulateDeadlines(t)
    const connected = Promise.withResolvers<RawConnection>()
    const server = await serve(async connection => {
      await connection.request()
      connected.resolve(connection)
    })
    let text = ''
    const exchange = start(connectTo({ deadlines }), { ...server, idleMs: 2_000 }, bytes => {
      text += bytes.toString()
    })
    const { socket } = await connected.promise
    socket.write(`${OK}content-length: 6\r\n\r\n`)
    for (const byte of 'hel') {
      socket.write(byte)
      await come('the byte', () => text.endsWith(byte))
      deadlines.pass(1_500)
    }
    exchange.pause()
    deadlines.pass(3_000)
    socket.write('lo!')
    deadlines.pass(3_000)
    exchange.resume()
    const { error, body } = await exchange.result
    assert.deepEqual([error, body], [undefined, 'hello!'])
  })

  it('is read in small pieces if its reader may be slow, and otherwise in large ones after the first', async () => {
    const text = 'x'.repeat(2_000_000)
    const server = await serve(always(`${OK}content-length: ${text.length}\r\n\r\n${text}`))
    const client = connectTo()
    const piecesOf = (readsSmall: boolean) =>
      new Promise<Buffer[]>((resolve, reject) => {
        const pieces: Buffer[] = []
        client.exchange(
          { ...REQUEST, origin: server.origin, readsSmall },
          {
            sent() {},
            head() {},
            data: bytes => void pieces.push(Buffer.from(bytes)),
            end: () => resolve(pieces),
            fail: reject,
          },
        )
      })
    const SMALL = 8_192
    const largest = (pieces: readonly Buffer[]) => Math.max(...pieces.map(({ length }) => length))
    for (const readsSmall of [true, false, true]) {
      const pieces = await piecesOf(readsSmall)
      assert.equal(Buffer.concat(pieces).toString(), text)
      if (readsSmall) assert.equal(largest(pieces), SMALL)
      else assert.ok(largest(pieces) > SMALL)
      assert.ok((pieces[0] as Buffer).length <= SMALL)
    }
    assert.equal(client.connectionCount(), 1)
  })

  it('whose receiver throws fails, and other exchanges go on', async () => {
    const server = await serve(always(HELLO))
    const client = connectTo()
    const failing = start(client, server, () => {
      throw new Error('no room')
    })
    const [failed, other] = await Promise.all([failing.result, fetchRaw(client, server)])
    assert.equal(failed.error?.message, 'no room')
    assert.equal(other.body, 'hello')
  })
})

describe('a request', () => {
  async function headOf(request: Parameters<typeof fetchRaw>[1] | object) {
    let text = ''
    const server = await serve(async connection => {
      const { head, body } = (await connection.request()) ?? { head: '', body: '' }
      text = head + body
      connection.socket.write(HELLO)
    })
    const result = await fetchRaw(connectTo(), { origin: server.origin, ...request })
    return { text, result, host: `127.0.0.1:${server.port}` }
  }

  it('has its host, its length and its own headers, and not those that frame the connection', async () => {
    const { text, host } = await headOf({
      method: 'POST',
      path: '/a?b=c',
      headers: { 'X-A': 'ä', connection: 'close', 'Transfer-Encoding': 'chunked', 'content-length': '9' },
      body: Buffer.from('body'),
    })
    assert.equal(
      text,
      `POST /a?b=c HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\nX-A: ä\r\ncontent-length: 4\r\n\r\nbody`,
    )
  })

  it('may name another host', async () => {
    const { text } = await headOf({ headers: { Host: 'example.com' } })
    assert.equal(text, 'GET / HTTP/1.1\r\nconnection: keep-alive\r\nHost: example.com\r\n\r\n')
  })

  it('with a method that has a body says that it has none', async () => {
    assert.match((await headOf({ method: 'POST' })).text, /content-length: 0\r\n/)
  })

  for (const [name, body] of [
    ['in pieces', [Buffer.from('he'), Buffer.from('llo')]],
    ['that is larger than one write', Buffer.alloc(100_000, 'x')],
    [
      'that is read while it is sent',
      { length: 5, open: () => Readable.from([Buffer.from('hel'), Buffer.from('lo')]) },
    ],
  ] as const)
    it(`may have a body ${name}`, async () => {
      const { text } = await headOf({ method: 'POST', body })
      assert.ok(text.endsWith(Buffer.isBuffer(body) ? body.toString() : 'hello'))
    })

  for (const length of [4, 6])
    it(`fails if its body does not have the announced length of ${length}`, async () => {
      const { result } = await headOf({
        method: 'POST',
        body: { length, open: () => Readable.from([Buffer.from('hel'), Buffer.from('lo')]) },
      })
      assert.equal(result.error?.code, 'MALFORMED_REQUEST')
    })

  it('fails if its body cannot be opened', async () => {
    const open = () => {
      throw new Error('no such file')
    }
    const { result } = await headOf({ method: 'POST', body: { length: 5, open } })
    assert.equal(result.error?.message, 'no such file')
  })

  it('fails if its body cannot be read', async () => {
    const open = () =>
      new Readable({
        read() {
          this.destroy(new Error('disk failure'))
        },
      })
    const { result } = await headOf({ method: 'POST', body: { length: 5, open } })
    assert.equal(result.error?.message, 'disk failure')
  })

  for (const [name, request] of [
    ['a line break in a value', { headers: { a: 'b\r\nc: d' } }],
    ['a NUL in a value', { headers: { a: '\0' } }],
    ['a character above latin1 in a value', { headers: { a: '漢' } }],
    ['a line break in a name', { headers: { 'a\r\nb': 'c' } }],
    ['a space in its path', { path: '/a HTTP/1.1\r\n\r\nGET /b' }],
    ['a path without a slash', { path: 'a' }],
  ] as const)
    it(`with ${name} is not sent`, async () => {
      const server = await serve(always(HELLO))
      const client = connectTo()
      assert.throws(() => start(client, { ...server, ...request }), { code: 'MALFORMED_REQUEST' })
      assert.equal(server.opened(), 0)
    })
})

describe('a connection', () => {
  it('is used again, the last one first, and never for two requests at once', async () => {
    const indexes: number[] = []
    const server = await serve(async connection => {
      while (await connection.request()) {
        indexes.push(connection.index)
        await delay(50)
        connection.socket.write(HELLO)
      }
    })
    const client = connectTo()
    await Promise.all([fetchRaw(client, server), fetchRaw(client, server), fetchRaw(client, server)])
    assert.equal(server.opened(), 3)
    indexes.length = 0
    for (const _ of [1, 2, 3]) await fetchRaw(client, server)
    assert.equal(new Set(indexes).size, 1)
    assert.equal(server.opened(), 3)
  })

  for (const [name, text] of [
    ['whose response says close', `${OK}connection: close\r\ncontent-length: 0\r\n\r\n`],
    ['whose response says close among others', `${OK}Connection: foo, Close\r\ncontent-length: 0\r\n\r\n`],
    ['of HTTP/1.0', 'HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n'],
    [
      'that the server closes sooner than a request takes',
      `${OK}keep-alive: timeout=2\r\ncontent-length: 0\r\n\r\n`,
    ],
    ['with bytes after the response', `${HELLO}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`],
    ['whose 204 announces a body', 'HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\n'],
  ] as const)
    it(`${name} is not used again`, async () => {
      const server = await serve(always(text))
      const client = connectTo()
      for (const expected of [1, 2]) {
        const { error, body } = await fetchRaw(client, server)
        assert.equal(error, undefined)
        assert.notEqual(body, 'evil')
        assert.equal(server.opened(), expected)
      }
      assert.equal(client.connectionCount(), 0)
    })

  it('of HTTP/1.0 that says keep-alive is used again', async () => {
    const server = await serve(
      always('HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 0\r\n\r\n'),
    )
    const client = connectTo()
    for (const _ of [1, 2]) assert.equal((await fetchRaw(client, server)).status, 200)
    assert.equal(server.opened(), 1)
  })

  it('that is idle for too long is closed, and its origin is forgotten', async () => {
    const server = await serve(always(HELLO))
    const client = connectTo({ keepAliveMs: () => 50 })
    await fetchRaw(client, server)
    await delay(60)
    await fetchRaw(client, server)
    assert.equal(server.opened(), 2)
    await come('the idle connections to be closed', () => server.open() === 0)
    await come('the origin to be forgotten', () => client.originCount() === 0)
  })

  it('that gets bytes while it is idle is closed', async () => {
    const sockets: RawConnection[] = []
    const server = await serve(async connection => {
      sockets.push(connection)
      await always(HELLO)(connection)
    })
    const client = connectTo()
    await fetchRaw(client, server)
    sockets[0]?.socket.write(`${OK}content-length: 4\r\n\r\nevil`)
    await come('the connection to be closed', () => client.connectionCount() === 0)
    assert.equal((await fetchRaw(client, server)).body, 'hello')
  })

  it('that got bytes just before a request is not used for it', async () => {
    const connections: RawConnection[] = []
    const server = await serve(async connection => {
      connections.push(connection)
      await always(HELLO)(connection)
    })
    const client = connectTo()
    await fetchRaw(client, server)
    // After an immediate, the event loop polls the sockets before the next one. The server is in this process, so its
    // bytes are in the client's socket when the next request starts.
    await new Promise(setImmediate)
    connections[0]?.socket.write(`${OK}content-length: 4\r\n\r\nevil`)
    assert.equal((await fetchRaw(client, server)).body, 'hello')
    assert.equal(server.opened(), 2)
  })

  it('that the server closed just before a request is not used for it', async () => {
    const connections: RawConnection[] = []
    const server = await serve(async connection => {
      connections.push(connection)
      await always(HELLO)(connection)
    })
    const client = connectTo()
    await fetchRaw(client, server)
    await new Promise(setImmediate)
    connections[0]?.socket.destroy()
    const result = await fetchRaw(client, { ...server, method: 'POST', body: Buffer.from('x') })
    assert.deepEqual([result.body, result.sent], ['hello', 1])
  })

  it('is used at once at the end of a turn, unless bytes have arrived on it in that turn', async () => {
    const connections: RawConnection[] = []
    const server = await serve(async connection => {
      connections.push(connection)
      await always(HELLO)(connection)
    })
    const client = connectTo()
    const receiver = (resolve: (body: string) => void) => {
      let body = ''
      return {
        sent: () => void events.push('written'),
        head: () => {},
        data(bytes: Buffer) {
          body += bytes
        },
        end: () => resolve(body),
        fail: (error: Error) => resolve(error.message),
      }
    }
    const events: string[] = []
    const exchange = (isEndOfTurn: boolean) =>
      new Promise<string>(resolve => {
        const request = { ...REQUEST, origin: server.origin, isEndOfTurn }
        client.exchange(request, receiver(resolve))
        events.push('returned')
      })
    await exchange(true)
    await exchange(false)
    await new Promise(setImmediate)
    await exchange(true)
    // The first one opens the connection, the second waits for the end of the turn.
    assert.deepEqual(events, ['returned', 'written', 'returned', 'written', 'written', 'returned'])
    await new Promise(setImmediate)
    connections[0]?.socket.write(`${OK}content-length: 4\r\n\r\nevil`)
    await new Promise(setImmediate)
    // The event loop has read the bytes.
    await new Promise(setImmediate)
    assert.equal(await exchange(true), 'hello')
    assert.equal(server.opened(), 2)
  })

  it('is not used at once by an exchange that has waited for it: bytes that follow the response are no response', async () => {
    const server = await serve(async connection => {
      for (let request = await connection.request(); request; request = await connection.request()) {
        const name = request.head.split(' ')[1] as string
        // The response fills the client's buffer, so that what follows it is read in the same turn.
        const head = `${OK}content-length: ${SMALL_READ_BYTES - OK.length - 'content-length: 0000\r\n\r\n'.length}\r\n\r\n`
        connection.socket.write(`${head}${name.padEnd(SMALL_READ_BYTES - head.length)}${HELLO}`)
      }
    })
    const client = connectTo({ maxConnections: 1 })
    const names = ['/a', '/b', '/c', '/d', '/e']
    const results = await Promise.all(
      names.map(path =>
        fetchRaw(client, { ...server, ...REQUEST, path, readsSmall: true, isEndOfTurn: true }),
      ),
    )
    assert.deepEqual(
      results.map(({ body }) => body.trim()),
      names,
    )
    assert.equal(server.opened(), names.length)
  })

  /** The first connection answers one request, then closes when it has received the second one. */
  const staleServer = (last: string) =>
    serve(async connection => {
      await connection.request()
      connection.socket.write(HELLO)
      await connection.request()
      if (connection.index === 0) connection.socket.end(last)
      else connection.socket.write(HELLO)
    })

  it('that closes without a byte of the response has a repeatable request sent again, once', async () => {
    const server = await staleServer('')
    const client = connectTo()
    await fetchRaw(client, server)
    const again = await fetchRaw(client, { ...server, isRepeatable: true })
    assert.deepEqual([again.body, again.sent, server.opened()], ['hello', 2, 2])
  })

  it('that closes without a byte of the response fails any other request', async () => {
    const server = await staleServer('')
    const client = connectTo()
    await fetchRaw(client, server)
    const result = await fetchRaw(client, { ...server, method: 'POST', body: Buffer.from('x') })
    assert.deepEqual([result.error?.code, result.sent, server.opened()], ['CLOSED', 1, 1])
  })

  it('that closes after a byte of the response fails the request, also a repeatable one', async () => {
    const server = await staleServer('H')
    const client = connectTo()
    await fetchRaw(client, server)
    const result = await fetchRaw(client, { ...server, isRepeatable: true })
    assert.deepEqual([result.error?.code, result.sent, server.opened()], ['CLOSED', 1, 1])
  })

  it('that closes is not opened again for its first request', async () => {
    const server = await serve(async connection => {
      await connection.request()
      connection.socket.destroy()
    })
    const result = await fetchRaw(connectTo(), { ...server, isRepeatable: true })
    assert.deepEqual([result.sent, server.opened()], [1, 1])
    assert.ok(result.error)
  })

  it('whose request was not read completely is not used again', async () => {
    const server = await serve(connection => {
      connection.socket.removeAllListeners('data').pause()
      connection.socket.write(HELLO)
    })
    const client = connectTo()
    const result = await fetchRaw(client, { ...server, method: 'POST', body: Buffer.alloc(20_000_000) })
    assert.equal(result.body, 'hello')
    assert.equal(client.connectionCount(), 0)
  })

  it('is waited for if an origin has as many as allowed', async () => {
    const server = await serve(async connection => {
      while (await connection.request()) {
        await delay(20)
        connection.socket.write(HELLO)
      }
    })
    const client = connectTo({ maxConnections: 2 })
    const all = Array.from({ length: 8 }, () => start(client, server))
    all.at(-1)?.abort()
    const results = await Promise.all(all.slice(0, -1).map(({ result }) => result))
    assert.ok(results.every(({ body }) => body === 'hello'))
    assert.equal(server.opened(), 2)
  })

  it('that cannot be opened fails the request, which was not sent', async () => {
    const server = await startRawServer(() => {})
    await server.close()
    const refused = await fetchRaw(connectTo(), server)
    assert.deepEqual([refused.error?.code, refused.sent], ['ECONNREFUSED', 0])
    const client = connectTo()
    const pending = start(client, { origin: 'http://never.invalid', connectMs: 60_000 })
    assert.equal((await pending.result).sent, 0)
    assert.equal(client.connectionCount(), 0)
  })

  it('that takes too long to open is a timeout', async () => {
    const client = connectTo({ resolver: { lookup: () => {} } })
    const { error, sent: sentCount } = await fetchRaw(client, {
      origin: 'http://example.test',
      connectMs: 50,
    })
    assert.deepEqual([error?.code, sentCount], ['CONNECT_TIMEOUT', 0])
  })

  for (const scheme of ['http', 'https'])
    it(`is opened to the next address of its host if the first one refuses, with ${scheme}`, async () => {
      setDefaultCACertificates([...trusted, TEST_CERTIFICATE])
      const tls = scheme === 'https' ? { cert: TEST_CERTIFICATE, key: TEST_KEY } : undefined
      const server = await serve(always(HELLO), tls)
      const addresses = [
        { address: '127.0.0.2', family: 4 },
        { address: '127.0.0.1', family: 4 },
      ]
      const client = connectTo({
        resolver: { lookup: (_host, _options, callback) => callback(null, addresses as never, 4) },
      })
      for (const _ of [1, 2])
        assert.equal(
          (await fetchRaw(client, { origin: `${scheme}://localhost:${server.port}` })).body,
          'hello',
        )
      assert.equal(server.opened(), 1)
    })

  it('is not opened to an address that the resolver refuses', async () => {
    const server = await serve(always(HELLO))
    const refusal = new Error('not allowed')
    const client = connectTo({
      resolver: { refuse: hostname => (hostname === '127.0.0.1' ? refusal : undefined) },
    })
    const { error, sent: sentCount } = await fetchRaw(client, server)
    assert.deepEqual([error, sentCount, server.opened()], [refusal, 0, 0])
  })
})

describe('an exchange that is aborted', () => {
  it('closes its connection at once, and its receiver is not called again', async () => {
    const server = await serve(async connection => {
      await connection.request()
      connection.socket.write(`${OK}content-length: 100000000\r\n\r\n`)
      for (let i = 0; i < 1_000 && !connection.socket.destroyed; i++) {
        connection.socket.write(Buffer.alloc(1_000))
        await new Promise(setImmediate)
      }
    })
    const client = connectTo()
    let pieces = 0
    const exchange = start(client, server, () => {
      pieces += 1
      exchange.abort()
      exchange.abort()
    })
    await come('the connection to be closed', () => server.opened() === 1 && server.open() === 0)
    assert.deepEqual([pieces, client.connectionCount()], [1, 0])
  })

  it('before its connection is open is never sent', async () => {
    const server = await serve(always(HELLO))
    const client = connectTo()
    const exchange = start(client, server)
    exchange.abort()
    exchange.pause()
    exchange.resume()
    assert.equal(client.connectionCount(), 0)
    assert.equal((await fetchRaw(client, server)).body, 'hello')
  })

  it('after its end does not touch the connection, which may run another exchange', async () => {
    const server = await serve(async connection => {
      while (await connection.request()) {
        await delay(30)
        connection.socket.write(HELLO)
      }
    })
    const client = connectTo()
    const first = start(client, server)
    await first.result
    const second = start(client, server)
    first.pause()
    first.abort()
    assert.equal((await second.result).body, 'hello')
    assert.equal(server.opened(), 1)
  })

  it('also when the client is closed: all running exchanges fail', async () => {
    const server = await serve(async connection => void (await connection.request()))
    const client = connectTo({ maxConnections: 1 })
    const all = [start(client, server), start(client, server)]
    await come('a connection', () => server.opened() === 1)
    client.close()
    for (const { result } of all) assert.equal((await result).error?.code, 'CLOSED')
    assert.equal((await fetchRaw(client, server)).error?.code, 'CLOSED')
    await come('the connection to be closed', () => server.open() === 0)
  })
})

describe('a response that is paused', () => {
  it('is not read, so that the server stops sending, and continues where it stopped', async () => {
    const CHUNK = Buffer.alloc(65_536, 'x')
    const TOTAL = 1_000
    let writtenChunks = 0
    const server = await serve(async connection => {
      await connection.request()
      connection.socket.write(`${OK}content-length: ${CHUNK.length * TOTAL}\r\n\r\n`)
      for (; writtenChunks < TOTAL; writtenChunks++)
        if (!connection.socket.write(CHUNK))
          await new Promise(resolve => connection.socket.once('drain', resolve))
    })
    let size = 0
    const exchange = start(connectTo(), server, bytes => {
      if (size === 0) exchange.pause()
      size += bytes.length
    })
    await come('the server to be stopped', () => writtenChunks > 0)
    let before = -1
    await until('the server to stop', async () => {
      const isStill = writtenChunks === before
      before = writtenChunks
      await delay(100)
      return isStill && writtenChunks === before ? true : undefined
    })
    assert.ok(writtenChunks < TOTAL, `${writtenChunks} of ${TOTAL} chunks were written`)
    assert.ok(size <= 262_144)
    exchange.resume()
    assert.equal((await exchange.result).body.length, CHUNK.length * TOTAL)
  })
})

describe('a connection with TLS', () => {
  const tls = { cert: TEST_CERTIFICATE, key: TEST_KEY }

  it('resumes the session of an earlier one, and names its server', async () => {
    setDefaultCACertificates([...trusted, TEST_CERTIFICATE])
    const sessions: boolean[] = []
    const names: unknown[] = []
    const server = await serve(
      async connection => {
        const socket = connection.socket as RawConnection['socket'] & {
          isSessionReused(): boolean
          servername: unknown
          alpnProtocol: unknown
        }
        sessions.push(socket.isSessionReused())
        names.push(socket.servername, socket.alpnProtocol)
        await connection.request()
        socket.end(`${OK}content-length: 5\r\nconnection: close\r\n\r\nhello`)
      },
      { ...tls, ALPNProtocols: ['h2', 'http/1.1'] },
    )
    const client = connectTo()
    for (const _ of [1, 2]) {
      const { body, error } = await fetchRaw(client, { origin: `https://localhost:${server.port}` })
      assert.deepEqual([body, error], ['hello', undefined])
    }
    assert.deepEqual(sessions, [false, true])
    assert.deepEqual(names, ['localhost', 'http/1.1', 'localhost', 'http/1.1'])
  })

  it('is used again', async () => {
    setDefaultCACertificates([...trusted, TEST_CERTIFICATE])
    const server = await serve(always(HELLO), tls)
    const client = connectTo()
    const body = Buffer.alloc(200_000)
    for (const _ of [1, 2, 3])
      assert.equal(
        (await fetchRaw(client, { origin: `https://localhost:${server.port}`, method: 'POST', body })).body,
        'hello',
      )
    assert.equal(server.opened(), 1)
  })

  it('passes a long response on, paused in between', async () => {
    setDefaultCACertificates([...trusted, TEST_CERTIFICATE])
    const text = Array.from({ length: 200_000 }, (_, index) => `${index},`).join('')
    const server = await serve(always(`${OK}content-length: ${text.length}\r\n\r\n${text}`), tls)
    let pauses = 0
    const exchange = start(connectTo(), { origin: `https://localhost:${server.port}` }, () => {
      if (++pauses % 10 !== 0) return
      exchange.pause()
      setTimeout(() => exchange.resume(), 5)
    })
    const { body, error } = await exchange.result
    assert.equal(error, undefined)
    assert.ok(body === text, 'the response differs')
  })

  it('to a server whose certificate is not trusted, or names another host, is refused', async () => {
    setDefaultCACertificates(trusted)
    const server = await serve(always(HELLO), tls)
    const untrusted = await fetchRaw(connectTo(), { origin: `https://localhost:${server.port}` })
    assert.deepEqual([untrusted.error?.code, untrusted.sent], ['DEPTH_ZERO_SELF_SIGNED_CERT', 0])
    setDefaultCACertificates([...trusted, TEST_CERTIFICATE])
    const other = await fetchRaw(connectTo(), { origin: `https://127.0.0.1:${server.port}` })
    assert.deepEqual([other.error?.code, other.sent], ['ERR_TLS_CERT_ALTNAME_INVALID', 0])
  })
})
