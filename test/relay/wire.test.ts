import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { buffer, text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { describeOverServers } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { suiteRelay } from '../support/relay.ts'

type Answer = (response: ServerResponse) => void

const WHOLE = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2 },
}
const frame = (data: unknown) => `data: ${JSON.stringify(data)}\n\n`
const CONTENT = frame({ choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: null }] })
const FINISH = frame({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })

const whole: Answer = response => response.end(JSON.stringify(WHOLE))
const stream =
  (...pieces: readonly string[]): Answer =>
  response => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const piece of pieces) response.write(piece)
    response.end()
  }

/** A provider with a scripted response for each model. */
async function openProvider() {
  const answers = new Map<string, Answer>()
  const requestedModels: string[] = []
  const server = createServer(async (request, response) => {
    const { model } = JSON.parse(await text(request)) as { model: string }
    requestedModels.push(model)
    answers.get(model)?.(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen: (model: string) => requestedModels.filter(each => each === model).length,
    /** The model name for which the provider returns this response. */
    answering(answer: Answer): string {
      const model = `answer-${answers.size}`
      answers.set(model, answer)
      return model
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

describeOverServers('between client and provider', http => {
  const relay = suiteRelay('sqlite', {}, http)
  let provider: Awaited<ReturnType<typeof openProvider>>

  before(async () => {
    provider = await openProvider()
  })
  after(async () => {
    provider.close()
  })

  const question = (model: string, more = {}) => ({
    model,
    max_tokens: 20,
    messages: [{ role: 'user', content: 'Hi' }],
    ...more,
  })

  /** Creates a token, and a model with a channel for each of these responses. */
  async function serve(...answers: readonly Answer[]) {
    const sentModels = answers.map(provider.answering)
    const { model } = await relay.serve(sentModels, { base_url: provider.url })
    const token = await relay.newToken()
    return {
      ...token,
      model,
      sent: sentModels,
      ask: (more = {}) => relay.chat(token.key, question(model, more)),
    }
  }

  describe('a stream that contains only an error', () => {
    const error = (fields: Record<string, unknown>) => stream(frame({ error: { message: 'no', ...fields } }))

    it('fails over to the next channel, and only the successful response is charged', async () => {
      const { ask, id } = await serve(error({ type: 'server_error' }), stream(CONTENT, FINISH))
      const reply = await ask({ stream: true })
      assert.equal(reply.status, 200)
      assert.ok(reply.text.startsWith(CONTENT), reply.text)
      assert.equal((await relay.rowOf(id)).type, 2)
    })

    it('costs nothing and has the status of the error if there is no other channel', async () => {
      for (const [answer, status] of [
        [error({ type: 'server_error' }), 502],
        [error({ code: 503 }), 502],
        [error({ type: 'invalid_request_error' }), 400],
        [error({ code: 422 }), 422],
        [error({ type: 'rate_limit_error' }), 429],
        [stream('event: error\n', frame({ message: 'no' })), 502],
      ] as const) {
        const { ask, id } = await serve(answer)
        const reply = await ask({ stream: true })
        assert.equal(reply.status, status, reply.text)
        assert.ok(reply.body.error.message)
        assert.equal((await relay.rowOf(id)).cost, 0)
      }
    })

    it('is not confused with a response whose text mentions errors', async () => {
      const talk = frame({ choices: [{ index: 0, delta: { content: '{"error":{}}' } }], error: null })
      const { ask } = await serve(stream(talk, FINISH))
      assert.ok((await ask({ stream: true })).text.startsWith(talk))
    })
  })

  it('an error inside a stream is reported as the provider’s and not the client’s, in plain text', async () => {
    for (const [event, message] of [
      [frame({ error: { message: 'broke', code: 500 } }), 'broke'],
      [`event: error\n${frame({ message: 'broke' })}`, 'broke'],
      ['event: error\ndata: it broke\n\n', 'it broke'],
    ] as const) {
      const { ask } = await serve(stream(CONTENT, event))
      const { text } = await ask({ stream: true })
      const { error } = JSON.parse(text.slice(text.lastIndexOf('data: ') + 'data: '.length))
      assert.deepEqual([error.message, error.type], [message, 'upstream_error'])
    }
  })

  it('chunks of all sizes that arrive together are forwarded in order', async () => {
    const word = (length: number, letter: string) =>
      frame({ choices: [{ index: 0, delta: { content: letter.repeat(length) }, finish_reason: null }] })
    const large = [20_000, 40_000, 17_000].map(length => word(length, 'a'))
    const small = [10, 2_000, 300].map(length => word(length, 'b'))
    const pieces = [...large.flatMap((each, i) => [each, small[i] ?? '']), CONTENT, FINISH]
    const chunk = (piece: string) => `${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`
    // In one write, so that several of them are read at once.
    const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
    const together: Answer = ({ socket }) => socket?.end(`${head}${[...pieces, ''].map(chunk).join('')}`)
    const { ask } = await serve(together)
    const reply = await ask({ stream: true })
    assert.equal(reply.text.replace('data: [DONE]\n\n', ''), pieces.join(''))
  })

  it('a response that its client does not read for a while is not mixed with others', async () => {
    /** Differs at every offset and from that of every other name. */
    const soundOf = (name: number, size: number) => {
      const words = new Uint32Array(size / 4)
      // `from` and `map` take ten times as long for millions of words.
      for (let index = 0; index < words.length; index++) words[index] = index * 16 + name
      return Buffer.from(words.buffer)
    }
    let writtenBytes = 0
    const paced =
      (bytes: Buffer): Answer =>
      async response => {
        response.writeHead(200, { 'content-type': 'audio/mpeg' })
        for (let at = 0; at < bytes.length; at += 50_000) {
          writtenBytes = at
          if (!response.write(bytes.subarray(at, at + 50_000))) await once(response, 'drain')
        }
        response.end()
      }
    /** On a connection of its own: others may already belong to node:http. */
    async function open(bytes: Buffer) {
      const { key, model } = await serve(paced(bytes))
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
      const asking = request(`${relay.gateway.url}/v1/audio/speech`, {
        method: 'POST',
        headers,
        agent: false,
      })
      asking.end(JSON.stringify({ model, input: 'Hi', voice: 'alloy' }))
      const [response] = (await once(asking, 'response')) as [IncomingMessage]
      return response
    }
    const bodyOf = async (response: IncomingMessage) => {
      assert.equal(response.statusCode, 200)
      return buffer(response)
    }
    const long = soundOf(0, 60_000_000)
    const stalled = await open(long)
    await until('the provider to be stopped by the stalled client', async () => {
      const before = writtenBytes
      await delay(200)
      return writtenBytes === before ? true : undefined
    })
    assert.ok(writtenBytes < long.length - 1_000_000, `${writtenBytes} bytes were written`)
    for (const name of [1, 2, 3])
      assert.ok((await bodyOf(await open(soundOf(name, 2_000_000)))).equals(soundOf(name, 2_000_000)))
    assert.ok((await bodyOf(stalled)).equals(long))
  })

  it('an unsolicited 100 Continue before a response is skipped', async () => {
    const { ask } = await serve(response => {
      response.writeContinue()
      whole(response)
    })
    const reply = await ask()
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.body.choices[0].message.content, 'Hi')
  })

  it('a complete stream ends with [DONE], also if the provider omits it', async () => {
    const { ask } = await serve(stream(CONTENT, FINISH))
    assert.equal((await ask({ stream: true })).text, `${CONTENT}${FINISH}data: [DONE]\n\n`)
  })

  describe('a client', () => {
    const raw = async (bytes: string): Promise<string> => {
      const socket = connect(Number(new URL(relay.gateway.url).port), '127.0.0.1')
      socket.write(bytes)
      return text(socket)
    }
    const post = (key: string, body: string, { target = '/v1/chat/completions', more = '' } = {}) =>
      `POST ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n${more}\r\n`

    it('with HTTP/1.0 gets a stream without chunked encoding, a newer one gets it with chunks', async () => {
      const words = ['naïve ✓ 💧', 'x'.repeat(40_000)]
      const contentFrames = words.map(content => frame({ choices: [{ index: 0, delta: { content } }] }))
      const { key, model } = await serve(stream(...contentFrames, FINISH))
      const body = JSON.stringify(question(model, { stream: true }))
      const rawRequest = post(key, body, { more: 'Connection: close\r\n' }) + body
      const expectedBody = `${contentFrames.join('')}${FINISH}data: [DONE]\n\n`
      const bodyOf = (answer: string) => answer.slice(answer.indexOf('\r\n\r\n') + 4)

      const plain = await raw(rawRequest.replace('HTTP/1.1', 'HTTP/1.0'))
      assert.doesNotMatch(plain, /transfer-encoding/i)
      assert.ok(bodyOf(plain) === expectedBody)

      const framed = await raw(rawRequest)
      assert.match(framed, /transfer-encoding: chunked/i)
      const rest = Buffer.from(bodyOf(framed))
      const pieces: Buffer[] = []
      for (let at = 0; ; ) {
        const lineEnd = rest.indexOf('\r\n', at)
        const length = Number.parseInt(rest.toString('latin1', at, lineEnd), 16)
        at = lineEnd + 2 + length
        assert.equal(rest.toString('latin1', at, at + 2), '\r\n')
        at += 2
        if (length === 0) {
          assert.equal(at, rest.length)
          break
        }
        pieces.push(rest.subarray(lineEnd + 2, at - 2))
      }
      assert.ok(Buffer.concat(pieces).toString() === expectedBody)
    })

    it('may send an absolute URL, as proxies do', async () => {
      const { key, model } = await serve(whole)
      const body = JSON.stringify(question(model))
      const target = 'http://gateway.example/v1/chat/completions?x=1'
      const answer = await raw(post(key, body, { target, more: 'Connection: close\r\n' }) + body)
      assert.match(answer, /^HTTP\/1\.1 200 /)
    })

    it('that sends Expect: 100-continue is refused without a 100', async () => {
      const answer = await raw(post('sk-unknown', '{}', { more: 'Expect: 100-continue\r\n' }))
      assert.match(answer, /^HTTP\/1\.1 401 /)
      assert.match(answer, /\r\nConnection: close\r\n/)
    })

    it('that sends Expect: 100-continue gets the 100 if the body is accepted', async () => {
      const { key, model } = await serve(whole)
      const body = JSON.stringify(question(model))
      const socket = connect(Number(new URL(relay.gateway.url).port), '127.0.0.1')
      socket.write(post(key, body, { more: 'Expect: 100-continue\r\nConnection: close\r\n' }))
      const [first] = (await once(socket, 'data')) as [Buffer]
      assert.match(first.toString(), /^HTTP\/1\.1 100 Continue\r\n\r\n$/)
      socket.write(body)
      assert.match(await text(socket), /^HTTP\/1\.1 200 /)
    })

    it('gets the allowed methods with a 405, and may send HEAD for a list', async () => {
      const { key } = await relay.newToken()
      const call = (method: string, path: string) =>
        fetch(`${relay.gateway.url}${path}`, { method, headers: { authorization: `Bearer ${key}` } })
      assert.equal((await call('GET', '/v1/chat/completions')).headers.get('allow'), 'POST')
      assert.equal((await call('DELETE', '/v1/models')).headers.get('allow'), 'GET, HEAD')
      assert.equal((await call('PUT', '/v1/videos')).headers.get('allow'), 'GET, POST')
      const head = await call('HEAD', '/v1/models')
      assert.deepEqual([head.status, await head.text()], [200, ''])
    })

    it('gets its rate limit headers also with an error', async () => {
      const { model } = await serve(stream(''))
      const { key } = await relay.newToken({ limits: { rpm: 1 } })
      const fetchRateLimits = async () => {
        const { status, headers } = await relay.chat(key, question(model))
        return [
          status,
          headers.get('x-ratelimit-limit-requests'),
          headers.get('x-ratelimit-remaining-requests'),
        ]
      }
      assert.deepEqual(await fetchRateLimits(), [502, '1', '0'])
      assert.deepEqual(await fetchRateLimits(), [429, '1', '0'])
    })
  })

  it('keeps a ledger that verifies, with nothing held', async () => {
    const { body } = await relay.api('GET', '/api/ledger/verify')
    assert.equal(body.data.ok, true)
    const reply = await relay.api('GET', '/api/user/self')
    assert.equal(reply.body.data.held_quota, 0)
  })
})
