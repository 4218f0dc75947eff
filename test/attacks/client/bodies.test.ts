import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { before, describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { describeOverServers, ROOT_TOKEN } from '../../support/gateway.ts'
import { until } from '../../support/process.ts'
import { suiteRelay } from '../../support/relay.ts'

const MB = 1_048_576
const PATH = '/v1/chat/completions'

/** A connection to which a request is written byte for byte. */
async function openSocket(url: string) {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  let text = ''
  let isClosed = false
  socket.setEncoding('latin1').on('data', (piece: string) => {
    text += piece
  })
  // A reset also counts as closed.
  socket.on('error', () => {})
  socket.on('close', () => {
    isClosed = true
  })
  await once(socket, 'connect')
  return {
    socket,
    head: (headers: Readonly<Record<string, string | number>>, path = PATH) =>
      socket.write(
        `POST ${path} HTTP/1.1\r\nhost: gateway\r\n${Object.entries(headers)
          .map(([name, value]) => `${name}: ${value}\r\n`)
          .join('')}\r\n`,
      ),
    answer: () => until('an answer', () => (text.includes('\r\n\r\n') ? text : undefined)),
    closed: () => until('the connection to be closed', () => (isClosed ? true : undefined)),
    close: () => socket.destroy(),
  }
}

/** Writes as fast as the gateway reads, until all is written or the connection is closed. */
async function writeAll(socket: Socket, bytes: number): Promise<void> {
  const piece = Buffer.alloc(65_536, 0x20)
  for (let writtenBytes = 0; writtenBytes < bytes && !socket.destroyed; writtenBytes += piece.length)
    if (!socket.write(piece))
      await Promise.race([once(socket, 'drain'), once(socket, 'close')]).catch(() => {})
}

const json = (key: string) => ({ authorization: `Bearer ${key}`, 'content-type': 'application/json' })

describeOverServers('a body that is refused before it is read', http => {
  const relay = suiteRelay('sqlite', {}, http)
  let model: string
  let freeModel: string

  before(async () => {
    model = (await relay.serve('sim-words-4')).model
    freeModel = (await relay.serve('sim-words-4', {}, { input: 0, output: 0 })).model
  })

  const question = (name: string, bytes: number) =>
    JSON.stringify({ model: name, messages: [{ role: 'user', content: 'a'.repeat(bytes) }] })

  for (const path of [
    PATH,
    '/v1/messages',
    '/v1/audio/transcriptions',
    '/v1/videos',
    '/v1/nothing',
    '/api/token/',
  ])
    it(`is not read to its end: POST ${path} without a valid credential`, async () => {
      const { socket, head, answer, closed } = await openSocket(relay.gateway.url)
      head({ authorization: 'Bearer sk-wrong', 'content-length': 60 * MB }, path)
      await Promise.all([writeAll(socket, 60 * MB), closed()])
      assert.match(await answer(), /^HTTP\/1\.1 40[14] /)
      assert.match(await answer(), /\r\nconnection: close\r\n/i)
      const sentBytes = socket.bytesWritten - socket.writableLength
      assert.ok(sentBytes < 40 * MB, `${sentBytes} bytes were taken`)
    })

  it('keeps the connection where the body is small', async () => {
    const { head, socket, answer, close } = await openSocket(relay.gateway.url)
    head({ authorization: 'Bearer sk-wrong', 'content-length': 1_000 })
    socket.write('x'.repeat(1_000))
    assert.match(await answer(), /^HTTP\/1\.1 401 [\s\S]*\r\nconnection: keep-alive\r\n/i)
    close()
  })

  describe('of a client without balance', () => {
    let key: string
    let exhausted: string

    before(async () => {
      const user = await relay.gateway.createUser()
      key = (await relay.newToken({ unlimited_quota: true }, user.accessToken)).key
      exhausted = (await relay.newToken({ remain_quota: 0 })).key
    })

    for (const whose of ['user', 'token'] as const)
      it(`is refused immediately if its content-length is large, and the connection is closed: ${whose}`, async () => {
        const { head, answer, closed } = await openSocket(relay.gateway.url)
        head({ ...json(whose === 'user' ? key : exhausted), 'content-length': 65_537 })
        const text = await answer()
        assert.match(text, /^HTTP\/1\.1 429 /)
        assert.match(text, /"code":"insufficient_quota"/)
        assert.match(text, /\r\nx-should-retry: false\r\n/i)
        assert.match(text, /\r\nconnection: close\r\n/i)
        await closed()
      })

    it('is refused as soon as it has become large', async () => {
      const { head, socket, answer, closed } = await openSocket(relay.gateway.url)
      head({ ...json(key), 'transfer-encoding': 'chunked' })
      const piece = ' '.repeat(32_768)
      for (let i = 0; i < 3; i++) socket.write(`${piece.length.toString(16)}\r\n${piece}\r\n`)
      assert.match(await answer(), /^HTTP\/1\.1 429 [\s\S]*"code":"insufficient_quota"/)
      await closed()
    })

    it('is refused if it becomes large when it is decompressed', async () => {
      const raw = gzipSync(question(freeModel, 200_000))
      const reply = await relay.api('POST', PATH, undefined, {
        token: key,
        raw,
        headers: { 'content-encoding': 'gzip' },
      })
      assert.equal(reply.status, 429, reply.text)
      assert.equal(reply.body.error.code, 'insufficient_quota')
    })

    it('is refused if it is a form, before a file is read', async () => {
      const { head, answer, closed } = await openSocket(relay.gateway.url)
      const type = 'multipart/form-data; boundary=x'
      const headers = { authorization: `Bearer ${key}`, 'content-type': type, 'content-length': 50 * MB }
      head(headers, '/v1/audio/transcriptions')
      assert.match(await answer(), /^HTTP\/1\.1 429 [\s\S]*"code":"insufficient_quota"/)
      await closed()
    })

    it('is accepted up to 64 KiB, for models that cost nothing', async () => {
      assert.equal((await relay.chat(key, JSON.parse(question(freeModel, 60_000)))).status, 200)
      const large = await relay.chat(key, JSON.parse(question(freeModel, 70_000)))
      assert.equal(large.status, 429)
      assert.equal(large.body.error.code, 'insufficient_quota')
    })
  })

  it('is accepted from a client with balance, with any transfer encoding', async () => {
    const user = await relay.gateway.createUser({ quota: 5_000_000 })
    const { key } = await relay.newToken({ unlimited_quota: true }, user.accessToken)
    assert.equal((await relay.chat(key, JSON.parse(question(model, 100_000)))).status, 200)
    const raw = gzipSync(question(model, 100_000))
    const headers = { 'content-encoding': 'gzip' }
    const packed = await relay.api('POST', PATH, undefined, { token: key, raw, headers })
    assert.equal(packed.status, 200, packed.text)
  })
})

describeOverServers('bodies that use up the memory budget', http => {
  const relay = suiteRelay('sqlite', { SLUICE_MAX_MEMORY_MB: '8' }, http)
  let model: string
  let key: string

  before(async () => {
    model = (await relay.serve('sim-words-4')).model
    key = (await relay.newToken({ unlimited_quota: true })).key
  })

  const question = (content: string) => ({ model, messages: [{ role: 'user', content }] })

  /** Unfinished bodies that exceed the budget, and the response to one of them. */
  async function fill() {
    const sockets = await Promise.all([1, 2, 3].map(() => openSocket(relay.gateway.url)))
    for (const { head, socket } of sockets) {
      head({ ...json(key), 'content-length': 20 * MB })
      void writeAll(socket, 6 * MB)
    }
    const refused = await Promise.any(sockets.map(({ answer }) => answer()))
    return { sockets, refused }
  }

  it('get one of them a 503 overloaded, and release their memory when their clients disconnect', async () => {
    const { sockets, refused } = await fill()
    assert.match(refused, /^HTTP\/1\.1 503 [\s\S]*"code":"overloaded"/)
    assert.match(refused, /\r\nretry-after: 1\r\n/i)
    assert.match(refused, /\r\nconnection: close\r\n/i)
    const small = await relay.gateway.api('POST', PATH, question('Hi'), { token: key })
    assert.equal(small.status, 200, small.text)
    for (const { close } of sockets) close()
    const served = await until('room', async () => {
      const reply = await relay.gateway.api('POST', PATH, question('a'.repeat(4 * MB)), { token: key })
      return reply.status === 503 ? undefined : reply
    })
    assert.equal(served.status, 200, served.text)
  })

  it('count on the management API too', async () => {
    const body = JSON.stringify({ name: 'x', remark: 'a'.repeat(3.5 * MB) })
    const sockets = await Promise.all([1, 2, 3].map(() => openSocket(relay.gateway.url)))
    for (const { head, socket } of sockets) {
      head({ authorization: `Bearer ${ROOT_TOKEN}`, 'content-length': body.length + 1 }, '/api/token/')
      socket.write(body)
    }
    const refused = await Promise.any(sockets.map(({ answer }) => answer()))
    assert.match(refused, /^HTTP\/1\.1 503 [\s\S]*"code":"overloaded"/)
    for (const { close } of sockets) close()
  })
})
