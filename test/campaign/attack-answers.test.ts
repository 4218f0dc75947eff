import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { retryingFetch } from '../support/client.ts'
import { type HostileAnswer, hostileAnswer } from '../support/hostile-answers.ts'
import {
  newGround,
  type Server,
  type ServerOptions,
  startServer,
  verifyThroughSocket,
} from '../support/process.ts'
import { fc } from '../support/properties.ts'
import { createResources } from '../support/relay.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const ANSWERS = isCampaign ? 2_000 : 60
const SEED = 20_261_116
const MOST_GROWTH_MIB = 500

const sse = (...events: readonly unknown[]) =>
  events.map(event => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`)

/** The response of a channel of each type, non-streamed and streamed. */
const VENDORS = {
  openai: {
    type: 1,
    whole: JSON.stringify({
      id: 'x',
      object: 'chat.completion',
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'hello' } }],
      usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 },
    }),
    events: sse(
      { id: 'x', choices: [{ index: 0, delta: { content: 'hello' } }] },
      {
        id: 'x',
        choices: [
          {
            index: 0,
            delta: { tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: '{"a":' } }] },
          },
        ],
      },
      { id: 'x', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
      { id: 'x', choices: [], usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 } },
      '[DONE]',
    ),
  },
  anthropic: {
    type: 14,
    whole: JSON.stringify({
      id: 'x',
      type: 'message',
      role: 'assistant',
      model: 'm',
      content: [
        { type: 'text', text: 'hello' },
        { type: 'tool_use', id: 'c', name: 'f', input: { a: 1 } },
      ],
      stop_reason: 'end_turn',
      usage: { input_tokens: 3, output_tokens: 5 },
    }),
    events: sse(
      {
        type: 'message_start',
        message: {
          id: 'x',
          role: 'assistant',
          model: 'm',
          content: [],
          usage: { input_tokens: 3, output_tokens: 1 },
        },
      },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'hello' } },
      {
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'tool_use', id: 'c', name: 'f', input: {} },
      },
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{"a":' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } },
      { type: 'message_stop' },
    ),
  },
  gemini: {
    type: 24,
    whole: JSON.stringify({
      candidates: [{ content: { role: 'model', parts: [{ text: 'hello' }] }, finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 5, totalTokenCount: 8 },
    }),
    events: sse(
      { candidates: [{ content: { role: 'model', parts: [{ text: 'hello' }] } }] },
      {
        candidates: [
          { content: { role: 'model', parts: [{ functionCall: { name: 'f', args: { a: 1 } } }] } },
        ],
      },
      {
        candidates: [{ finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 5 },
      },
    ),
  },
} as const

type Vendor = keyof typeof VENDORS

/**
 * Clients of each format: how they send requests, and how they recognize that a stream has ended or failed.
 */
const CLIENTS = {
  chat: {
    path: (_model: string, _isStream: boolean) => '/v1/chat/completions',
    body: (model: string, content: string, stream: boolean) => ({
      model,
      stream,
      max_tokens: 50,
      messages: [{ role: 'user', content }],
    }),
    isEnded: (text: string) => text.includes('[DONE]') || text.includes('"error"'),
  },
  messages: {
    path: () => '/v1/messages',
    body: (model: string, content: string, stream: boolean) => ({
      model,
      stream,
      max_tokens: 50,
      messages: [{ role: 'user', content }],
    }),
    // Some hosts omit the last event: a finish reason also ends a response.
    isEnded: (text: string) => /message_stop|"stop_reason":"|error/.test(text),
  },
  responses: {
    path: () => '/v1/responses',
    body: (model: string, content: string, stream: boolean) => ({
      model,
      stream,
      max_output_tokens: 50,
      input: content,
    }),
    isEnded: (text: string) => /response\.(completed|failed|incomplete)|error/.test(text),
  },
  gemini: {
    path: (model: string, isStream: boolean) =>
      `/v1beta/models/${model}:${isStream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    body: (_model: string, text: string) => ({
      contents: [{ role: 'user', parts: [{ text }] }],
      generationConfig: { maxOutputTokens: 50 },
    }),
    isEnded: (text: string) => text !== '',
  },
} as const

type Client = keyof typeof CLIENTS

const OUTCOMES = new Set([200, 201, 400, 502, 504])

const residentMib = (pid: number) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024

/**
 * A provider that sends the response of the case whose number is in the prompt, and a valid response to
 * everything else.
 */
async function startProvider() {
  const cases = new Map<string, HostileAnswer>()
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const requestBody = Buffer.concat(chunks).toString()
    const hostile = cases.get(/case-\d+/.exec(requestBody)?.[0] ?? '')
    const vendor = /\/v1beta\//.test(request.url ?? '')
      ? 'gemini'
      : request.url?.includes('messages')
        ? 'anthropic'
        : 'openai'
    if (!hostile) {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(VENDORS[vendor].whole)
      return
    }
    response.writeHead(hostile.status, { 'content-type': hostile.type })
    for (const piece of hostile.pieces) response.write(piece)
    if (hostile.isCut) response.destroy()
    else response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cases,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

describe(`${ANSWERS} hostile responses`, () => {
  let server: Server
  let ground: ServerOptions
  let provider: Awaited<ReturnType<typeof startProvider>>
  let key: string
  const models = new Map<Vendor, string>()

  before(async () => {
    provider = await startProvider()
    ground = await newGround('sqlite')
    server = await startServer({ ...ground, isMeasured: true })
    const resources = createResources(server.api, provider.url)
    for (const [vendor, { type }] of Object.entries(VENDORS))
      models.set(vendor as Vendor, (await resources.serve(`sent-${vendor}`, { type })).model)
    key = (await resources.newToken({ unlimited_quota: true })).key
  })
  after(async () => {
    provider.close()
    await server.kill()
  })

  async function ask(client: Client, vendor: Vendor, content: string, isStream: boolean) {
    const model = models.get(vendor) ?? ''
    const { path, body } = CLIENTS[client]
    const response = await retryingFetch(`${server.url}${path(model, isStream)}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body(model, content, isStream)),
    })
    return { status: response.status, text: await response.text() }
  }

  /** Sends a case of this vendor, and then a valid request, which is served. */
  async function tryCase(index: number, vendor: Vendor, answer: HostileAnswer): Promise<void> {
    const clients = Object.keys(CLIENTS) as Client[]
    const client = clients[index % clients.length] as Client
    const isStream = isStreamed(index)
    const name = `case-${index}`
    provider.cases.set(name, answer)
    const { status, text } = await ask(client, vendor, `${name} please`, isStream)
    const summary = `${name} ${client} of ${vendor}, ${isStream ? 'streamed' : 'whole'}: ${status} ${text.slice(0, 200)}`
    assert.ok(OUTCOMES.has(status), summary)
    if (status >= 400 || !isStream) assert.doesNotThrow(() => JSON.parse(text), summary)
    else assert.ok(CLIENTS[client].isEnded(text), `${summary} … ${text.slice(-200)}`)
    provider.cases.delete(name)
    const plain = await ask('chat', vendor, 'a plain question', false)
    assert.equal(plain.status, 200, `after ${summary}: ${plain.text}`)
  }

  const isStreamed = (index: number) => Math.floor(index / 4) % 2 === 0

  it('give every client an outcome that it understands, and other requests are served', async () => {
    const before = residentMib(server.pid)
    const vendors = Object.keys(VENDORS) as Vendor[]
    await Promise.all(
      vendors.map(async (vendor, lane) => {
        const count = Math.ceil(ANSWERS / vendors.length)
        const samples = [true, false].map(isStream =>
          fc.sample(hostileAnswer(VENDORS[vendor], isStream), { seed: SEED + lane, numRuns: count }),
        )
        for (let turn = 0; turn < count; turn++) {
          const index = turn * vendors.length + lane
          const answer = samples[isStreamed(index) ? 0 : 1]?.[turn]
          if (answer) await tryCase(index, vendor, answer)
        }
      }),
    )
    const grown = residentMib(server.pid) - before
    assert.ok(grown < MOST_GROWTH_MIB, `${grown} MiB more`)
  })

  it('leave an exact ledger, with nothing held', async () => {
    const { ok, lines } = await verifyThroughSocket(ground)
    assert.ok(ok, lines.join('\n'))
    const { body } = await server.api('GET', '/api/user/self')
    assert.equal(body.data.held_quota ?? 0, 0)
  })
})
