import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { before, describe, it, type TestContext } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { countTokens } from '../../simulator/tokens.ts'
import { retryingFetch } from '../support/client.ts'
import { type EndlessResponse, startEndlessProvider } from '../support/endless-provider.ts'
import { oneEngine, type Reply } from '../support/gateway.ts'
import { holdTimers } from '../support/held-timers.ts'
import { until } from '../support/process.ts'
import { PROVIDER_KEY, suiteRelay } from '../support/relay.ts'
import {
  ask,
  brokenWith,
  createQuestion,
  eventsOf,
  PROMPT_TOKENS,
  priceOf,
  refusedWith,
  STREAM,
  textOf,
  timeouts,
} from '../support/relay-faults.ts'

describe('a provider that fails', () => {
  const relay = suiteRelay('sqlite')

  const askOnce = (...question: Parameters<ReturnType<typeof createQuestion>>) =>
    createQuestion(relay)(...question)
  const paidNothing = async (tokenId: number) => {
    assert.equal((await relay.rowOf(tokenId)).cost, 0)
    assert.equal(await relay.usedBy(tokenId), 0)
  }

  describe('before the first byte', () => {
    for (const fault of ['reset', 'status-500', 'status-503', 'status-401', 'status-402', 'status-403'])
      it(`fails over to the next channel after ${fault}, and only that channel is paid`, async () => {
        const { reply, token, channels } = await askOnce([`sim-${fault}`, 'sim-words-4'])
        assert.equal(reply.status, 200, reply.text)
        assert.equal(reply.headers.get('x-sluice-channel'), String(channels[1]))
        const row = await relay.rowOf(token.id)
        assert.equal(row.cost, priceOf(PROMPT_TOKENS, 4))
        assert.equal(await relay.usedBy(token.id), relay.units(row.cost))
        assert.equal(row.other.trace.attempts.length, 2)
      })

    for (const fault of [
      'status-404',
      'status-405',
      'status-408',
      'status-409',
      'status-425',
      'status-429',
      'html',
      'empty',
      'array',
      'redirect',
      'bigheader',
      'upgrade',
      'length-negative',
      'length-twice',
    ])
      it(`fails over after ${fault}, streamed and not`, async () => {
        const [whole, streamed] = await Promise.all(
          [{}, STREAM].map(more => askOnce([`sim-${fault}`, 'sim-words-4'], more)),
        )
        assert.ok(whole && streamed)
        for (const { reply, token } of [whole, streamed]) {
          assert.equal(reply.status, 200, reply.text)
          assert.equal((await relay.rowOf(token.id)).cost, priceOf(PROMPT_TOKENS, 4))
        }
        assert.equal(eventsOf(streamed.reply).at(-1), '[DONE]')
      })

    for (const fault of ['cut-3', 'eof-3', 'preamble', 'badjson', 'error-in-stream', 'length-long'])
      it(`fails over after ${fault} in a non-streamed response`, async () => {
        const { reply, token } = await askOnce([`sim-${fault}`, 'sim-words-4'])
        assert.equal(reply.status, 200, reply.text)
        assert.equal((await relay.rowOf(token.id)).cost, priceOf(PROMPT_TOKENS, 4))
      })

    it('records in the log why it failed, also if it was the only channel', async () => {
      const { token, channels } = await askOnce('sim-words-4', {}, { base_url: 'http://127.0.0.1:1' })
      const { other } = await relay.rowOf(token.id)
      const [attempt] = other.trace.attempts
      assert.deepEqual([attempt.channel, attempt.status], [channels[0], 'ECONNREFUSED'])
    })

    it('is a 502 that costs nothing if there is no other channel', async () => {
      for (const fault of ['status-500', 'reset', 'html', 'empty', 'redirect', 'error-in-stream']) {
        const { reply, token } = await askOnce(`sim-${fault}`)
        refusedWith(reply, 502, 'upstream_error')
        assert.equal(reply.body.error.type, 'upstream_error')
        await paidNothing(token.id)
      }
    })

    it('costs nothing either with a per-call price', async () => {
      const { model } = await relay.serve('sim-status-500', {}, { per_call: 1 })
      const { id, key } = await relay.newToken({ remain_quota: 5_000_000 })
      refusedWith(await relay.chat(key, ask(model)), 502, 'upstream_error')
      await paidNothing(id)
    })

    it('is a 502 if it cannot be connected to or resolved, and leaves no unresolved charge', async () => {
      for (const base_url of ['http://127.0.0.1:9', 'http://nowhere.invalid']) {
        const { reply, token } = await askOnce('sim-words-4', {}, { base_url })
        refusedWith(reply, 502, 'upstream_error')
        await paidNothing(token.id)
        assert.deepEqual(await relay.suspenseOf(token.id), [])
      }
    })

    it('is tried at most `attempts` times', async () => {
      await relay.set({ attempts: 2 })
      const { reply, token } = await askOnce(['sim-status-500', 'sim-status-501', 'sim-words-4'])
      await relay.set({ attempts: null })
      refusedWith(reply, 502, 'upstream_error')
      assert.equal((await relay.rowOf(token.id)).other.trace.attempts.length, 2)
    })

    it('starts a cooldown after five failures, and the next request gets a 503 without an upstream call', async () => {
      const { model } = await relay.serve('sim-status-555')
      const { key } = await relay.newToken()
      for (let i = 0; i < 5; i++) refusedWith(await relay.chat(key, ask(model)), 502, 'upstream_error')
      const reply = await relay.chat(key, ask(model))
      refusedWith(reply, 503, 'no_channel_available')
      assert.ok(Number(reply.headers.get('retry-after')) > 0)
      assert.equal((await relay.seen('sim-status-555')).length, 5)
    })

    describe('during a cooldown', () => {
      async function rested() {
        const served = await relay.serve('sim-words-4', { base_url: 'http://127.0.0.1:1' })
        const { key } = await relay.newToken()
        const again = () => relay.chat(key, ask(served.model))
        for (let i = 0; i < 5; i++) await again()
        refusedWith(await again(), 503, 'no_channel_available')
        return { again, id: served.channels[0] as number }
      }
      const change = (fields: object) => relay.must(relay.api('PUT', '/api/channel/', fields))

      it('is tried again immediately after its base URL is corrected', async () => {
        const { again, id } = await rested()
        await change({ id, weight: 7 })
        refusedWith(await again(), 503, 'no_channel_available')
        await change({ id, base_url: relay.upstream })
        assert.equal((await again()).status, 200)
      })

      it('is tried again immediately after a successful channel test', async () => {
        const served = await relay.serve('sim-words-4')
        const { key } = await relay.newToken()
        const id = served.channels[0] as number
        await change({ id, model_mapping: { [served.model]: 'sim-status-429-retry-40' } })
        refusedWith(await relay.chat(key, ask(served.model)), 429, 'upstream_rate_limited')
        refusedWith(await relay.chat(key, ask(served.model)), 503, 'no_channel_available')
        await change({ id, model_mapping: { [served.model]: 'sim-words-4' } })
        refusedWith(await relay.chat(key, ask(served.model)), 503, 'no_channel_available')
        assert.equal((await relay.api('GET', `/api/channel/test/${id}`)).body.success, true)
        assert.equal((await relay.chat(key, ask(served.model))).status, 200)
      })
    })
  })

  describe('that rejects the request', () => {
    for (const status of [400, 413, 422])
      it(`with ${status} causes no failover: its message is forwarded, and nothing is charged`, async () => {
        const { reply, token } = await askOnce([`sim-status-${status}`, 'sim-words-4'])
        assert.equal(reply.status, status)
        assert.equal(typeof reply.body.error.message, 'string')
        await paidNothing(token.id)
        const { other } = await relay.rowOf(token.id)
        assert.equal(other.error_code, `upstream_${status}`)
        const tried = other.trace.attempts.map((attempt: { status: unknown }) => attempt.status)
        assert.deepEqual(tried, [status])
      })

    it('with 404 has it forwarded if it is the last response, and becomes a 502 if it is not', async () => {
      assert.equal((await askOnce(['sim-status-500', 'sim-status-404'])).reply.status, 404)
      refusedWith((await askOnce(['sim-status-404', 'sim-status-500'])).reply, 502, 'upstream_error')
    })

    it('never exposes its key, its address or more than 2 KB of its message', async () => {
      const shouting = createServer((request, response) => {
        request.resume()
        const { authorization } = request.headers
        const message = `${'x'.repeat(1_990)}${authorization} at http://10.1.2.3/secret ${'y'.repeat(9_000)}`
        response.writeHead(400, { 'content-type': 'application/json', 'set-cookie': 'a=b' })
        response.end(JSON.stringify({ error: { message, type: authorization, code: authorization } }))
      }).listen(0, '127.0.0.1')
      await once(shouting, 'listening')
      const { port } = shouting.address() as AddressInfo
      const { reply } = await askOnce('sim-words-4', {}, { base_url: `http://127.0.0.1:${port}` })
      shouting.close()
      assert.equal(reply.status, 400)
      assert.ok(!reply.text.includes('canary'), reply.text)
      assert.ok(!reply.text.includes('10.1.2.3'))
      assert.ok(reply.body.error.message.length <= 2_000)
      assert.equal(reply.headers.get('set-cookie'), null)
    })

    it('before it has read a long body is an ordinary rejection', async () => {
      const { model } = await relay.serve('sim-early-413')
      const { id, key } = await relay.newToken({ remain_quota: 50_000_000 })
      const long = { model, messages: [{ role: 'user', content: 'word '.repeat(600_000) }] }
      const reply = await relay.chat(key, long)
      assert.equal(reply.status, 413, reply.text)
      await paidNothing(id)
    })
  })

  describe('that rejects the key', () => {
    it('is a 502 if every key was rejected, and the key appears in neither response nor log', async () => {
      for (const fault of ['error-key', 'status-401', 'status-403']) {
        const { reply, token } = await askOnce([`sim-${fault}`, `sim-${fault}`])
        refusedWith(reply, 502, 'upstream_error')
        const row = await relay.rowOf(token.id)
        assert.ok(!JSON.stringify(row).includes(PROVIDER_KEY))
      }
    })

    it('starts a cooldown immediately', async () => {
      const { reply, token, model } = await askOnce('sim-status-401')
      refusedWith(reply, 502, 'upstream_error')
      refusedWith(await relay.chat(token.key, ask(model)), 503, 'no_channel_available')
    })

    it('leaves the other keys of its channel in use', async () => {
      const picky = createServer((request, response) => {
        request.resume()
        const isGood = request.headers.authorization === 'Bearer good-key-0002'
        response.writeHead(isGood ? 200 : 401, { 'content-type': 'application/json' })
        response.end(
          JSON.stringify(
            isGood
              ? {
                  id: 'x',
                  object: 'chat.completion',
                  model: 'm',
                  choices: [
                    { index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' },
                  ],
                  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
                }
              : { error: { message: 'no', type: 'x', code: 'invalid_api_key' } },
          ),
        )
      }).listen(0, '127.0.0.1')
      await once(picky, 'listening')
      const { port } = picky.address() as AddressInfo
      const model = 'many-keys'
      await relay.addChannel(
        { models: [model], key: 'bad-key-0001\ngood-key-0002', base_url: `http://127.0.0.1:${port}` },
        'multi_to_single',
      )
      await relay.must(relay.api('POST', '/api/price/', { model, input: 1, output: 2 }))
      const { key } = await relay.newToken()
      const statuses: number[] = []
      for (let i = 0; i < 6; i++) statuses.push((await relay.chat(key, ask(model))).status)
      picky.closeAllConnections()
      picky.close()
      assert.ok(statuses.filter(status => status === 502).length <= 1, statuses.join())
      assert.ok(
        statuses.slice(2).every(status => status === 200),
        statuses.join(),
      )
    })
  })

  describe('at its rate limit', () => {
    it('has the shortest retry delay forwarded if every channel responds 429', async () => {
      const { reply, token } = await askOnce(['sim-status-429-retry-40', 'sim-status-429-retry-20'])
      refusedWith(reply, 429, 'upstream_rate_limited')
      assert.equal(reply.body.error.type, 'rate_limit_error')
      assert.equal(reply.headers.get('retry-after'), '20')
      await paidNothing(token.id)
    })

    for (const [fault, least, most] of [
      ['status-429-retry-1', 1, 1],
      ['status-429-retry-3600', 300, 300],
      ['status-429-retry-date', 25, 30],
      ['status-429-retry-garbage', 5, 5],
      ['status-429-quota', 5, 5],
    ] as const)
      it(`reads the retry delay of ${fault}`, async () => {
        const { reply } = await askOnce(`sim-${fault}`)
        refusedWith(reply, 429, 'upstream_rate_limited')
        const wait = Number(reply.headers.get('retry-after'))
        assert.ok(wait >= least && wait <= most, String(wait))
      })

    it('is a 502 if another channel failed otherwise', async () => {
      refusedWith((await askOnce(['sim-status-429', 'sim-status-500'])).reply, 502, 'upstream_error')
    })
  })

  describe('that times out', () => {
    it('is a 504 with an unresolved charge in suspense, and costs the user nothing', async () => {
      for (const more of [{}, STREAM]) {
        const { reply, token, channels } = await askOnce(
          ['sim-hang', 'sim-hang'],
          more,
          timeouts({ first_byte_ms: 150 }),
        )
        refusedWith(reply, 504, 'upstream_timeout')
        assert.equal(reply.body.error.type, 'upstream_error')
        await paidNothing(token.id)
        const doubts = await relay.suspenseOf(token.id)
        assert.deepEqual(
          doubts.map(doubt => doubt.channel_id),
          channels,
        )
        assert.ok(doubts.every(doubt => Number(doubt.amount) > 0))
      }
    })

    it('fails over, and the unresolved charge stays with the slow channel', async () => {
      const { model, channels } = await relay.serve(
        ['sim-hang', 'sim-words-4'],
        [timeouts({ first_byte_ms: 150 }), {}],
      )
      const { id, key } = await relay.newToken()
      const reply = await relay.chat(key, ask(model))
      assert.equal(reply.headers.get('x-sluice-channel'), String(channels[1]))
      assert.equal((await relay.rowOf(id)).cost, priceOf(PROMPT_TOKENS, 4))
      assert.deepEqual(
        (await relay.suspenseOf(id)).map(doubt => doubt.channel_id),
        [channels[0]],
      )
    })

    it('leaves its unresolved charge in suspense if the next channel cannot be held', async () => {
      const model = 'unheld'
      const first = await relay.addChannel({
        models: [model],
        ...timeouts({ first_byte_ms: 150 }),
        name: 'slow',
        model_mapping: { [model]: 'sim-hang' },
        priority: 9,
      })
      await relay.addChannel({
        models: [model],
        name: 'expensive',
        model_mapping: { [model]: 'sim-words-4' },
        param_override: { max_tokens: 900_000 },
        priority: 1,
      })
      await relay.must(
        relay.api('POST', '/api/price/', { model, input: 1, output: 2, max_output_tokens: 1_000_000 }),
      )
      const { id, key } = await relay.newToken({ remain_quota: 5_000 })
      for (const [index, more] of [{}, STREAM].entries()) {
        refusedWith(await relay.chat(key, ask(model, { max_tokens: 10, ...more })), 429, 'insufficient_quota')
        const row = (await relay.rowsOf(id, index + 1)).at(-1)
        assert.deepEqual([row?.cost, row?.other.error_code], [0, 'insufficient_quota'])
        assert.match(row?.content ?? '', /quota/)
      }
      const doubts = await relay.suspenseOf(id)
      assert.deepEqual(
        doubts.map(doubt => doubt.channel_id),
        [first, first],
      )
      assert.ok(doubts.every(doubt => Number(doubt.amount) > 0))
      assert.equal(await relay.usedBy(id), 0)
      // A provider that refused the request bills nothing, so nothing is in suspense.
      await relay.must(
        relay.api('PUT', '/api/channel/', {
          id: first,
          model_mapping: { [model]: 'sim-status-500' },
          ...timeouts({}),
        }),
      )
      const other = await relay.newToken({ remain_quota: 5_000 })
      refusedWith(await relay.chat(other.key, ask(model, { max_tokens: 10 })), 429, 'insufficient_quota')
      assert.deepEqual(await relay.suspenseOf(other.id), [])
    })

    it('has its own 408 count as a timeout, and a mixture of failures as 502', async () => {
      refusedWith((await askOnce('sim-status-408')).reply, 504, 'upstream_timeout')
      refusedWith((await askOnce(['sim-status-408', 'sim-status-500'])).reply, 502, 'upstream_error')
    })

    it('in the middle of a non-streamed response is a timeout too', async () => {
      refusedWith(
        (await askOnce('sim-stall-2', {}, timeouts({ idle_ms: 150 }))).reply,
        504,
        'upstream_timeout',
      )
      refusedWith((await askOnce('sim-drip', {}, timeouts({ total_ms: 200 }))).reply, 504, 'upstream_timeout')
    })

    /** The client has received five words when the timer fires. */
    async function timeOutAfterFiveWords(t: TestContext, sentModel: string, name: string, ms: number) {
      const { model } = await relay.serve(sentModel, timeouts({ [name]: ms }))
      const { id, key } = await relay.newToken()
      const timers = holdTimers(t, ms)
      const response = await retryingFetch(`${relay.gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(ask(model, STREAM)),
      })
      let text = ''
      let hasFired = false
      for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        text += piece
        if (hasFired || countTokens(textOf({ text })) < 5) continue
        timers.fire()
        hasFired = true
      }
      timers.end()
      brokenWith(
        { ...response, status: response.status, headers: response.headers, text, body: undefined },
        'upstream_timeout',
      )
      return { text, row: await relay.rowOf(id) }
    }

    it('in the middle of a stream ends it with an error, and the delivered part is charged', async t => {
      const { text, row } = await timeOutAfterFiveWords(t, 'sim-words-50-stall-5', 'idle_ms', 9_001)
      assert.equal(countTokens(textOf({ text })), 5)
      assert.ok(row.cost > 0)
      assert.equal(row.cost, priceOf(row.prompt_tokens, row.completion_tokens))
      assert.ok(row.completion_tokens >= 1 && row.completion_tokens <= 25)
    })

    it('in a stream that goes on for too long ends it with an error', async t => {
      const { text, row } = await timeOutAfterFiveWords(t, 'sim-words-500-pace-20', 'total_ms', 9_002)
      assert.ok(countTokens(textOf({ text })) < 500)
      assert.equal(row.cost, priceOf(row.prompt_tokens, row.completion_tokens))
    })

    it('sending the first event byte by byte has not started its stream', async () => {
      const { reply } = await askOnce(['sim-drip', 'sim-words-4'], STREAM, [
        timeouts({ first_byte_ms: 200 }),
        {},
      ])
      assert.equal(eventsOf(reply).at(-1), '[DONE]')
    })
  })

  describe('in the middle of a stream', () => {
    for (const fault of ['cut-5', 'eof-5', 'preamble'])
      it(`with ${fault} ends with an error event, never with [DONE], and does not fail over`, async () => {
        const { reply, token } = await askOnce([`sim-words-50-${fault}`, 'sim-words-4'], STREAM)
        brokenWith(reply, 'upstream_error')
        const row = await relay.rowOf(token.id)
        assert.equal(row.type, 2)
        assert.equal(row.other.error_code, 'upstream_error')
        const { body } = await relay.api('GET', '/api/log/self?type=2&page_size=1')
        assert.equal(body.data.items[0].id, row.id, 'the list by type has what the sum counts')
        assert.ok(row.cost > 0)
        assert.equal(row.cost, priceOf(row.prompt_tokens, row.completion_tokens))
        assert.equal(row.other.trace, undefined)
      })

    it('has its own error forwarded without a key and without a [DONE] after it', async () => {
      const events = [
        { choices: [{ index: 0, delta: { content: 'one' } }] },
        { error: { message: `bad ${PROVIDER_KEY}`, type: 'server_error', code: 'boom' } },
      ]
      const faulty = createServer((request, response) => {
        request.resume()
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.end(`${events.map(event => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`)
      }).listen(0, '127.0.0.1')
      await once(faulty, 'listening')
      const { port } = faulty.address() as AddressInfo
      const { reply } = await askOnce('sim-words-4', STREAM, { base_url: `http://127.0.0.1:${port}` })
      faulty.closeAllConnections()
      faulty.close()
      brokenWith(reply, 'boom')
      assert.ok(!reply.text.includes(PROVIDER_KEY))
      const simulated = await askOnce('sim-error-in-stream', STREAM)
      assert.ok(!eventsOf(simulated.reply).includes('[DONE]'))
      assert.ok(JSON.parse(eventsOf(simulated.reply).at(-1) ?? '').error.message)
    })

    it('that ends after its last event and before its declared length has still completed', async () => {
      const { reply, token } = await askOnce('sim-words-8-length-long', STREAM)
      assert.equal(eventsOf(reply).at(-1), '[DONE]')
      assert.equal((await relay.rowOf(token.id)).cost, priceOf(PROMPT_TOKENS, 8))
    })

    it('has one malformed event forwarded, and the usage at the end is read', async () => {
      const { reply, token } = await askOnce('sim-words-8-badjson', STREAM)
      assert.equal(eventsOf(reply).at(-1), '[DONE]')
      assert.equal((await relay.rowOf(token.id)).cost, priceOf(PROMPT_TOKENS, 8))
    })

    it('may omit blank lines between events', async () => {
      const { reply, token } = await askOnce('sim-words-8-noblank', STREAM)
      assert.equal(eventsOf(reply).at(-1), '[DONE]')
      assert.equal((await relay.rowOf(token.id)).cost, priceOf(PROMPT_TOKENS, 8))
    })
  })

  describe('with unusual HTTP', () => {
    for (const fault of ['interim', 'http10', 'trailers', 'dupusage', 'crlf-header', 'gzip-false'])
      it(`such as ${fault} is understood, and none of its headers are forwarded`, async () => {
        for (const more of [{}, STREAM]) {
          const { reply, token } = await askOnce(`sim-words-6-${fault}`, more)
          assert.equal(reply.status, 200, reply.text)
          assert.equal((await relay.rowOf(token.id)).cost, priceOf(PROMPT_TOKENS, 6))
          for (const name of ['set-cookie', 'x-sim-injected', 'server'])
            assert.equal(reply.headers.get(name), null)
        }
      })

    it('does not break later requests to it', async () => {
      for (const fault of ['length-short', 'length-negative', 'length-twice', 'length-chunked', 'upgrade']) {
        await askOnce(`sim-${fault}`)
        assert.equal((await askOnce('sim-words-4')).reply.status, 200)
      }
    })

    it('that redirects is not followed', async () => {
      let hits = 0
      const elsewhere = createServer((_request, response) => {
        hits += 1
        response.end()
      }).listen(0, '127.0.0.1')
      await once(elsewhere, 'listening')
      const { port } = elsewhere.address() as AddressInfo
      const { reply } = await askOnce(
        'sim-redirect',
        {},
        {
          header_override: { 'x-sim-redirect-to': `http://127.0.0.1:${port}/` },
        },
      )
      elsewhere.close()
      refusedWith(reply, 502, 'upstream_error')
      assert.equal(hits, 0)
    })

    /** Asks a provider that sends without end. Returns how many bytes it could send. */
    async function askEndless(response: Omit<EndlessResponse, 'piece'>, more = {}) {
      const endless = await startEndlessProvider({ ...response, piece: Buffer.alloc(65_536, 'x') })
      const question = await askOnce('sim-words-4', more, { base_url: endless.url })
      const bytes = await endless.untilClosed()
      endless.close()
      return { ...question, bytes }
    }
    const JSON_HEADERS = { 'content-type': 'application/json' }
    /** What the gateway may receive of an error or a line: buffers of sockets take some megabytes of it. */
    const LITTLE_BYTES = 20 * 2 ** 20

    it('that never stops sending an error is disconnected early', async () => {
      for (const more of [{}, STREAM]) {
        const { reply, bytes } = await askEndless(
          { status: 500, headers: JSON_HEADERS, start: '{"error":{"message":"' },
          more,
        )
        refusedWith(reply, 502, 'upstream_error')
        assert.ok(bytes < LITTLE_BYTES, `${bytes} bytes`)
      }
    })

    it('that never ends a response, compressed or not, is disconnected after 32 MB of it', async () => {
      for (const compression of [{}, { 'content-encoding': 'gzip' }]) {
        const start = '{"choices":[{"message":{"content":"'
        const { reply, bytes } = await askEndless({ headers: { ...JSON_HEADERS, ...compression }, start })
        refusedWith(reply, 502, 'upstream_error')
        assert.ok(bytes < 32 * 2 ** 20 + LITTLE_BYTES, `${bytes} bytes`)
      }
    })

    it('that never ends a line of a stream is disconnected early, and what came before is delivered', async () => {
      const word = { choices: [{ index: 0, delta: { content: 'one two three' } }] }
      const start = `data: ${JSON.stringify(word)}\n\ndata: {"`
      const headers = { 'content-type': 'text/event-stream' }
      const { reply, bytes, token } = await askEndless({ headers, start }, STREAM)
      brokenWith(reply, 'upstream_error')
      assert.equal(countTokens(textOf(reply)), 3)
      assert.ok(bytes < LITTLE_BYTES, `${bytes} bytes`)
      assert.ok((await relay.rowOf(token.id)).cost > 0)
    })

    it('that compresses its response although the gateway did not accept it is a failure', async () => {
      for (const more of [{}, STREAM])
        refusedWith((await askOnce('sim-gzip', more)).reply, 502, 'upstream_error')
    })
  })

  describe('whose usage', () => {
    it('is missing has its tokens counted by the gateway', async () => {
      for (const more of [{}, STREAM]) {
        const { token } = await askOnce('sim-words-40-nousage', more)
        const row = await relay.rowOf(token.id)
        assert.equal(row.other.source, 'counted')
        assert.ok(row.completion_tokens >= 20 && row.completion_tokens <= 120, String(row.completion_tokens))
        assert.equal(row.cost, priceOf(row.prompt_tokens, row.completion_tokens))
      }
    })

    it('is zero costs nothing', async () => {
      for (const more of [{}, STREAM]) {
        const { token } = await askOnce('sim-words-40-zerousage', more)
        const row = await relay.rowOf(token.id)
        assert.equal(row.other.source, 'provider')
        assert.equal(row.cost, 0)
      }
    })

    it('is impossible is treated as missing', async () => {
      const { model } = await relay.serve('sim-words-40-badusage')
      const { id, key } = await relay.newToken()
      for (let i = 0; i < 8; i++) await relay.chat(key, ask(model, i % 2 === 0 ? {} : STREAM))
      const rows = await relay.rowsOf(id, 8)
      for (const row of rows) {
        assert.equal(row.other.source, 'counted')
        assert.equal(row.cost, priceOf(row.prompt_tokens, row.completion_tokens))
        assert.ok(row.completion_tokens <= 120)
      }
    })

    it('is repeated in many events is charged once, by the last one', async () => {
      const { token } = await askOnce('sim-words-9-dupusage', STREAM)
      assert.equal((await relay.rowOf(token.id)).cost, priceOf(PROMPT_TOKENS, 9))
    })
  })

  describe('with early response headers', () => {
    it('sends them with keep-alive comments while no channel has responded, and the response follows', async () => {
      await relay.set({ early_headers_ms: 100 })
      const { reply } = await askOnce('sim-words-4-slow-400', STREAM)
      const handed = await askOnce(['sim-hang', 'sim-words-4'], STREAM, [
        timeouts({ first_byte_ms: 300 }),
        {},
      ])
      const failed = await askOnce('sim-hang', STREAM, timeouts({ first_byte_ms: 300 }))
      const whole = await askOnce('sim-hang', {}, timeouts({ first_byte_ms: 300 }))
      await relay.set({ early_headers_ms: null })
      assert.match(reply.text, /^: keep-alive\n\n/)
      assert.equal(eventsOf(reply).at(-1), '[DONE]')
      assert.match(handed.reply.text, /^: keep-alive\n\n/)
      assert.equal(eventsOf(handed.reply).at(-1), '[DONE]')
      brokenWith(failed.reply, 'upstream_timeout')
      await paidNothing(failed.token.id)
      refusedWith(whole.reply, 504, 'upstream_timeout')
    })

    it('sends none if the setting is 0', async () => {
      await relay.set({ early_headers_ms: 0 })
      const { reply } = await askOnce('sim-hang', STREAM, timeouts({ first_byte_ms: 300 }))
      await relay.set({ early_headers_ms: null })
      refusedWith(reply, 504, 'upstream_timeout')
    })
  })
})

for (const engine of oneEngine('postgres'))
  describe(`money under stress on ${engine}`, () => {
    const relay = suiteRelay(engine)

    async function newUser(quota: number) {
      const user = await relay.gateway.createUser({ quota })
      const self = () =>
        relay.must(relay.api('GET', '/api/user/self', undefined, { token: user.accessToken }))
      return { ...user, self }
    }

    it('charges usage above the hold to the remaining balance and records the rest as overrun', async () => {
      // 1 + 2 USD per million and at most 10 output tokens: the hold is far below the reported usage.
      const { model } = await relay.serve('sim-words-10-overuse-100000')
      const user = await newUser(1_000)
      const { id, key } = await relay.newToken({ unlimited_quota: true }, user.accessToken)
      const reply = await relay.chat(key, ask(model, { max_tokens: 10 }))
      assert.equal(reply.status, 200, reply.text)
      const row = await relay.rowOf(id)
      assert.equal(row.cost, 1_000 * 2_000)
      // Output is charged up to the plausible limit only: 10 × 1.1 + 64.
      assert.equal(row.other.overrun, priceOf(PROMPT_TOKENS * 100_000, 75) - row.cost)
      const { quota, used_quota } = await user.self()
      assert.equal(quota, 0)
      assert.equal(used_quota, 1_000)
      const refused = await relay.chat(key, ask(model))
      refusedWith(refused, 429, 'insufficient_quota')
      assert.equal(refused.headers.get('x-should-retry'), 'false')
    })

    it('admits exactly as many requests as the balance covers', async () => {
      const { model } = await relay.serve('sim-words-4', {}, { per_call: 0.01 })
      const user = await newUser(37 * 5_000 + 4_999)
      const { id, key } = await relay.newToken({ unlimited_quota: true }, user.accessToken)
      const replies = await Promise.all(Array.from({ length: 120 }, () => relay.chat(key, ask(model))))
      assert.equal(replies.filter(({ status }) => status === 200).length, 37)
      assert.equal(replies.filter(({ status }) => status === 429).length, 83)
      assert.equal((await user.self()).quota, 4_999)
      assert.equal((await relay.rowsOf(id, 37)).length, 37)
    })

    it('is limited by the tighter of token and user, and charges both together', async () => {
      const { model } = await relay.serve('sim-words-4', {}, { per_call: 0.01 })
      const user = await newUser(50_000)
      const tight = await relay.newToken({ remain_quota: 10_000 }, user.accessToken)
      const wide = await relay.newToken({ remain_quota: 500_000 }, user.accessToken)
      const shots = [tight.key, wide.key].flatMap(key => Array.from({ length: 20 }, () => key))
      const replies = await Promise.all(shots.map(key => relay.chat(key, ask(model))))
      const isGood = ({ status }: Reply) => status === 200
      assert.ok(replies.slice(0, 20).filter(isGood).length <= 2)
      assert.equal(replies.filter(isGood).length, 10)
      assert.equal((await user.self()).quota, 0)
      const usedQuotaOf = async (id: number) =>
        (await relay.must(relay.api('GET', `/api/token/${id}`, undefined, { token: user.accessToken })))
          .used_quota
      assert.equal((await usedQuotaOf(tight.id)) + (await usedQuotaOf(wide.id)), 50_000)
    })

    it('refuses an unlimited token whose user has no balance', async () => {
      const { model } = await relay.serve('sim-words-4')
      const user = await newUser(0)
      const { key } = await relay.newToken({ unlimited_quota: true }, user.accessToken)
      refusedWith(await relay.chat(key, ask(model)), 429, 'insufficient_quota')
    })

    it('bills the price at admission, even if it changes before the response', async () => {
      const { model } = await relay.serve('sim-words-4-slow-300')
      const { id, key } = await relay.newToken()
      const requestsBefore = await relay.seenInAll()
      const running = relay.chat(key, ask(model))
      await relay.untilSeen(requestsBefore + 1)
      await relay.must(relay.api('POST', '/api/price/', { model, input: 50, output: 50 }))
      assert.equal((await running).status, 200)
      assert.equal((await relay.rowOf(id)).cost, priceOf(PROMPT_TOKENS, 4))
    })

    it('bills the newest price, also after the clock was set back', async t => {
      const { model } = await relay.serve('sim-words-4')
      const { id, key } = await relay.newToken()
      const realNow = Date.now
      t.mock.method(Date, 'now', () => realNow() - 3_600_000)
      // Any price change makes the relay reload all prices.
      await relay.must(relay.api('POST', '/api/price/', { model: 'something-else', input: 1 }))
      assert.equal((await relay.chat(key, ask(model))).status, 200)
      assert.equal((await relay.rowOf(id)).cost, priceOf(PROMPT_TOKENS, 4))
    })

    it('applies a price as soon as it is set, with many set at once', async () => {
      const { key } = await relay.newToken()
      const replies = await Promise.all(
        Array.from({ length: 12 }, async () => {
          const { model } = await relay.serve('sim-words-4')
          return relay.chat(key, ask(model))
        }),
      )
      for (const { status, text } of replies) assert.equal(status, 200, text)
    })

    it('bills the model name mapped by the channel that responded', async () => {
      const model = `mapped-${engine}`
      for (const [index, [sentModel, input]] of (
        [
          ['sim-status-500-dear', 90],
          ['sim-words-5-cheap', 1],
        ] as const
      ).entries()) {
        await relay.addChannel({
          models: [model],
          model_mapping: { [model]: sentModel },
          priority: 9 - index,
        })
        await relay.must(relay.api('POST', '/api/price/', { model: sentModel, input, output: input }))
      }
      const { id, key } = await relay.newToken()
      assert.equal((await relay.chat(key, ask(model))).status, 200)
      assert.equal((await relay.rowOf(id)).cost, (PROMPT_TOKENS + 5) * 1_000)
    })

    it('finishes and charges a request whose token is deleted or expires before the response ends', async () => {
      const { model } = await relay.serve('sim-words-20-pace-150')
      const deleted = await relay.newToken()
      const expiring = await relay.newToken()
      const requestsBefore = await relay.seenInAll()
      const running = [expiring, deleted].map(({ key }) => relay.chat(key, ask(model, STREAM)))
      await relay.untilSeen(requestsBefore + 2)
      await relay.must(relay.api('DELETE', `/api/token/${deleted.id}`))
      const expired_time = Math.floor(Date.now() / 1000) - 1
      await relay.gateway.db
        .updateTable('tokens')
        .set({ expired_time })
        .where('id', '=', expiring.id)
        .execute()
      // After a change, the gateway reads the token again.
      await relay.must(relay.api('PUT', '/api/token/', { id: expiring.id, name: 'expired' }))
      for (const { key } of [expiring, deleted])
        refusedWith(await relay.chat(key, ask(model)), 401, 'invalid_api_key')
      for (const reply of await Promise.all(running)) assert.equal(eventsOf(reply).at(-1), '[DONE]')
      for (const { id } of [expiring, deleted])
        assert.equal((await relay.rowOf(id)).cost, priceOf(PROMPT_TOKENS, 20))
    })

    it('keeps a ledger that verifies', async () => {
      const { ok, lines } = await relay.gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
    })
  })

describe('a client that', () => {
  const relay = suiteRelay('sqlite', { SLUICE_MAX_BODY_MB: '1' })

  /** Writes these bytes and returns all that is received until the server closes. */
  async function raw(bytes: string | Buffer): Promise<string> {
    const { port, hostname } = new URL(relay.gateway.url)
    const socket = connect({ port: Number(port), host: hostname })
    let text = ''
    socket.on('data', chunk => {
      text += chunk
    })
    socket.on('error', () => {})
    socket.write(bytes)
    await Promise.race([once(socket, 'end'), once(socket, 'close')])
    socket.destroy()
    return text
  }
  const post = (key: string, body: string, headers = '', path = '/v1/chat/completions') =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n` +
    `${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

  describe('disconnects', () => {
    /** Disconnects when the provider has received the request, or in the middle of its stream. */
    async function leave(sentModel: string, more: Readonly<Record<string, unknown>>, isInMiddle = false) {
      const { model } = await relay.serve(sentModel)
      const token = await relay.newToken()
      const leaving = new AbortController()
      const requestsBefore = await relay.seenInAll()
      const hasStarted = Promise.withResolvers<void>()
      const rejection = assert.rejects(async () => {
        const response = await retryingFetch(`${relay.gateway.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { authorization: `Bearer ${token.key}`, 'content-type': 'application/json' },
          body: JSON.stringify(ask(model, more)),
          signal: leaving.signal,
        })
        let text = ''
        for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
          text += piece
          if (textOf({ text }) !== '') hasStarted.resolve()
        }
      })
      await (isInMiddle ? hasStarted.promise : relay.untilSeen(requestsBefore + 1))
      leaving.abort()
      await rejection
      return token
    }

    it('before anything was sent pays nothing', async () => {
      const { model } = await relay.serve('sim-words-4')
      const { id, key } = await relay.newToken()
      const body = JSON.stringify(ask(model))
      const { port, hostname } = new URL(relay.gateway.url)
      const socket = connect(Number(port), hostname)
      socket.on('error', () => {})
      socket.write(post(key, body).slice(0, -10))
      await once(socket, 'connect')
      await new Promise<void>(resolve => {
        socket.write('', () => resolve())
      })
      socket.destroy()
      // A later request is the only one that is charged.
      assert.equal((await relay.chat(key, ask(model))).status, 200)
      const { cost } = await relay.rowOf(id)
      assert.equal(await relay.usedBy(id), relay.units(cost))
    })

    it('after dispatch and before the first byte pays the input, once', async () => {
      for (const more of [{}, STREAM]) {
        const { id } = await leave('sim-hang', more)
        const row = await relay.rowOf(id)
        assert.ok(row.prompt_tokens > 0)
        assert.equal(row.completion_tokens, 0)
        assert.equal(row.cost, priceOf(row.prompt_tokens, 0))
        assert.equal(row.other.source, 'input_only')
        const { held_quota } = await relay.must(relay.api('GET', `/api/token/${id}`))
        assert.equal(held_quota, 0)
      }
    })

    it('in the middle of a stream pays the input and the generated output, once', async () => {
      const { id } = await leave('sim-words-500-pace-10', STREAM, true)
      const row = await relay.rowOf(id)
      assert.ok(row.completion_tokens > 0 && row.completion_tokens < 500)
      assert.equal(row.cost, priceOf(row.prompt_tokens, row.completion_tokens))
    })

    it('after the last byte pays the full price', async () => {
      const { model } = await relay.serve('sim-words-4')
      const { id, key } = await relay.newToken()
      const text = await raw(post(key, JSON.stringify(ask(model, STREAM)), 'Connection: close\r\n'))
      assert.match(text, /\[DONE\]/)
      assert.equal((await relay.rowOf(id)).cost, priceOf(PROMPT_TOKENS, 4))
    })

    it('at any moment leaves a ledger that verifies and no hold', async () => {
      const { model } = await relay.serve('sim-words-30-pace-5')
      const { id, key } = await relay.newToken()
      await Promise.all(
        Array.from({ length: 40 }, async (_each, index) => {
          const isStream = index % 2 === 0
          await retryingFetch(`${relay.gateway.url}/v1/chat/completions`, {
            method: 'POST',
            headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
            body: JSON.stringify(ask(model, isStream ? STREAM : {})),
            // The last client stays connected, so that there is a row to find on a slow machine too.
            ...(index < 39 && { signal: AbortSignal.timeout(5 + index * 6) }),
          })
            .then(response => response.text())
            .catch(() => '')
        }),
      )
      // A request whose client disconnected early may reach the gateway after the last response: wait until
      // the ledger agrees.
      const rows = await until('every hold to be given back, and every cost to be logged', async () => {
        const { held_quota, used_quota } = await relay.must(relay.api('GET', `/api/token/${id}`))
        const logged = await relay.rowsOf(id, 1)
        const cost = relay.units(logged.reduce((sum, row) => sum + row.cost, 0))
        return held_quota === 0 && used_quota === cost ? logged : undefined
      })
      assert.equal(new Set(rows.map(row => row.request_id)).size, rows.length)
      const { ok, lines } = await relay.gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
    })

    it('does not read its response slows the provider down through backpressure', async () => {
      // Endless: without backpressure, this would not end.
      const event = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: ' word' } }] })}\n\n`
      const headers = { 'content-type': 'text/event-stream' }
      const endless = await startEndlessProvider({ headers, piece: Buffer.from(event.repeat(100)) })
      const { model } = await relay.serve('sim-words-4', { base_url: endless.url })
      const { id, key } = await relay.newToken({ remain_quota: 50_000_000 })
      const { port, hostname } = new URL(relay.gateway.url)
      const socket = connect(Number(port), hostname)
      socket.on('error', () => {})
      socket.pause()
      socket.write(post(key, JSON.stringify(ask(model, STREAM))))
      await endless.untilStill()
      socket.destroy()
      const row = await relay.rowOf(id)
      endless.close()
      const words = 100 * endless.pieces()
      assert.ok(row.completion_tokens > 0 && row.completion_tokens <= words, String(row.completion_tokens))
    })
  })

  describe('sends a hostile body', () => {
    const send = async (bytes: string | Uint8Array, headers: Readonly<Record<string, string>> = {}) => {
      const { key } = await relay.newToken()
      return relay.api('POST', '/v1/chat/completions', undefined, { token: key, raw: bytes, headers })
    }
    let model: string
    before(async () => {
      model = (await relay.serve('sim-words-4')).model
    })

    it('that is too large gets 413, with and without a content-length, compressed or not', async () => {
      const { key } = await relay.newToken()
      const large = JSON.stringify(ask(model, { user: 'x'.repeat(1_100_000) }))
      const responseWithLength = await raw(
        post(key, '').replace('Content-Length: 0', 'Content-Length: 1000000000'),
      )
      assert.match(responseWithLength, /^HTTP\/1\.1 413/)
      assert.match(responseWithLength, /request_too_large/)
      const chunk = `${(65_536).toString(16)}\r\n${'x'.repeat(65_536)}\r\n`
      const untold = await raw(
        post(key, '').replace('Content-Length: 0', 'Transfer-Encoding: chunked') + chunk.repeat(18),
      )
      assert.match(untold, /^HTTP\/1\.1 413/)
      for (const [name, pack] of [
        ['gzip', gzipSync],
        ['deflate', deflateSync],
        ['br', brotliCompressSync],
        ['zstd', zstdCompressSync],
      ] as const) {
        refusedWith(await send(pack(large), { 'content-encoding': name }), 413, 'request_too_large')
        const small = await send(pack(JSON.stringify(ask(model))), { 'content-encoding': name })
        assert.equal(small.status, 200, small.text)
      }
    })

    it('without a credential is refused before it is read', async () => {
      const text = await raw(post('sk-nobody', '').replace('Content-Length: 0', 'Content-Length: 1000000000'))
      assert.match(text, /^HTTP\/1\.1 401/)
    })

    it('in an unknown, repeated or invalid content encoding gets 415 or 400', async () => {
      for (const encoding of ['lzma', 'gzip, gzip', 'constructor'])
        refusedWith(await send('x', { 'content-encoding': encoding }), 415, 'unsupported_media_type')
      refusedWith(await send('no gzip', { 'content-encoding': 'gzip' }), 400, 'invalid_json')
    })

    it('that is too deep, not UTF-8, not JSON or ambiguous gets 400 invalid_json', async () => {
      const fine = JSON.stringify(ask(model))
      for (const bytes of [
        '',
        '['.repeat(500_000),
        `{"model":"${model}","messages":${'['.repeat(200)}${']'.repeat(200)}}`,
        Buffer.from(fine, 'utf16le'),
        Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]),
        `${fine}\0`,
        'null',
        '"text"',
        `{"model":"other",${fine.slice(1)}`,
        fine.replace('"model"', '"\\u006dodel":"other","model"'),
      ]) {
        const reply = await send(bytes)
        refusedWith(reply, 400, 'invalid_json')
      }
    })

    it('with wrong numbers or types gets a 400 that names the field', async () => {
      for (const [field, values] of Object.entries({
        n: [0, -1, 1.5, '10', 1e308, 129],
        max_tokens: [0, -1, 0.5, '10', 1e15, 1e308, 2 ** 63],
        max_completion_tokens: [0, -5, 1e308],
        stream: ['true', 1],
        messages: [{}, [], 'x', [1]],
        model: [1, {}, 'x'.repeat(300), 'a\r\nb', 'a\0b'],
      }))
        for (const value of values) {
          const reply = await send(JSON.stringify({ ...ask(model), [field]: value }))
          refusedWith(reply, 400, 'invalid_parameter')
          assert.ok(reply.body.error.param.startsWith(field), reply.text)
        }
    })

    it('whose possible cost is too large to represent gets 400', async () => {
      const dear = await relay.serve('sim-words-4', {}, { output: 10_000 })
      refusedWith(
        await send(JSON.stringify({ ...ask(dear.model), max_tokens: 1e12 })),
        400,
        'invalid_parameter',
      )
    })

    it('with prototype member names changes nothing', async () => {
      const reply = await send(
        `{"model":"${model}","messages":[{"role":"user","content":"x"}],"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}`,
      )
      assert.equal(reply.status, 200, reply.text)
      assert.equal(({} as Record<string, unknown>).polluted, undefined)
      for (const name of ['__proto__', 'constructor', 'toString', '../../x', 'a?b#c', '%2e%2e'])
        refusedWith(await send(JSON.stringify(ask(name))), 404, 'model_not_found')
    })

    it('that names hosts or keys reaches no other host', async () => {
      const { key } = await relay.newToken()
      const sentModel = 'sim-words-4-hosts'
      const served = await relay.serve(sentModel)
      const reply = await relay.chat(
        key,
        ask(served.model, {
          api_base: 'http://127.0.0.1:9',
          base_url: 'http://127.0.0.1:9',
          api_key: 'sk-x',
        }),
        { 'x-portkey-custom-host': 'http://127.0.0.1:9', 'x-forwarded-host': 'evil.example', cookie: 'a=b' },
      )
      assert.equal(reply.status, 200)
      const [providerRequest] = await relay.seen(sentModel)
      assert.equal(providerRequest?.key_hint, PROVIDER_KEY.slice(-4))
      for (const name of ['x-portkey-custom-host', 'x-forwarded-host', 'x-forwarded-for', 'cookie'])
        assert.equal(providerRequest?.headers[name], undefined)
    })
  })

  it('pipelines its requests is served in order', async () => {
    const { model } = await relay.serve('sim-words-4-slow-100')
    const { key } = await relay.newToken()
    const slow = JSON.stringify(ask(model))
    const text = await raw(post(key, slow) + post(key, '{}') + post(key, slow, 'Connection: close\r\n'))
    assert.deepEqual(text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 400', 'HTTP/1.1 200'])
  })

  describe('sends malformed HTTP', () => {
    it('with ambiguous framing gets 400 and a closed connection', async () => {
      const { key } = await relay.newToken()
      const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n`
      for (const lines of [
        'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
        'Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n',
        'Content-Length: +5\r\n\r\n{}{}{',
        'Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}{}{}',
        'Content-Length : 2\r\n\r\n{}',
        'X-A: b\r\n folded\r\nContent-Length: -1\r\n\r\n',
      ]) {
        const text = await raw(head + lines)
        assert.match(text, /^HTTP\/1\.1 400/, lines)
        assert.equal(text.match(/HTTP\/1\.1/g)?.length, 1, lines)
      }
    })

    it('with two host headers gets 400 and a closed connection', async () => {
      const { key } = await relay.newToken()
      const rawRequest = `GET /v1/models HTTP/1.1\r\nHost: x\r\nhost: y\r\nAuthorization: Bearer ${key}\r\n\r\n`
      assert.match(await raw(rawRequest), /^HTTP\/1\.1 400 /)
    })

    it('with unusual paths and methods is not served without a credential', async () => {
      for (const [method, path] of [
        ['GET', '//v1/models'],
        ['GET', '/v1/./models'],
        ['GET', '/v1//models'],
        ['GET', '/V1/models'],
        ['GET', '/%2Fv1/models'],
        ['GET', '/v1%2Fmodels'],
        ['GET', '/v1/models/%E0%A4%A'],
        ['GET', '/v1/models/..%2f..%2fapi'],
        ['POST', '//v1/chat/completions'],
        ['TRACE', '/v1/models'],
        ['PUT', '/v1/chat/completions'],
      ]) {
        const text = await raw(`${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
        assert.match(text, /^HTTP\/1\.1 (401|404|405|400) /, `${method} ${path}: ${text.slice(0, 200)}`)
      }
      const { key } = await relay.newToken()
      refusedWith(
        await relay.api('GET', '/v1/models/%E0%A4%A', undefined, { token: key }),
        404,
        'model_not_found',
      )
    })
  })
})
