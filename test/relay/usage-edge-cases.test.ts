import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { countTokens } from '../../simulator/tokens.ts'
import { readRetryAfter } from '../../src/relay/upstream/failure.ts'
import { retryingFetch } from '../support/client.ts'
import { oneEngine } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { INPUT_NANOS, OUTPUT_NANOS, openRelay, suiteRelay } from '../support/relay.ts'

type Script = (response: ServerResponse, request: IncomingMessage, body: Record<string, unknown>) => unknown

/** A provider that a test scripts, for behaviour that the simulator does not have. */
async function openProvider() {
  let script: Script = response => response.end()
  const server = createServer((request, response) => {
    json(request).then(body => script(response, request, body as Record<string, unknown>))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    does: (next: Script) => {
      script = next
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

const TEXT = 'The quick brown fox jumps over the lazy dog. '.repeat(20)
const TEXT_TOKENS = countTokens(TEXT)
const OPENAI = 1
const ANTHROPIC = 14
const GEMINI = 24
const SSE = { 'content-type': 'text/event-stream' }
const encodeNamedEvent = (event: { readonly type: string }) =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
const plain = (event: object) => `data: ${JSON.stringify(event)}\n\n`
const delta = (content: string, more: object = {}) =>
  plain({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content } }], ...more })
const finish = plain({
  id: 'c',
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
})

/** Both report the prompt tokens at the start, and no output tokens yet. */
const BEGINNINGS = [
  {
    name: 'an Anthropic message',
    type: ANTHROPIC,
    begin:
      encodeNamedEvent({
        type: 'message_start',
        message: {
          id: 'msg_1',
          type: 'message',
          role: 'assistant',
          model: 'm',
          content: [],
          stop_reason: null,
          usage: { input_tokens: 100, output_tokens: 1 },
        },
      } as { type: string }) +
      encodeNamedEvent({
        type: 'content_block_start',
        index: 0,
        content_block: { type: 'text', text: '' },
      } as {
        type: string
      }),
    text: encodeNamedEvent({
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text: TEXT },
    } as {
      type: string
    }),
  },
  {
    name: 'a chat with its usage first',
    type: OPENAI,
    begin: delta('', { usage: { prompt_tokens: 100, completion_tokens: 0, total_tokens: 100 } }),
    text: delta(TEXT),
  },
] as const

for (const engine of oneEngine('sqlite'))
  describe(`a stream whose usage is reported too early, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let provider: Awaited<ReturnType<typeof openProvider>>
    before(async () => {
      provider = await openProvider()
    })
    after(async () => {
      provider.close()
    })

    async function open(type: number) {
      const { model } = await relay.serve('m', { type, base_url: provider.url })
      const token = await relay.newToken()
      const leaving = new AbortController()
      const response = await retryingFetch(`${relay.gateway.url}/v1/chat/completions`, {
        method: 'POST',
        signal: leaving.signal,
        headers: { authorization: `Bearer ${token.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'hello' }] }),
      })
      assert.equal(response.status, 200)
      return { response, leaving, token }
    }

    async function isPaidInFull(tokenId: number) {
      const row = await relay.rowOf(tokenId)
      assert.equal(row.prompt_tokens, 100)
      assert.equal(row.completion_tokens, TEXT_TOKENS)
      assert.equal(row.cost, 100 * INPUT_NANOS + TEXT_TOKENS * OUTPUT_NANOS)
      assert.equal(row.other.source, 'counted')
    }

    for (const { name, type, begin, text } of BEGINNINGS) {
      it(`as in ${name}, is charged for the delivered output if the provider breaks off`, async () => {
        provider.does(async response => {
          response.writeHead(200, SSE).write(begin)
          response.write(text)
          await delay(50)
          response.destroy()
        })
        const { response, token } = await open(type)
        assert.match(await response.text(), /upstream_error/)
        await isPaidInFull(token.id)
      })

      it(`as in ${name}, is charged for the generated output if the client disconnects`, async () => {
        provider.does(response => {
          response.writeHead(200, SSE).write(begin)
          response.write(text)
        })
        const { response, leaving, token } = await open(type)
        let receivedText = ''
        for await (const chunk of response.body ?? []) {
          receivedText += Buffer.from(chunk).toString()
          if (receivedText.includes(TEXT)) break
        }
        leaving.abort()
        await isPaidInFull(token.id)
      })
    }

    it('and not again is charged by a token count of the whole response', async () => {
      provider.does(response => {
        response.writeHead(200, SSE)
        response.end(`${BEGINNINGS[1].begin}${BEGINNINGS[1].text}${finish}data: [DONE]\n\n`)
      })
      const { response, token } = await open(OPENAI)
      assert.match(await response.text(), /\[DONE\]/)
      await isPaidInFull(token.id)
    })

    it('and again at the end is charged by the last report', async () => {
      provider.does(response => {
        response.writeHead(200, SSE)
        const last = delta('', { usage: { prompt_tokens: 90, completion_tokens: 7, total_tokens: 97 } })
        response.end(`${BEGINNINGS[1].begin}${BEGINNINGS[1].text}${last}${finish}data: [DONE]\n\n`)
      })
      const { response, token } = await open(OPENAI)
      await response.text()
      const row = await relay.rowOf(token.id)
      assert.deepEqual([row.prompt_tokens, row.completion_tokens], [90, 7])
      assert.equal(row.other.source, 'provider')
    })

    it('keeps a ledger that verifies', async () => {
      const { body } = await relay.api('GET', '/api/ledger/verify')
      assert.equal(body.data.ok, true, JSON.stringify(body.data))
    })
  })

for (const engine of oneEngine('postgres'))
  describe(`the routing explanation of a request, on ${engine}`, () => {
    const relay = suiteRelay(engine)

    it('excludes channels that would not receive the request because a price is missing', async () => {
      const models = ['case-unpriced']
      const common = { models, type: OPENAI, priority: 9 }
      const free = await relay.addChannel({ ...common, model_mapping: { [models[0] ?? '']: 'sim-words-4' } })
      const priced = await relay.serve('sim-words-4')
      const sold = await relay.addChannel({
        ...common,
        priority: 1,
        model_mapping: { [models[0] ?? '']: priced.model },
      })
      const { data } = (await relay.api('POST', '/api/route/explain', { model: models[0] })).body
      assert.deepEqual(
        data.steps.map((step: { channel_id: number }) => step.channel_id),
        [sold],
      )
      assert.deepEqual(
        data.passed_over.map((each: { channel_id: number; reason: string }) => [
          each.channel_id,
          each.reason,
        ]),
        [[free, 'unpriced']],
      )
    })

    it('is available for every operation of a channel', async () => {
      const planOf = async (model: string, operation: string) => {
        const { data } = (await relay.api('POST', '/api/route/explain', { model, operation })).body
        const [step] = data.steps
        return step?.channel_id ?? data.passed_over[0].reason
      }
      const able = await relay.serve('sim-words-4', { type: OPENAI })
      const unable = await relay.serve('sim-words-4', { type: ANTHROPIC })
      assert.equal(await planOf(able.model, 'speech'), able.channels[0])
      assert.equal(await planOf(unable.model, 'speech'), 'not_offered')
    })
  })

for (const engine of oneEngine('sqlite'))
  describe(`a stream that ends with a usage report of zeros, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    const zeros = plain({ choices: [], usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 } })
    const body = { stream: true, max_tokens: 100, messages: [{ role: 'user', content: 'hello' }] }

    for (const path of ['/v1/chat/completions', '/v1/messages'])
      it(`is charged by the report before it at ${path}`, async () => {
        const provider = await openProvider()
        const usage = { prompt_tokens: 100, completion_tokens: 50, total_tokens: 150 }
        provider.does(response => {
          const reports = `${plain({ choices: [], usage })}${zeros}`
          response.writeHead(200, SSE).end(`${delta('hi')}${finish}${reports}data: [DONE]\n\n`)
        })
        const { model } = await relay.serve('m', { base_url: provider.url })
        const token = await relay.newToken()
        const reply = await relay.api('POST', path, { model, ...body }, { token: token.key })
        provider.close()
        assert.equal(reply.status, 200, reply.text)
        const row = await relay.rowOf(token.id)
        assert.deepEqual([row.prompt_tokens, row.completion_tokens, row.other.source], [100, 50, 'provider'])
        assert.equal(row.cost, 100 * INPUT_NANOS + 50 * OUTPUT_NANOS)
      })
  })

for (const engine of oneEngine('sqlite'))
  describe(`a request that a provider gets as several, one of which fails, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    const inlineData = { mimeType: 'image/png', data: 'iVBORw0KGgoAAAAN' }
    const image = {
      candidates: [{ content: { parts: [{ inlineData }] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 1_290, totalTokenCount: 1_300 },
    }

    /** Four images, of which the last one fails with this status. */
    async function draw(status: number, answersOthers: boolean) {
      const provider = await openProvider()
      let bodies = 0
      provider.does(async response => {
        const isLast = ++bodies === 4
        if (!isLast && !answersOthers) return
        if (isLast) await delay(100)
        response.writeHead(isLast ? status : 200, { 'content-type': 'application/json' })
        response.end(JSON.stringify(isLast ? { error: { code: status, message: 'no' } } : image))
      })
      const { model } = await relay.serve('gemini-2.5-flash-image', { type: GEMINI, base_url: provider.url })
      const token = await relay.newToken({ unlimited_quota: true })
      const body = { model, prompt: 'a cat', n: 4 }
      const reply = await relay.api('POST', '/v1/images/generations', body, { token: token.key })
      const row = await relay.rowOf(token.id)
      provider.close()
      assert.equal(row.cost, 0)
      return { reply, suspense: await relay.suspenseOf(token.id) }
    }

    for (const status of [400, 429])
      for (const answers of [true, false])
        it(`with ${status} while the others are ${answers ? 'answered' : 'in flight'}, is in suspense`, async () => {
          const { reply, suspense } = await draw(status, answers)
          assert.equal(reply.status, status, reply.text)
          const [entry, ...others] = suspense
          assert.deepEqual([entry?.reason, others], [`status ${status}`, []])
          assert.ok(Number(entry?.amount) > 0)
        })
  })

for (const engine of oneEngine('sqlite'))
  describe(`a legacy completion on ${engine}`, () => {
    const relay = suiteRelay(engine)

    it('without a limit is held for the longest output of its model (docs/reference/money.md: Output bound)', async () => {
      const { model } = await relay.serve('sim-words-4')
      const poor = await relay.newToken({ remain_quota: relay.units(900 * OUTPUT_NANOS) })
      const ask = (more: object) =>
        relay.api('POST', '/v1/completions', { model, prompt: 'Once', ...more }, { token: poor.key })
      const refused = await ask({})
      assert.deepEqual([refused.status, refused.body.error.code], [429, 'insufficient_quota'])
      assert.equal((await ask({ max_tokens: 16 })).status, 200)
    })

    it('may request zero output tokens, as clients that score a text do', async () => {
      const provider = await openProvider()
      const usage = { prompt_tokens: 4, completion_tokens: 0, total_tokens: 4 }
      provider.does(response => {
        response.writeHead(200, { 'content-type': 'application/json' })
        response.end(
          JSON.stringify({ choices: [{ index: 0, text: 'Once', finish_reason: 'length' }], usage }),
        )
      })
      const { model } = await relay.serve('m', { base_url: provider.url })
      const token = await relay.newToken()
      const body = { model, prompt: 'Once upon a time', max_tokens: 0, echo: true, logprobs: 5 }
      const reply = await relay.api('POST', '/v1/completions', body, { token: token.key })
      provider.close()
      assert.equal(reply.status, 200, reply.text)
      assert.equal((await relay.rowOf(token.id)).cost, 4 * INPUT_NANOS)
    })

    it('is served beside the billing paths, where an unknown path gets 404 not_found', async () => {
      const { key } = await relay.newToken()
      const reply = await relay.api('GET', '/v1/dashboard/billing/credit_grants', undefined, { token: key })
      assert.deepEqual([reply.status, reply.body.error?.code], [404, 'not_found'])
    })
  })

for (const engine of oneEngine('postgres'))
  describe(`a host that rejects the request for stream usage, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let provider: Awaited<ReturnType<typeof openProvider>>
    const receivedBodies: Record<string, unknown>[] = []
    before(async () => {
      provider = await openProvider()
      provider.does((response, _request, body) => {
        receivedBodies.push(body)
        if (body.stream_options === undefined) {
          response.writeHead(200, SSE).end(`${delta(TEXT)}${finish}data: [DONE]\n\n`)
          return
        }
        const message = 'Unrecognized request argument supplied: stream_options'
        response.writeHead(400, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ error: { message, type: 'invalid_request_error' } }))
      })
    })
    after(async () => {
      provider.close()
    })
    const stream = { stream: true, messages: [{ role: 'user', content: 'hello' }] }

    it('is called without it, immediately from then on, and the response is counted by the gateway', async () => {
      const { model } = await relay.serve('m', { base_url: provider.url })
      const token = await relay.newToken()
      for (let i = 0; i < 2; i++) {
        const reply = await relay.chat(token.key, { model, ...stream })
        assert.equal(reply.status, 200, reply.text)
        assert.match(reply.text, /\[DONE\]/)
      }
      assert.deepEqual(
        receivedBodies.splice(0).map(body => 'stream_options' in body),
        [true, false, false],
      )
      const [first, second] = await relay.rowsOf(token.id, 2)
      for (const row of [first, second])
        assert.deepEqual([row?.completion_tokens, row?.other.source], [TEXT_TOKENS, 'counted'])
      assert.deepEqual(
        first?.other.trace.attempts.map((attempt: { status: unknown }) => attempt.status),
        [400, 200],
      )
    })

    it('has its rejection forwarded to a client that requests it itself', async () => {
      const { model } = await relay.serve('m', { base_url: provider.url })
      const { key } = await relay.newToken()
      const reply = await relay.chat(key, { model, ...stream, stream_options: { include_usage: true } })
      assert.equal(reply.status, 400)
      assert.match(reply.body.error.message, /stream_options/)
    })
  })

for (const engine of oneEngine('sqlite'))
  describe(`a provider that keeps its response open after the last event, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let provider: Awaited<ReturnType<typeof openProvider>>
    before(async () => {
      provider = await openProvider()
    })
    after(async () => {
      provider.close()
    })

    const usage = delta('', { usage: { prompt_tokens: 9, completion_tokens: 7, total_tokens: 16 } })
    const failure = plain({ error: { message: 'overloaded', type: 'server_error', code: 'x' } })
    for (const [what, last, expected] of [
      ['its end', `${usage}${finish}data: [DONE]\n\n`, /\[DONE\]/],
      ['its error', `${usage}${failure}`, /overloaded/],
    ] as const)
      it(`is not waited for: the client receives ${what}, and the ledger is written`, async () => {
        const closed = Promise.withResolvers<void>()
        provider.does(response => {
          response.on('close', closed.resolve)
          response.writeHead(200, SSE).write(`${delta('hi')}${last}`)
        })
        const { model } = await relay.serve('m', { base_url: provider.url })
        const token = await relay.newToken()
        const body = { model, stream: true, messages: [{ role: 'user', content: 'hello' }] }
        const reply = await relay.chat(token.key, body)
        assert.match(reply.text, expected)
        await closed.promise
        const row = await relay.rowOf(token.id)
        assert.deepEqual([row.prompt_tokens, row.completion_tokens], [9, 7])
      })

    it('passes its channel test', async () => {
      const closed = Promise.withResolvers<void>()
      provider.does(response => {
        response.on('close', closed.resolve)
        response.writeHead(200, SSE).write(`${delta('hi')}${finish}data: [DONE]\n\n`)
      })
      const { channels } = await relay.serve('m', { base_url: provider.url })
      const reply = await relay.api('GET', `/api/channel/test/${channels[0]}?stream=true`)
      assert.equal(reply.body.success, true, reply.text)
      await closed.promise
    })
  })

for (const engine of oneEngine('postgres'))
  describe(`a client that disconnects before the response, on ${engine}`, () => {
    it('has the tokens that it pays for counted in its rate limits too', async () => {
      const relay = await openRelay(engine)
      const provider = await openProvider()
      const arrived = Promise.withResolvers<void>()
      provider.does(() => arrived.resolve())
      const { model } = await relay.serve('m', { base_url: provider.url })
      const token = await relay.newToken({ limits: { tpm: 5 } })
      const body = { model, messages: [{ role: 'user', content: 'How are you today, my old friend?' }] }
      const leaving = new AbortController()
      const pendingResponse = retryingFetch(`${relay.gateway.url}/v1/chat/completions`, {
        method: 'POST',
        signal: leaving.signal,
        headers: { authorization: `Bearer ${token.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      await arrived.promise
      leaving.abort()
      await assert.rejects(pendingResponse)
      const row = await relay.rowOf(token.id)
      assert.ok(row.prompt_tokens > 5)
      const next = await relay.chat(token.key, body)
      assert.deepEqual([next.status, next.body.error.code], [429, 'rate_limit_exceeded'])
      provider.close()
      await relay.gateway.close()
    })
  })

describe('a provider with many responses in progress', () => {
  const REQUESTS = 600

  it('still receives the next request', async () => {
    const relay = await openRelay('sqlite')
    const provider = await openProvider()
    const open: ServerResponse[] = []
    provider.does(response => {
      open.push(response)
    })
    const { model } = await relay.serve('m', { base_url: provider.url })
    const { key } = await relay.newToken({ unlimited_quota: true })
    const body = { model, messages: [{ role: 'user', content: 'hello' }] }
    const pendingReplies = Promise.all(Array.from({ length: REQUESTS }, () => relay.chat(key, body)))
    await until('every request to reach the provider', () => open.length === REQUESTS || undefined)
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    const message = { role: 'assistant', content: 'hi' }
    for (const response of open)
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage }))
    assert.deepEqual(new Set((await pendingReplies).map(({ status }) => status)), new Set([200]))
    provider.close()
    await relay.gateway.close()
  })
})

describe('the retry delay that a provider sends', () => {
  const NOW_MS = Date.UTC(2026, 10, 15, 12)
  const soon = new Date(NOW_MS + 20_000)
  for (const [header, seconds] of [
    ['7', 7],
    ['1.5', 2],
    ['3600', 300],
    [soon.toUTCString(), 20],
    [soon.toISOString(), 20],
    ['Sunday, 15-Nov-26 12:00:20 GMT', 20],
    [new Date(NOW_MS - 20_000).toUTCString(), 0],
    ['-5', undefined],
    ['5, 10', undefined],
    ['in 5', undefined],
    ['1e3', undefined],
  ] as const)
    it(`is ${seconds ?? 'not known'} if the header is "${header}"`, () => {
      assert.equal(readRetryAfter(header, NOW_MS), seconds)
    })
})
