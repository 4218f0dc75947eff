import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { retryingFetch } from '../support/client.ts'
import { oneEngine } from '../support/gateway.ts'
import { suiteRelay } from '../support/relay.ts'

/** How servers of different frameworks report that a path does not exist. */
const NOTHING_THERE = {
  fastapi: [404, '{"detail":"Not Found"}'],
  'llama.cpp': [404, '{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'],
  go: [404, '404 page not found\n'],
  proxy: [405, '<html><h1>405 Not Allowed</h1></html>'],
  family: [404, '{"error":{"message":"Invalid URL (POST /v1/responses)","type":"invalid_request_error"}}'],
} as const
type Kind = keyof typeof NOTHING_THERE

const ANSWER = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'small',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Chat it is.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 },
}
const EVENTS = [
  { ...ANSWER, choices: [{ index: 0, delta: { role: 'assistant', content: 'Chat it is.' } }] },
  { ...ANSWER, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
]
  .map(({ usage: _usage, ...event }) => `data: ${JSON.stringify(event)}\n\n`)
  .join('')
const NO_MODEL =
  '{"error":{"message":"The model does not exist","type":"invalid_request_error","code":"model_not_found"}}'

/** A server that supports chat completions only, and does not have the model `missing`. */
async function startChatOnly() {
  const receivedPaths: string[] = []
  const server: Server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      const [, kind = '', path = ''] = /^\/([^/]+)(\/.*)$/.exec(request.url ?? '') ?? []
      receivedPaths.push(path)
      const { model, stream } = JSON.parse(Buffer.concat(chunks).toString('utf8'))
      const isChat = path === '/v1/chat/completions'
      const [status, text] =
        model === 'missing' ? [404, NO_MODEL] : isChat ? [200, ''] : NOTHING_THERE[kind as Kind]
      const type = status === 200 && stream ? 'text/event-stream' : 'application/json'
      response.writeHead(status, { 'content-type': type })
      response.end(status !== 200 ? text : stream ? `${EVENTS}data: [DONE]\n\n` : JSON.stringify(ANSWER))
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, seen: receivedPaths, close: () => server.close() }
}

/** A vendor with one response that records the requests it receives. */
async function startVendor({ status, body }: { status: number; body: object }) {
  const receivedBodies: unknown[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      receivedBodies.push(JSON.parse(Buffer.concat(chunks).toString('utf8')))
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(body))
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, seen: receivedBodies, close: () => server.close() }
}

const CHAT = '/v1/chat/completions'
const user = (content: string) => [{ role: 'user' as const, content }]

for (const engine of oneEngine('postgres')) {
  describe(`third-party clients on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let server: Awaited<ReturnType<typeof startChatOnly>>
    let key: string
    before(async () => {
      server = await startChatOnly()
      key = (await relay.newToken({ remain_quota: 5_000_000 })).key
    })
    after(async () => {
      server.close()
    })

    const openai = (baseURL = `${relay.gateway.url}/v1`) =>
      new OpenAI({ apiKey: key, baseURL, maxRetries: 0, fetch: retryingFetch })
    const anthropic = (baseURL = relay.gateway.url, more = {}) =>
      new Anthropic({ apiKey: key, baseURL, maxRetries: 0, fetch: retryingFetch, ...more })

    describe('a server that does not support the format of the request', () => {
      const serveOn = (kind: Kind, sentModel = 'small', fields = {}) =>
        relay.serve(sentModel, { base_url: `${server.url}/${kind}`, ...fields })

      for (const kind of Object.keys(NOTHING_THERE) as Kind[])
        it(`is called in the next one (${kind}), and from then on immediately`, async () => {
          const { model } = await serveOn(kind)
          server.seen.length = 0
          const whole = await openai().responses.create({ model, input: 'Hi' })
          assert.equal(whole.output_text, 'Chat it is.')
          assert.equal(whole.usage?.output_tokens, 3)
          assert.deepEqual(server.seen, ['/v1/responses', CHAT])
          const stream = await openai().responses.create({ model, input: 'Hi', stream: true })
          let text = ''
          for await (const event of stream)
            if (event.type === 'response.output_text.delta') text += event.delta
          assert.equal(text, 'Chat it is.')
          assert.deepEqual(server.seen, ['/v1/responses', CHAT, CHAT])
        })

      it('is charged once, and the log shows both attempts', async () => {
        const { model, channels } = await serveOn('fastapi')
        const token = await relay.newToken()
        const request = { model, input: 'Hi' }
        const reply = await relay.api('POST', '/v1/responses', request, { token: token.key })
        assert.equal(reply.status, 200, reply.text)
        const row = await relay.rowOf(token.id)
        assert.equal(row.cost, 2 * 1_000 + 3 * 2_000)
        const tried = row.other.trace.attempts.map(({ channel, status }: Record<string, unknown>) => [
          channel,
          status,
        ])
        assert.deepEqual(tried, [
          [channels[0], 404],
          [channels[0], 200],
        ])
      })

      it('is tried in every format again after it was changed', async () => {
        const { model, channels } = await serveOn('fastapi')
        await openai().responses.create({ model, input: 'Hi' })
        await relay.must(relay.api('PUT', '/api/channel/', { id: channels[0], weight: 7 }))
        server.seen.length = 0
        await openai().responses.create({ model, input: 'Hi' })
        assert.deepEqual(server.seen, ['/v1/responses', CHAT])
      })

      it('is not retried if the model is missing', async () => {
        const { model } = await serveOn('fastapi', 'missing')
        server.seen.length = 0
        await assert.rejects(openai().responses.create({ model, input: 'Hi' }), OpenAI.NotFoundError)
        assert.deepEqual(server.seen, ['/v1/responses'])
      })

      it('is not retried if the request is strict about lost content', async () => {
        const { model } = await relay.serve(
          'small',
          { base_url: `${server.url}/fastapi` },
          { tools: { web_search: 0.01 } },
        )
        server.seen.length = 0
        const strict = { headers: { 'x-sluice-strict': 'true' } }
        const request = { model, input: 'Hi', tools: [{ type: 'web_search' as const }] }
        await assert.rejects(openai().responses.create(request, strict), OpenAI.NotFoundError)
        assert.deepEqual(server.seen, ['/v1/responses'])
      })
    })

    describe('usage that a provider does not report', () => {
      it('is reported to the client as the gateway counted it, streamed and not', async () => {
        const { model } = await relay.serve('sim-words-20-nousage')
        const token = await relay.newToken({ remain_quota: 5_000_000 })
        const sdk = new Anthropic({ apiKey: token.key, baseURL: relay.gateway.url, fetch: retryingFetch })
        const request = { model, max_tokens: 100, messages: user('How many words are there?') }
        const responses = [
          await sdk.messages.create(request),
          await sdk.messages.stream(request).finalMessage(),
        ]
        const rows = await relay.rowsOf(token.id, 2)
        for (const [index, { usage }] of responses.entries()) {
          assert.ok(usage.output_tokens > 0)
          const row = rows[index]
          assert.equal(row?.other.source, 'counted')
          assert.deepEqual(
            [usage.input_tokens, usage.output_tokens],
            [row?.prompt_tokens, row?.completion_tokens],
          )
        }
      })
    })

    describe('a thread of Anthropic’s API', () => {
      const native = () =>
        relay.serve('sim-claude-opus-4-5', { type: 14, base_url: `${relay.upstream}/anthropic` })

      for (const [name, serve] of [
        ['the vendor itself', native],
        ['another vendor', () => relay.serve('sim-small', { setting: { chat_formats: ['responses'] } })],
      ] as const)
        it(`is created and reported as lost with ${name}, so that a tool loop sends its full history`, async () => {
          const { model } = await serve()
          const threads: unknown[] = []
          const sdk = anthropic(relay.gateway.url, {
            fetch: (url: string, init: RequestInit) => {
              threads.push(JSON.parse(String(init.body)).thread?.type)
              return retryingFetch(url, init)
            },
          })
          let calls = 0
          const last = await sdk.beta.messages.toolRunner({
            model,
            max_tokens: 500,
            messages: user('Use get_weather'),
            tools: [
              {
                type: 'custom',
                name: 'get_weather',
                description: 'The weather of a city',
                input_schema: {
                  type: 'object',
                  properties: { city: { type: 'string' } },
                  required: ['city'],
                },
                parse: (input: unknown) => input,
                run: () => `sunny ${++calls}`,
              },
            ],
          })
          const [block] = last.content
          assert.match(block?.type === 'text' ? block.text : '', /sunny 1/)
          assert.deepEqual(threads, ['create', 'continue', 'create'])
        })

      it('is not sent to the vendor', async () => {
        const vendor = await startVendor({
          status: 400,
          body: { type: 'error', error: { type: 'invalid_request_error', message: 'seen' } },
        })
        const { model } = await relay.serve('claude', { type: 14, base_url: vendor.url })
        const request = { model, max_tokens: 9, thread: { type: 'create' }, messages: user('Hi') }
        await relay.api('POST', '/v1/messages', request, { token: key })
        vendor.close()
        assert.deepEqual(vendor.seen, [{ model: 'claude', max_tokens: 9, messages: user('Hi') }])
      })

      it('that the client continues is reported as lost, with the error that SDKs expect', async () => {
        const { model } = await native()
        const thread = { type: 'continue', previous_message_id: 'msg_1' }
        const request = { model, max_tokens: 9, thread, messages: user('Hi') }
        const { status, body } = await relay.api('POST', '/v1/messages', request, { token: key })
        assert.equal(status, 404)
        assert.equal(body.error.type, 'not_found_error')
        assert.deepEqual(body.error.details, { error_code: 'thread_not_found' })
      })
    })

    describe('the output format of Anthropic’s beta', () => {
      const schema = {
        type: 'object',
        properties: { city: { type: 'string' }, size: { type: 'integer' } },
        required: ['city', 'size'],
        additionalProperties: false,
      }
      for (const [name, serve] of [
        [
          'the vendor itself',
          () => relay.serve('sim-claude', { type: 14, base_url: `${relay.upstream}/anthropic` }),
        ],
        ['another vendor', () => relay.serve('sim-small')],
        ['Gemini', () => relay.serve('sim-small', { type: 24 })],
      ] as const)
        it(`is followed by ${name}, streamed and not`, async () => {
          const { model } = await serve()
          const request = {
            model,
            max_tokens: 300,
            messages: user('Which city?'),
            output_format: { type: 'json_schema', schema },
          }
          const headers = { 'anthropic-beta': 'structured-outputs-2025-11-13' }
          const responses = [
            await anthropic().messages.create(request, { headers }),
            await anthropic().messages.stream(request, { headers }).finalMessage(),
          ]
          for (const { content } of responses) {
            const [block] = content
            assert.deepEqual(Object.keys(JSON.parse(block?.type === 'text' ? block.text : '')), [
              'city',
              'size',
            ])
          }
        })
    })

    describe('a request that only fills the vendor’s cache', () => {
      const requestOf = (model: string) => ({ model, max_tokens: 0, messages: user('A long document') })

      it('is forwarded and charged for the cache write', async () => {
        const usage = { input_tokens: 3, cache_creation_input_tokens: 100, output_tokens: 0 }
        const body = { id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', content: [], usage }
        const vendor = await startVendor({ status: 200, body: { ...body, stop_reason: 'max_tokens' } })
        const { model } = await relay.serve('claude', { type: 14, base_url: vendor.url })
        const token = await relay.newToken()
        const sdk = new Anthropic({ apiKey: token.key, baseURL: relay.gateway.url, fetch: retryingFetch })
        assert.deepEqual((await sdk.messages.create(requestOf(model))).content, [])
        vendor.close()
        assert.deepEqual(vendor.seen, [{ ...requestOf(model), model: 'claude' }])
        const row = await relay.rowOf(token.id)
        assert.deepEqual([row.prompt_tokens, row.completion_tokens], [103, 0])
      })

      it('is rejected if there is no such cache', async () => {
        const { model } = await relay.serve('sim-small')
        const { status, body } = await relay.api('POST', '/v1/messages', requestOf(model), { token: key })
        assert.equal(status, 400)
        assert.match(body.error.message, /^max_tokens /)
      })
    })

    describe('a path', () => {
      it('may contain the version or omit it, whichever side adds it', async () => {
        const { model } = await relay.serve('sim-small')
        const { url } = relay.gateway
        const messages = user('Hi')
        for (const base of [url, `${url}/v1`, `${url}/v1/v1`]) {
          const chat = await openai(base).chat.completions.create({ model, messages })
          assert.ok(chat.choices[0]?.message.content, base)
          const ids: string[] = []
          for await (const { id } of openai(base).models.list()) ids.push(id)
          assert.ok(ids.includes(model), base)
        }
        for (const base of [url, `${url}/v1`])
          assert.ok(
            (await anthropic(base).messages.create({ model, max_tokens: 9, messages })).content.length,
          )
        for (const [baseUrl, apiVersion] of [
          [url, 'v1'],
          [url, 'v1alpha'],
          [`${url}/v1`, 'v1beta'],
          [`${url}/v1beta`, 'v1beta'],
        ] as const) {
          const google = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl, apiVersion } })
          assert.ok((await google.models.generateContent({ model, contents: 'Hi' })).text, baseUrl)
        }
      })

      it('without the version is still a console page to a browser, and a 404 to other clients', async () => {
        const { url } = relay.gateway
        const page = await fetch(`${url}/models`, { headers: { accept: 'text/html' } })
        assert.match(page.headers.get('content-type') ?? '', /text\/html/)
        const other = await relay.api('POST', '/nowhere', {}, { token: key })
        assert.deepEqual([other.status, other.body.code], [404, 'not_found'])
        const inner = await relay.api('POST', '/v1/v1/nowhere', {}, { token: key })
        assert.deepEqual([inner.status, inner.body.error.code], [404, 'not_found'])
      })
    })

    describe('a response that was translated to Anthropic’s format', () => {
      it('omits citations if there are none, as the vendor does', async () => {
        const { model } = await relay.serve('sim-small')
        const request = { model, max_tokens: 50, messages: user('Hi') }
        const { body } = await relay.api('POST', '/v1/messages', request, { token: key })
        assert.deepEqual(Object.keys(body.content[0]), ['type', 'text'])
      })

      it('names the requested model, so that the client sends its reasoning back', async () => {
        const { model } = await relay.serve('sim-small')
        const request = { model, max_tokens: 50, messages: user('Hi') }
        assert.equal((await anthropic().messages.create(request)).model, model)
        assert.equal((await anthropic().messages.stream(request).finalMessage()).model, model)
      })
    })

    it('the tokens of a Responses request are counted without calling a provider', async () => {
      const { model } = await relay.serve('sim-status-500')
      const tokenCount = await openai().responses.inputTokens.count({ model, input: 'How many are these?' })
      assert.equal(tokenCount.object, 'response.input_tokens')
      assert.ok(tokenCount.input_tokens > 2 && tokenCount.input_tokens < 20, String(tokenCount.input_tokens))
    })

    it('an invalid key is reported with the code that clients expect', async () => {
      const { status, body } = await relay.api('GET', '/v1/models', undefined, { token: 'sk-wrong' })
      assert.equal(status, 401)
      assert.match(body.error.message, /^Incorrect API key provided: /)
    })

    it('a web page of any origin may read the remaining quota of a token', async () => {
      for (const path of ['/api/usage/token/', '/api/log/token', '/v1/dashboard/billing/subscription']) {
        const preflightHeaders = {
          origin: 'https://app.example',
          'access-control-request-headers': 'authorization',
        }
        const first = await fetch(`${relay.gateway.url}${path}`, {
          method: 'OPTIONS',
          headers: preflightHeaders,
        })
        assert.equal(first.status, 204, path)
        assert.equal(first.headers.get('access-control-allow-headers'), 'authorization', path)
        for (const token of [key, 'sk-wrong']) {
          const { headers } = await relay.api('GET', path, undefined, { token })
          assert.equal(headers.get('access-control-allow-origin'), '*', path)
        }
      }
      const other = await relay.api('GET', '/api/user/self')
      assert.equal(other.headers.get('access-control-allow-origin'), null)
    })
  })
}
