import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { createScrub, secretsOfFields, secretsOfHeaders, secretsOfKey } from '../../../src/domain/scrub.ts'
import { runBounded } from '../../support/bounded-work.ts'
import { type ScriptedServer, startScriptedServer } from '../../support/hostile-provider.ts'
import { openVideos, type VideoRelay } from '../../support/videos.ts'

/** Characters of a text that takes hours if it is searched in quadratic time. */
const LONG = 1_048_576

const SECRET = 'corp "gateway" & pass/word+8841'
const KEY = 'provider-key-of-the-corp-7745'
const PASSWORD = 'basic-canary-5521'
const BASIC = Buffer.from(`user:${PASSWORD}`).toString('base64')
const HEADERS = {
  'x-secret-token': SECRET,
  'x-corp-auth': `Basic ${BASIC}`,
  'x-mixed': 'canary-before-9917-{client_header:x-tenant}',
  authorization: 'Bearer {api_key}',
}

/** Everything that the provider received and must not return, in the encodings in which it may return. */
const SPELLINGS = [
  SECRET,
  encodeURIComponent(SECRET),
  JSON.stringify(SECRET).slice(1, -1),
  Buffer.from(SECRET).toString('base64'),
  BASIC,
  `user:${PASSWORD}`,
  'canary-before-9917-',
  KEY,
]

const filesIn = (folder: string): string[] =>
  readdirSync(folder).flatMap(name => {
    const path = join(folder, name)
    return statSync(path).isDirectory() ? filesIn(path) : statSync(path).isFile() ? [path] : []
  })

describe('a provider that returns the secrets it was sent', () => {
  let relay: VideoRelay
  let provider: ScriptedServer
  let answer: (response: ServerResponse, url: string) => void = response => response.end()
  const sendJson = (response: ServerResponse, status: number, body: unknown, headers = {}) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(JSON.stringify(body))
  }
  before(async () => {
    relay = await openVideos('sqlite')
    provider = await startScriptedServer(({ url = '' }, response) => answer(response, url))
  })
  after(async () => {
    await relay.gateway.close()
    await provider.close()
  })

  const channel = () => ({ base_url: provider.url, key: KEY, header_override: HEADERS })

  function mustBeClean(text: string, what: string): void {
    for (const spelling of SPELLINGS) {
      assert.ok(!text.includes(spelling), `${what} has ${spelling}: ${text.slice(0, 2_000)}`)
      const escaped = JSON.stringify(spelling).slice(1, -1)
      assert.ok(!text.includes(escaped), `${what} has ${escaped}: ${text.slice(0, 2_000)}`)
    }
    assert.ok(!text.includes(PASSWORD), what)
  }

  async function ask(more: Record<string, unknown> = {}) {
    const { model } = await relay.serve('m', channel())
    const token = await relay.newToken({ unlimited_quota: true })
    const body = { model, messages: [{ role: 'user', content: 'hi' }], ...more }
    const reply = await relay.chat(token.key, body, { 'x-tenant': 'one' })
    const [row] = await relay.rowsOf(token.id)
    return { reply, row: JSON.stringify(row) }
  }

  it('in an error: they are removed for the client, the log and the trace', async () => {
    for (const spelling of SPELLINGS) {
      const error = {
        message: `wrong: ${spelling}.`,
        type: `type ${spelling}`,
        param: `param ${spelling}`,
        code: `code ${spelling}`,
      }
      answer = response => sendJson(response, 400, { error }, { 'x-request-id': `id ${spelling}` })
      const { reply, row } = await ask()
      assert.equal(reply.status, 400)
      assert.match(reply.body.error.message, /^wrong: .*\[redacted\]/)
      mustBeClean(reply.text, 'the answer')
      mustBeClean(row, 'the log row')
    }
  })

  it('at the edge of the forwarded part of a long error: no part of a secret is left', async () => {
    for (let before = 1_990; before < 10_300; before += 277) {
      answer = response =>
        sendJson(response, 400, { error: { message: `${'a'.repeat(before)}${KEY}${'b'.repeat(9_000)}` } })
      const { model } = await relay.serve('m', channel())
      const { key } = await relay.newToken({ unlimited_quota: true })
      const reply = await relay.chat(key, { model, messages: [{ role: 'user', content: 'hi' }] })
      assert.doesNotMatch(reply.text, /provider/, String(before))
    }
  })

  it('in an error in the middle of a stream', async () => {
    answer = response => {
      const chunk = {
        id: 'c',
        object: 'chat.completion.chunk',
        model: 'm',
        choices: [{ index: 0, delta: { content: 'a' } }],
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify(chunk)}\n\n`)
      response.end(`data: ${JSON.stringify({ error: { message: SPELLINGS.join(' ') } })}\n\n`)
    }
    const { reply, row } = await ask({ stream: true })
    assert.equal(reply.status, 200)
    mustBeClean(reply.text, 'the stream')
    mustBeClean(row, 'the log row')
  })

  it('in a response: it arrives with the secrets masked, and with its length', async () => {
    const message = { role: 'assistant', content: `say ${SECRET} and ${KEY}` }
    answer = response =>
      sendJson(response, 200, {
        id: 'c',
        object: 'chat.completion',
        model: 'm',
        choices: [{ index: 0, message, finish_reason: 'stop' }],
        usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      })
    const { reply, row } = await ask()
    assert.equal(reply.status, 200, reply.text)
    assert.match(reply.body.choices[0].message.content, /^say \*+ and \*+$/)
    mustBeClean(reply.text, 'the answer')
    mustBeClean(row, 'the log row')
  })

  it('in an event of a stream: a header’s secret arrives masked', async () => {
    const chunk = (delta: unknown, finish_reason: string | null) => ({
      id: 'c',
      object: 'chat.completion.chunk',
      model: 'm',
      choices: [{ index: 0, delta, finish_reason }],
    })
    answer = response => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(
        `data: ${JSON.stringify(chunk({ role: 'assistant', content: `say ${SECRET}.` }, null))}\n\n`,
      )
      response.end(`data: ${JSON.stringify(chunk({}, 'stop'))}\n\ndata: [DONE]\n\n`)
    }
    const { reply } = await ask({ stream: true })
    assert.match(reply.text, /say \*+\./)
    mustBeClean(reply.text, 'the stream')
  })

  it('in a channel test, and in a request for its models', async () => {
    answer = response => sendJson(response, 400, { error: { message: SPELLINGS.join(' ') } })
    const { channels } = await relay.serve('m', channel())
    const tested = await relay.api('GET', `/api/channel/test/${channels[0]}`)
    assert.equal(tested.body.success, false)
    mustBeClean(tested.text, 'the test')
    const listed = await relay.api('GET', `/api/channel/fetch_models/${channels[0]}`)
    assert.equal(listed.status, 502)
    mustBeClean(listed.text, 'the failed list')
    answer = response => sendJson(response, 200, { data: SPELLINGS.map(id => ({ id })) })
    mustBeClean((await relay.api('GET', `/api/channel/fetch_models/${channels[0]}`)).text, 'the list')
  })

  it('in a failed video job', async () => {
    const job = { id: 'v1', object: 'video', model: 'film', created_at: 1 }
    const error = { code: `code ${SECRET}`, message: SPELLINGS.join(' ') }
    answer = (response, url) =>
      sendJson(
        response,
        200,
        url === '/v1/videos' ? { ...job, status: 'queued' } : { ...job, status: 'failed', error },
      )
    const { model } = await relay.offer('film', { per_call: 0.5 }, channel())
    const { key, sdk } = await relay.open({ unlimited_quota: true })
    const { id } = await sdk.videos.create({ model, prompt: 'p' })
    await relay.untilEnded(sdk, id)
    mustBeClean((await relay.api('GET', `/v1/videos/${id}`, undefined, { token: key })).text, 'the job')
    mustBeClean((await relay.api('GET', `/api/video/${id}`)).text, 'the job in the console')
  })

  it('leaves none of them on the disk', async () => {
    for (const path of filesIn(relay.gateway.dataDir)) {
      const bytes = readFileSync(path)
      for (const secret of [SECRET, JSON.stringify(SECRET).slice(1, -1), BASIC, PASSWORD, KEY])
        assert.ok(!bytes.includes(secret), `${path} has ${secret}`)
    }
  })
})

describe('values that are treated as a secret', () => {
  it('include a key, its halves, and the private parts of a key file', () => {
    const file = JSON.stringify({
      type: 'service_account',
      private_key_id: 'abcdef0123456789',
      private_key: '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----\n',
    })
    const scrub = createScrub(
      [file, 'AKIDEXAMPLE01|wJalrXUtnFEMI/K7MDENG|eu-central-1'].flatMap(secretsOfKey),
    )
    const message =
      'key wJalrXUtnFEMI/K7MDENG of AKIDEXAMPLE01 in eu-central-1, MIIEvQIBADANBgkqhkiG9w0B abcdef0123456789'
    assert.equal(scrub(message), 'key [redacted] of [redacted] in eu-central-1, [redacted] [redacted]')
  })

  it('exclude the values of common headers, and values too short to be a secret', () => {
    const headers = {
      'user-agent': 'our-own-client/1.0',
      'x-level': '1',
      'x-api-key': 'abc',
      'x-plan': 'pro',
    }
    assert.deepEqual(secretsOfHeaders(headers), [])
  })

  it('include tokens derived from a key, recognized by their shape', () => {
    const scrub = createScrub([])
    assert.equal(scrub('Bearer abcdefghijklmnop1234 was refused'), 'Bearer [redacted] was refused')
    assert.equal(scrub('token eyJhbGciOiJIUzI1.eyJpc3MiOiJha.c2lnbmF0dXJl'), 'token [redacted]')
    assert.equal(scrub('Bearer authentication is needed'), 'Bearer authentication is needed')
  })

  it('are searched in linear time, also in a text that a client made a provider repeat', () => {
    const scrub = createScrub([])
    for (const part of ['-eyJ', 'eyJ', 'bearer ', 'ya29.', 'eyJabcdefgh.'])
      runBounded(() => scrub(part.repeat(LONG / part.length)))
    runBounded(() => secretsOfFields({ note: `//${':'.repeat(LONG)}` }))
    assert.deepEqual(secretsOfFields({ note: 'http://user:pass:word@host' }), ['pass:word'])
  })
})
