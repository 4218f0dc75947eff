import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { describe, it } from 'node:test'
import { CLIENTS } from '../support/format-clients.ts'
import { INPUT_NANOS, OUTPUT_NANOS, suiteRelay } from '../support/relay.ts'

const VERTEX = 41
const TOOLS = ['get_weather', 'get_time']

const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
})

const relay = suiteRelay('sqlite')

let accountCount = 0

/** The key file of a service account whose tokens the simulator issues. */
const keyFile = (name = 'account', more: object = {}) =>
  JSON.stringify({
    type: 'service_account',
    project_id: 'p-1',
    private_key: privateKey,
    client_email: `${name}-${++accountCount}@p-1.iam.gserviceaccount.com`,
    token_uri: `${relay.upstream}/vertex/token`,
    ...more,
  })

const serve = (sentModel: string, key = keyFile(), fields: object = {}) =>
  relay.serve(sentModel, { type: VERTEX, key, base_url: `${relay.upstream}/vertex`, ...fields })

const say = (model: string, more: object = {}) => ({
  model,
  max_tokens: 50,
  messages: [{ role: 'user', content: 'hi' }],
  ...more,
})

async function visits(path: string): Promise<number> {
  const report = (await (await fetch(`${relay.upstream}/sim/requests`)).json()) as {
    counts: { path: string; requests: number }[]
  }
  return report.counts.filter(count => count.path === path).reduce((sum, { requests }) => sum + requests, 0)
}

const MODELS = { Gemini: 'sim-gemini', Claude: 'claude-opus-4-5@20251101' } as const

for (const [vendor, sentModel] of Object.entries(MODELS))
  for (const name of Object.keys(CLIENTS) as (keyof typeof CLIENTS)[])
    describe(`${name} with ${vendor} on Vertex`, () => {
      for (const way of ['whole', 'stream'] as const)
        it(`supports text, reasoning and tools, ${way}, and is paid by the usage that the vendor reports`, async () => {
          const { model } = await serve(sentModel)
          const { id, key } = await relay.newToken({ remain_quota: 5_000_000 })
          const api = CLIENTS[name](key, relay.gateway.url)
          const question = { model, text: 'use the tools', tools: TOOLS, isThinking: true }
          const answer = await api[way](question)
          assert.deepEqual(
            answer.calls.map(call => call.name),
            TOOLS,
          )
          // The simulator rejects calls that come back without the signed reasoning they were made with.
          const after = await api[way](question, { question, told: answer })
          assert.match(after.text, /The tool answered: ".*get_time has an answer/)
          const [first, second] = await relay.rowsOf(id, 2)
          for (const [row, { input, output }] of [
            [first, answer],
            [second, after],
          ] as const) {
            assert.equal(row?.other.source, 'provider')
            assert.equal(row?.prompt_tokens, input)
            assert.equal(row?.completion_tokens, output)
            const { cache_tokens: cached = 0 } = row?.other ?? {}
            if (cached === 0) assert.equal(row?.cost, input * INPUT_NANOS + output * OUTPUT_NANOS)
          }
        })
    })

describe('a service account', () => {
  it('is exchanged for an access token once for many requests, also for concurrent ones', async () => {
    const { model } = await serve('sim-gemini')
    const { key } = await relay.newToken()
    const before = await visits('/vertex/token')
    const answers = await Promise.all(Array.from({ length: 5 }, () => relay.chat(key, say(model))))
    for (const { status, text } of answers) assert.equal(status, 200, text)
    assert.equal((await relay.chat(key, say(model))).status, 200)
    assert.equal(await visits('/vertex/token'), before + 1)
  })

  it('is exchanged again when its access token expires', async () => {
    const { model } = await serve('sim-gemini', keyFile('short'))
    const { key } = await relay.newToken()
    const before = await visits('/vertex/token')
    for (let turn = 0; turn < 2; turn++) assert.equal((await relay.chat(key, say(model))).status, 200)
    assert.equal(await visits('/vertex/token'), before + 2)
  })

  it('that is rejected, or missing, costs nothing, and the gateway fails over', async () => {
    const bad = {
      'nobody knows it': keyFile('refused'),
      'its key is no key': keyFile('account', { private_key: 'not a key: canary-4711' }),
      'it has no key': keyFile('account', { private_key: undefined }),
      'its tokens come from nowhere': keyFile('account', { token_uri: 'ftp://nowhere' }),
    }
    for (const [what, file] of Object.entries(bad)) {
      const { model, channels } = await serve('sim-gemini', file)
      const { id, key } = await relay.newToken()
      const { status, body, text } = await relay.chat(key, say(model))
      assert.equal(status, 502, what)
      assert.equal(body.error.code, 'upstream_error')
      assert.doesNotMatch(text, /canary|PRIVATE KEY|gserviceaccount/)
      const row = await relay.rowOf(id)
      assert.equal(row.cost, 0)
      assert.doesNotMatch(JSON.stringify(row), /canary|PRIVATE KEY|gserviceaccount/)
      const test = await relay.api('GET', `/api/channel/test/${channels[0]}?model=${model}`)
      assert.equal(test.body.success, false)
      assert.doesNotMatch(test.text, /canary|PRIVATE KEY|gserviceaccount/)
      await relay.addChannel({
        name: 'other',
        models: [model],
        model_mapping: { [model]: 'sim-small' },
        priority: 1,
      })
      assert.equal((await relay.chat(key, say(model))).status, 200, what)
    }
  })

  it('is tested like any other key', async () => {
    const { model, channels } = await serve('sim-gemini')
    for (const stream of ['', '&stream=true']) {
      const { body } = await relay.api('GET', `/api/channel/test/${channels[0]}?model=${model}${stream}`)
      assert.equal(body.success, true, JSON.stringify(body))
    }
  })

  it('makes embeddings, one text per call if the model accepts no more', async () => {
    for (const sentModel of ['text-embedding-005', 'gemini-embedding-001']) {
      const { model } = await serve(sentModel)
      const { id, key } = await relay.newToken()
      const body = { model, input: ['rain in Spain', 'snow'], dimensions: 8, encoding_format: 'float' }
      const answer = await relay.api('POST', '/v1/embeddings', body, { token: key })
      assert.equal(answer.status, 200, answer.text)
      assert.deepEqual(
        answer.body.data.map(({ embedding }: { embedding: number[] }) => embedding.length),
        [8, 8],
      )
      const row = await relay.rowOf(id)
      assert.equal(row.other.source, 'provider')
      assert.equal(row.prompt_tokens, answer.body.usage.prompt_tokens)
    }
  })
})

describe('an API key for Vertex', () => {
  it('is sent as it is, to paths without a project', async () => {
    const { model } = await serve('sim-gemini', 'AIza-canary-99', { setting: {} })
    const { key } = await relay.newToken()
    const { status, text } = await relay.chat(key, say(model))
    assert.equal(status, 200, text)
    assert.ok((await visits('/vertex/v1/publishers/google/models/sim-gemini:generateContent')) > 0)
  })
})
