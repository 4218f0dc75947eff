import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { bodyOf, type RelayListener, type RelayOutgoing, receiveBody } from '../../src/http/relay-exchange.ts'
import { HTTP_SERVERS, type HttpServerName } from '../support/gateway.ts'
import { echo, openClient, post, startHttp, wholeBody } from '../support/http1.ts'
import { until } from '../support/process.ts'
import { createRandom } from '../support/request-bytes.ts'

type Options = NonNullable<Parameters<typeof startHttp>[1]>

async function start(test: TestContext, listener: RelayListener, options: Options) {
  const server = await startHttp(listener, options)
  test.after(server.close)
  return { ...server, client: () => openClient(server.port) }
}

const countOf = (text: string, part: string) => text.split(part).length - 1
/** The body in a complete sequence of chunks. */
function unchunked(chunks: string): string {
  let body = ''
  for (let at = 0; ; ) {
    const lineEnd = chunks.indexOf('\r\n', at)
    const size = Number.parseInt(chunks.slice(at, lineEnd), 16)
    const end = lineEnd + 2 + size
    assert.equal(chunks.slice(end, end + 2), '\r\n')
    body += chunks.slice(lineEnd + 2, end)
    at = end + 2
    if (size > 0) continue
    assert.equal(at, chunks.length)
    return body
  }
}

const OK = 'HTTP/1.1 200 OK\r\n'

const tests: Readonly<Record<string, (test: TestContext, http: HttpServerName) => Promise<void>>> = {
  async 'answers one request after another on a connection'(test, http) {
    const { client, sockets, byNode } = await start(test, echo, { http })
    const { socket, text } = await client()
    for (let i = 1; i <= 5; i++) {
      socket.write(post(`body ${i}`))
      await until('an answer', () => (text().includes(`"body":"body ${i}"`) ? true : undefined))
    }
    assert.equal(sockets.size, 1)
    assert.equal(byNode(), http === 'node' ? 5 : 0)
    assert.match(text(), /\r\nConnection: keep-alive\r\nKeep-Alive: timeout=65\r\n/)
  },

  async 'reads a request that arrives byte by byte, and two that arrive together'(test, http) {
    const { client } = await start(test, echo, { http })
    const { socket, text } = await client()
    for (const byte of post('naïve \xff'))
      await new Promise(resolve => socket.write(byte, 'latin1', resolve)).then(() => setImmediate())
    await until('an answer', () => (text().includes('}') ? true : undefined))
    socket.write(post('first') + post('second') + post('third', { headers: 'Connection: close\r\n' }))
    await until('the answers', () => (countOf(text(), OK) === 4 ? true : undefined))
    assert.deepEqual(
      [...text().matchAll(/"body":"(.*?)"/g)].map(([, body]) => body),
      [Buffer.from('naïve \xff').toString('latin1'), 'first', 'second', 'third'],
    )
  },

  async 'reads requests that follow before the answer, in their order'(test, http) {
    const pendingAnswers: (() => void)[] = []
    const { client } = await start(
      test,
      (request, response) => void pendingAnswers.push(() => echo(request, response)),
      { http },
    )
    const { socket, text } = await client()
    socket.write(post('first'))
    await until('the first', () => pendingAnswers[0])
    socket.write(post('second'))
    socket.write(post('x'.repeat(40_000)))
    for (let i = 0; i < 3; i++) (await until('a request', () => pendingAnswers[i]))()
    await until('the answers', () => (countOf(text(), OK) === 3 ? true : undefined))
    assert.ok(text().indexOf('first') < text().indexOf('second'))
  },

  async 'keeps the bytes of connections apart, whatever arrives between them and their reading'(test, http) {
    const pendingAnswers: (() => void)[] = []
    const { client } = await start(
      test,
      (request, response) => void pendingAnswers.push(() => echo(request, response)),
      { http },
    )
    const clients = await Promise.all(
      ['a', 'b', 'c', 'd', 'e', 'f'].map(async (name, index) => {
        const body = name.repeat(5 * 10 ** Math.min(index, 4))
        const next = `second ${name}`
        const first = post(body, { path: `/v1/${name}` })
        const whole = first + post(next)
        const start = first.length - body.length
        // In the head or before its first byte, in the body three times, and in the next request.
        const ends = [
          index % 2 === 0 ? 10 : 0,
          start + 1,
          start + 2,
          start + 3,
          first.length + 30,
          whole.length,
        ]
        const parts = ends.map((end, part) => whole.slice(ends[part - 1] ?? 0, end))
        return { ...(await client()), parts, expected: [`/v1/${name} ${body}`, `/v1/x ${next}`] }
      }),
    )
    for (let part = 0; part < 6; part++) {
      for (const { socket, parts } of clients)
        await new Promise(resolve => socket.write(parts[part] ?? '', resolve))
      // Everything was read before the next parts are sent.
      for (let turn = 0; turn < 20; turn++) await setImmediate()
    }
    for (let i = 0; i < 2 * clients.length; i++) (await until('a request', () => pendingAnswers[i]))()
    for (const { text, expected } of clients) {
      await until('the answers', () => (countOf(text(), OK) === 2 ? true : undefined))
      const answers = [...text().matchAll(/"url":"(.*?)".*?"body":"(.*?)"/g)]
      assert.deepEqual(
        answers.map(([, url, body]) => `${url} ${body}`),
        expected,
      )
    }
  },

  async 'passes bodies to receivers, into memory of their own, and nothing that follows'(test, http) {
    const { client } = await start(
      test,
      (request, response) => {
        const size = Number(request.headers['content-length'])
        const memory = Buffer.alloc(size + 1_000)
        let received = 0
        receiveBody(request, {
          data(bytes) {
            received += bytes.buffer === memory.buffer ? bytes.length : bytes.copy(memory, received)
            return true
          },
          room: () => memory.subarray(received, size),
          end() {
            const text = memory.toString('latin1', 0, received)
            assert.ok(memory.subarray(size).every(byte => byte === 0))
            response.writeHead(200, { 'content-type': 'application/json' })
            response.end(JSON.stringify({ body: text }))
          },
          close() {},
        })
      },
      { http },
    )
    const bodyOfClient = (name: string) => Array.from({ length: 30_000 }, (_, i) => `${name}${i}`).join(' ')
    const clients = await Promise.all(['a', 'b', 'c'].map(async name => ({ ...(await client()), name })))
    const wholes = clients.map(({ name }) => post(bodyOfClient(name)) + post(`next of ${name}`))
    // The second request arrives with the end of the first one.
    for (let at = 0; at < (wholes[0]?.length ?? 0) + 50_000; at += 7_001) {
      for (const [index, { socket }] of clients.entries())
        await new Promise(resolve => socket.write(wholes[index]?.slice(at, at + 7_001) ?? '', resolve))
      await setImmediate()
    }
    for (const { text, name } of clients) {
      await until('the answers', () => (countOf(text(), OK) === 2 ? true : undefined))
      const bodies = [...text().matchAll(/"body":"(.*?)"/g)].map(([, body]) => body)
      assert.deepEqual(bodies, [bodyOfClient(name), `next of ${name}`])
    }
  },

  async 'gives a body that a receiver refuses as a stream'(test, http) {
    const { client } = await start(
      test,
      (request, response) => {
        let receivedText = ''
        const data = (bytes: Buffer) => {
          if (receivedText.length > 40_000) {
            // The piece comes again.
            void readRest()
            return false
          }
          receivedText += bytes.toString('latin1')
          return true
        }
        const readRest = async () => {
          await setImmediate()
          for await (const part of bodyOf(request)) receivedText += (part as Buffer).toString('latin1')
          response.writeHead(200, {})
          response.end(JSON.stringify({ body: receivedText }))
        }
        receiveBody(request, { data, end() {}, close() {} })
      },
      { http },
    )
    const { socket, text } = await client()
    const body = Array.from({ length: 30_000 }, (_, i) => `${i}`).join(' ')
    const whole = post(body)
    for (let at = 0; at < whole.length; at += 9_973) {
      await new Promise(resolve => socket.write(whole.slice(at, at + 9_973), resolve))
      await setImmediate()
    }
    await until('the answer', () => (text().includes('"}') ? true : undefined))
    const content = text().slice(text().indexOf('\r\n\r\n') + 4)
    assert.equal(unchunked(content), JSON.stringify({ body }))
  },

  async 'tells a receiver that the client disconnected'(test, http) {
    let closes = 0
    const { client } = await start(
      test,
      request => receiveBody(request, { data: () => true, end() {}, close: () => void closes++ }),
      { http },
    )
    const { socket } = await client()
    const whole = post('x'.repeat(100_000))
    await new Promise(resolve => socket.write(whole.slice(0, 50_000), resolve))
    await setImmediate()
    socket.destroy()
    await until('the end', () => (closes > 0 ? true : undefined))
    assert.equal(closes, 1)
  },

  async 'gives a large body as a stream that waits for its reader'(test, http) {
    const bodies: Buffer[] = []
    let isReading = false
    const { client, sockets } = await start(
      test,
      async (request, response) => {
        await until('permission', () => (isReading ? true : undefined))
        for await (const part of bodyOf(request)) bodies.push(part as Buffer)
        response.writeHead(200, { 'content-length': '0' })
        response.end()
      },
      { http },
    )
    const { socket, text } = await client()
    const MB = 1_048_576
    socket.write(post('x'.repeat(32 * MB)))
    // The buffers of the kernel hold a few megabytes.
    let before = -1
    await until('the gateway to stop reading', async () => {
      const { bytesRead = 0 } = [...sockets][0] ?? {}
      const hasStopped = bytesRead > 0 && bytesRead === before
      before = bytesRead
      for (let turn = 0; turn < 20; turn++) await setImmediate()
      return hasStopped ? true : undefined
    })
    assert.ok(before < 2 * MB, `${before} bytes were read`)
    isReading = true
    await until('the answer', () => (text().startsWith(OK) ? true : undefined))
    assert.equal(Buffer.concat(bodies).length, 32 * MB)
  },

  async 'sends chunks with their framing, of any size, and an end'(test, http) {
    const sizes = [1, 15, 16_384, 16_385, 100_000, 3]
    const { client } = await start(
      test,
      async (request, response) => {
        await wholeBody(request)
        response.writeHead(200, { 'content-type': 'text/plain' })
        for (const size of sizes) response.write(Buffer.alloc(size, 'é', 'latin1'))
        response.write('✓')
        response.end('☕')
      },
      { http },
    )
    const { socket, text, closed } = await client()
    socket.write(post('{}', { headers: 'Connection: close\r\n' }))
    await closed
    const sentChunks = [
      ...sizes.map(size => 'é'.repeat(size)),
      ...['✓', '☕'].map(utf8 => Buffer.from(utf8).toString('latin1')),
    ]
    assert.match(text(), /\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n/)
    assert.equal(unchunked(text().slice(text().indexOf('\r\n\r\n') + 4)), sentChunks.join(''))
  },

  async 'sends the head alone if asked to, and no body with 204'(test, http) {
    let answer = (_response: RelayOutgoing) => {}
    const { client } = await start(test, (_request, response) => answer(response), { http })
    const { socket, text } = await client()
    const responses: RelayOutgoing[] = []
    answer = response => {
      responses.push(response)
      response.writeHead(200, {})
      response.flushHeaders()
    }
    socket.write(post(''))
    await until('the head', () => (text().endsWith('\r\n\r\n') ? true : undefined))
    const [first] = responses
    assert.deepEqual([first?.headersSent, first?.writableFinished, first?.destroyed], [true, false, false])
    first?.end()
    await until('the end', () => (text().endsWith('\r\n0\r\n\r\n') ? true : undefined))
    await until('the close', () => (first?.destroyed && first.writableFinished ? true : undefined))
    answer = response => {
      response.writeHead(204, {})
      response.end()
    }
    socket.write(post(''))
    await until('the 204', () => (/204 No Content\r\n.*\r\n\r\n$/s.test(text()) ? true : undefined))
    assert.doesNotMatch(text().slice(text().indexOf('204')), /transfer-encoding/i)
  },

  async 'tells a writer that the client does not read, and when it reads again'(test, http) {
    const responses: RelayOutgoing[] = []
    const { client } = await start(
      test,
      (_request, response) => {
        response.writeHead(200, {})
        responses.push(response)
      },
      { http },
    )
    const { socket, text } = await client()
    socket.pause()
    socket.write(post('{}'))
    const response = await until('the response', () => responses[0])
    let drains = 0
    response.on('drain', () => {
      drains += 1
    })
    const piece = Buffer.alloc(10_000, 'x')
    let pieces = 1
    while (response.write(piece)) pieces += 1
    assert.ok(response.writableLength > 16_384)
    assert.equal(drains, 0)
    socket.resume()
    await until('the drain', () => (drains === 1 ? true : undefined))
    assert.equal(response.writableLength, 0)
    response.end()
    await until('all bytes', () => (countOf(text(), 'x') === pieces * piece.length ? true : undefined))
  },

  async 'ends a response when the client has taken all of it, and then serves the next request'(test, http) {
    const responses: RelayOutgoing[] = []
    let closed = 0
    const { client } = await start(
      test,
      (request, response) => {
        const size = Number(request.headers['x-size'])
        responses.push(response)
        response.writeHead(200, request.headers['x-chunked'] ? {} : { 'content-length': String(size) })
        // Fills the buffers of the kernel, so that the last write waits.
        const first = Math.min(size, Math.max(0, size - Number(request.headers['x-last'])))
        for (let at = 0; at < first; at += 50_000)
          response.write(Buffer.alloc(Math.min(50_000, first - at), 'x'))
        response.end(Buffer.alloc(size - first, 'x'))
        response.on('close', () => {
          closed += 1
        })
      },
      { http },
    )
    for (const last of [0, 10, 20_000, 100_000, 8_000_000])
      for (const chunked of ['', 'X-Chunked: 1\r\n']) {
        // Each with a new connection: the kernel enlarges the buffers of one that was read fast, up to tens of megabytes.
        const { socket } = await client()
        let total = 0
        for (const size of [8_000_000, 10, 200_000]) {
          socket.pause()
          const count = responses.length
          socket.write(post('{}', { headers: `X-Size: ${size}\r\nX-Last: ${last}\r\n${chunked}` }))
          const response = await until('the request', () => responses[count])
          if (size > 5_000_000) {
            assert.deepEqual([response.writableFinished, response.destroyed], [false, false])
            assert.ok(response.writableLength > 1_000_000)
          }
          socket.resume()
          total += size
          await until('the close', () => (closed === count + 1 ? true : undefined))
          assert.deepEqual([response.writableFinished, response.destroyed], [true, true])
          await until('the body', () => (socket.bytesRead > total ? true : undefined))
        }
      }
    assert.equal(responses.length, 30)
  },

  async 'calls the listeners of a response once, in their order, unless they were removed'(test, http) {
    const calls: string[] = []
    const { client } = await start(
      test,
      (_request, response) => {
        const listener = (name: string) => () => void calls.push(name)
        const twice = listener('twice')
        const never = listener('never')
        response.on('close', listener('first')).on('close', twice).on('close', never).on('close', twice)
        response.once('close', never)
        response.off('close', never).off('close', never).off('drain', twice)
        response.end('x')
        response.once('close', listener('after end'))
        assert.deepEqual(calls, [])
      },
      { http },
    )
    const { socket } = await client()
    socket.write(post('{}'))
    await until('the calls', () => (calls.includes('after end') ? true : undefined))
    await setImmediate()
    assert.deepEqual(calls, ['first', 'twice', 'twice', 'after end'])
  },

  async 'reports to the response that the client has left, also if only its side is closed'(test, http) {
    const responses: RelayOutgoing[] = []
    let closed = 0
    const { client, sockets } = await start(
      test,
      (request, response) => {
        responses.push(response)
        response.on('close', () => {
          closed += 1
        })
        if (!request.complete) bodyOf(request).on('error', () => {})
      },
      { http },
    )
    for (const leave of ['destroy', 'resetAndDestroy', 'end'] as const)
      for (const bytes of [post('{}'), post('{}').slice(0, -1)]) {
        const { socket } = await client()
        const count = responses.length
        socket.write(bytes)
        const response = await until('the request', () => responses[count])
        socket[leave]()
        await until('the close', () => (closed > count ? true : undefined))
        assert.deepEqual(
          [response.destroyed, response.writableFinished, response.headersSent],
          [true, false, false],
        )
        assert.equal(response.write('too late'), false)
      }
    await until('no socket', () => (sockets.size === 0 ? true : undefined))
  },

  async 'closes the connection when a response is destroyed'(test, http) {
    const { client } = await start(
      test,
      (_request, response) => {
        response.writeHead(200, {})
        response.write('part')
        response.destroy()
      },
      { http },
    )
    const { socket, text, closed } = await client()
    socket.write(post('{}'))
    await closed
    assert.ok(!text().includes('\r\n0\r\n'))
  },

  async 'refuses header values that would split the response'(test, http) {
    const errors: unknown[] = []
    const { client } = await start(
      test,
      (_request, response) => {
        for (const headers of [
          { 'x-a': 'a\r\nset-cookie: b' },
          { 'x-a': 'a\0' },
          { 'x-a': '☕' },
          { 'x\r\n': 'a' },
        ])
          try {
            response.writeHead(200, headers as Record<string, string>)
          } catch (error) {
            errors.push(error)
          }
        response.writeHead(200, { 'content-length': '0' })
        response.end()
      },
      { http },
    )
    const { socket, text } = await client()
    socket.write(post('{}'))
    await until('the answer', () => (text().startsWith(OK) ? true : undefined))
    assert.equal(errors.length, 4)
  },

  async 'reads a small body that its handler did not read, before the next request'(test, http) {
    const { client } = await start(
      test,
      (_request, response) => {
        response.writeHead(401, { 'content-length': '0' })
        response.end()
      },
      { http },
    )
    const { socket, text } = await client()
    const [head = '', body = ''] = post('x'.repeat(1_000)).split('\r\n\r\n')
    for (let i = 1; i <= 3; i++) {
      socket.write(`${head}\r\n\r\n`)
      await until('the answer', () => (countOf(text(), ' 401 ') === i ? true : undefined))
      socket.write(body)
    }
    assert.equal(countOf(text(), 'Connection: keep-alive'), 3)
  },

  async 'closes a connection whose request does not arrive in time, with 408'(test, http) {
    const { client } = await start(test, echo, { http, limits: { headS: 1, requestS: 2 } })
    const fresh = await client()
    const partial = await client()
    partial.socket.write('POST /v1/x HTTP/1.1\r\nHost:')
    const slow = await client()
    slow.socket.write(post('{}').slice(0, -1))
    for (const { closed, text } of [fresh, partial, slow]) {
      await closed
      assert.equal(text(), 'HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n')
    }
  },

  async 'closes an idle connection after its time, and no busy one'(test, http) {
    const responses: RelayOutgoing[] = []
    const { client } = await start(
      test,
      (request, response) => (responses.length === 1 ? responses.push(response) : echo(request, response)),
      { http, limits: { keepAliveS: 1 } },
    )
    const idle = await client()
    idle.socket.write(post('{}'))
    await until('an answer', () => (idle.text().startsWith(OK) ? true : undefined))
    responses.push(undefined as never)
    const busy = await client()
    busy.socket.write(post('{}'))
    await idle.closed
    assert.ok(!busy.isClosed())
    responses[1]?.end('late')
    await until('an answer', () => (busy.text().includes('late') ? true : undefined))
  },
}

for (const http of HTTP_SERVERS)
  describe(`an HTTP server over ${http}`, () => {
    for (const [name, run] of Object.entries(tests)) it(name, test => run(test, http))
  })

describe('connections that node:http does not know', () => {
  it('are closed with the others: idle ones at once, busy ones at the end', async test => {
    const responses: RelayOutgoing[] = []
    const { client, http1 } = await start(
      test,
      (request, response) => {
        if (request.url === '/v1/busy') responses.push(response)
        else echo(request, response)
      },
      {},
    )
    const idle = await client()
    idle.socket.write(post('{}'))
    await until('an answer', () => (idle.text().startsWith(OK) ? true : undefined))
    const busy = await client()
    busy.socket.write(post('{}', { path: '/v1/busy' }))
    await until('the request', () => responses[0])
    http1?.closeIdle()
    await idle.closed
    assert.ok(!busy.isClosed())
    http1?.closeAll()
    await busy.closed
  })

  it('serve no request that arrives after the last one, before they are closed', async test => {
    const urls: string[] = []
    let last: RelayOutgoing | undefined
    const { client, byNode } = await start(
      test,
      (request, response) => {
        urls.push(request.url ?? '')
        if (request.url === '/v1/last') last = response
        else
          for (const each of [last, response]) {
            each?.writeHead(200, { 'content-length': '0' })
            each?.end()
          }
      },
      {},
    )
    const [ending, other] = [await client(), await client()]
    ending.socket.write(post('', { path: '/v1/last', headers: 'Connection: close\r\n' }))
    await until('the last request', () => last)
    // The server gets both in one turn: the first ends the response to the last request.
    other.socket.write(post('', { path: '/v1/other' }))
    ending.socket.write(post('', { path: '/v1/late' }))
    await ending.closed
    assert.deepEqual(urls, ['/v1/last', '/v1/other'])
    assert.equal(byNode(), 0)
  })

  it('close after a body of another length than declared', async test => {
    const { client } = await start(
      test,
      (_request, response) => {
        response.writeHead(200, { 'content-length': '5' })
        response.end('four')
      },
      {},
    )
    const { socket, closed, text } = await client()
    socket.write(post('{}'))
    await closed
    assert.ok(text().endsWith('\r\n\r\nfour'))
  })

  it('report to the watcher of a response that the client has left, unless it was removed', async test => {
    const responses: RelayOutgoing[] = []
    const reports: number[] = []
    const { client, sockets } = await start(
      test,
      (_request, response) => {
        const index = responses.push(response) - 1
        response.watchClient?.({ onDisconnect: () => void reports.push(index) })
        if (index === 1) response.watchClient?.(undefined)
        if (index === 2) response.end()
      },
      {},
    )
    for (let index = 0; index < 4; index++) {
      const { socket, text } = await client()
      socket.write(post('{}'))
      await until('the request', () => responses[index])
      if (index === 2) await until('the response', () => (text() === '' ? undefined : true))
      socket.destroy()
      await until('no socket', () => (sockets.size === 0 ? true : undefined))
    }
    assert.deepEqual(reports, [0, 3])
  })

  it('leave no socket, stream or listener behind when clients leave at any moment', async test => {
    const random = createRandom(20_261_116)
    let started = 0
    let closed = 0
    const { client, sockets, server } = await start(
      test,
      async (request, response) => {
        started += 1
        response.on('close', () => {
          closed += 1
        })
        await wholeBody(request).catch(() => {})
        if (response.destroyed) return
        response.writeHead(200, {})
        for (let i = 0; i < 5 && response.write(Buffer.alloc(8_000)); i++) await setImmediate()
        response.end()
      },
      {},
    )
    const AT_ONCE = 20
    const ROUNDS = process.env.SLUICE_CAMPAIGN === undefined ? 15 : 1_000
    const bytes = post('x'.repeat(3_000))
    async function visit() {
      const { socket, closed: isGone } = await client()
      const requests = 1 + Math.floor(random() * 3)
      const cut = Math.floor(random() * bytes.length * requests)
      socket.write(bytes.repeat(requests).slice(0, cut))
      for (let turns = random() * 8; turns > 0; turns--) await setImmediate()
      if (random() < 0.5) socket.resetAndDestroy()
      else socket.destroy()
      await isGone
    }
    for (let round = 0; round < ROUNDS; round++) await Promise.all(Array.from({ length: AT_ONCE }, visit))
    await until('no socket', () => (sockets.size === 0 ? true : undefined))
    await until('every response to be closed', () => (closed === started ? true : undefined))
    assert.ok(started > AT_ONCE)
    server.close()
    await once(server, 'close')
  })
})
