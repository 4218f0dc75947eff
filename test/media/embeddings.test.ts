import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { retryingFetch } from '../support/client.ts'
import { oneEngine } from '../support/gateway.ts'
import { INPUT_NANOS, suiteRelay } from '../support/relay.ts'

const OPENAI = 1
const GEMINI = 24
const TEXTS = ['rain in Spain', 'snow in Norway']

for (const engine of oneEngine('sqlite')) {
  describe(`embeddings for clients of two formats on ${engine}`, () => {
    const relay = suiteRelay(engine)

    async function open(type: number, sentModel = 'sim-small') {
      const { model } = await relay.serve(sentModel, { type })
      const { id, key } = await relay.newToken()
      const { url } = relay.gateway
      return {
        id,
        key,
        model,
        google: new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } }).models,
        openai: new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0, fetch: retryingFetch })
          .embeddings,
        ask: (method: string, body: unknown, headers = {}) =>
          relay.api('POST', `/v1beta/models/${model}:${method}`, body, {
            token: null,
            headers: { 'x-goog-api-key': key, ...headers },
          }),
      }
    }

    for (const [vendor, type, source] of [
      ['OpenAI', OPENAI, 'provider'],
      ['Gemini', GEMINI, 'counted'],
    ] as const) {
      it(`reach Google’s SDK from ${vendor}, and are charged by their tokens`, async () => {
        const { id, model, google } = await open(type)
        const { embeddings = [] } = await google.embedContent({
          model,
          contents: [...TEXTS],
          config: { outputDimensionality: 16 },
        })
        assert.deepEqual(
          embeddings.map(({ values }) => values?.length),
          [16, 16],
        )
        assert.notDeepEqual(embeddings[0]?.values, embeddings[1]?.values)
        const row = await relay.rowOf(id)
        assert.equal(row.other.source, source)
        assert.ok(row.prompt_tokens >= 6 && row.prompt_tokens < 20, String(row.prompt_tokens))
        assert.equal(row.cost, row.prompt_tokens * INPUT_NANOS)
      })

      it(`reach OpenAI’s SDK from ${vendor}, and are charged by the reported usage`, async () => {
        const { id, model, openai } = await open(type)
        // The SDK requests base64 by default and decodes it to numbers.
        const packed = await openai.create({ model, input: [...TEXTS], dimensions: 16 })
        const plain = await openai.create({
          model,
          input: TEXTS[1] ?? '',
          dimensions: 16,
          encoding_format: 'float',
        })
        const [, second] = packed.data
        assert.equal(second?.index, 1)
        assert.equal(second?.embedding.length, 16)
        for (const [index, value] of (plain.data[0]?.embedding ?? []).entries())
          assert.ok(Math.abs(value - (second?.embedding[index] ?? 9)) < 1e-6)
        const length = Math.hypot(...(second?.embedding ?? []))
        assert.ok(Math.abs(length - 1) < 1e-5, String(length))
        const rows = await relay.rowsOf(id, 2)
        for (const [index, { usage }] of [packed, plain].entries()) {
          assert.equal(rows[index]?.other.source, source)
          assert.equal(rows[index]?.prompt_tokens, usage.prompt_tokens)
          assert.equal(rows[index]?.cost, usage.total_tokens * INPUT_NANOS)
        }
      })
    }

    it('are a single one if one was requested', async () => {
      for (const type of [OPENAI, GEMINI]) {
        const { ask } = await open(type)
        const { status, body, text } = await ask('embedContent', { content: { parts: [{ text: 'rain' }] } })
        assert.equal(status, 200, text)
        assert.ok(body.embedding.values.length > 100)
      }
    })

    it('are requested from Gemini with all its fields, and from others with a warning', async () => {
      const body = { content: { parts: [{ text: 'rain' }] }, taskType: 'RETRIEVAL_QUERY', title: 'weather' }
      const gemini = await open(GEMINI)
      const native = await gemini.ask('embedContent', body)
      assert.equal(native.headers.get('x-sluice-warnings'), null)
      const openai = await open(OPENAI)
      const carried = await openai.ask('embedContent', body)
      assert.match(carried.headers.get('x-sluice-warnings') ?? '', /^taskType: .*; title: /)
      const strict = await openai.ask('embedContent', body, { 'x-sluice-strict': 'true' })
      assert.equal(strict.status, 400)
      assert.match(strict.body.error.message, /taskType/)
    })

    it('of input that is not text, and of tokens, are refused if no provider supports them', async () => {
      const inlineData = { mimeType: 'image/png', data: 'AAAA' }
      const { ask } = await open(OPENAI)
      const picture = await ask('embedContent', { content: { parts: [{ inlineData }] } })
      assert.equal(picture.status, 400)
      assert.equal(picture.body.error.status, 'INVALID_ARGUMENT')
      assert.match(picture.body.error.message, /content\.parts\[0\]\.text/)
      const { key, model } = await open(GEMINI)
      const tokens = await relay.api('POST', '/v1/embeddings', { model, input: [1, 2] }, { token: key })
      assert.equal(tokens.status, 400)
      assert.equal(tokens.body.error.param, 'input')
    })

    it('are not requested for a body without input', async () => {
      const { ask, id } = await open(GEMINI)
      for (const body of [{}, { requests: [] }, { content: 'rain' }]) {
        const { status, text } = await ask('batchEmbedContents', body)
        assert.equal(status, 400, text)
      }
      assert.equal(await relay.usedBy(id), 0)
    })

    it('that a provider fails to create are reported in the client’s error format, and cost nothing', async () => {
      for (const type of [OPENAI, GEMINI]) {
        const { ask, google, model, id } = await open(type, 'sim-status-422')
        const { status, body } = await ask('embedContent', { content: { parts: [{ text: 'rain' }] } })
        assert.equal(status, 422)
        assert.match(body.error.message, /told to fail with 422/)
        await assert.rejects(google.embedContent({ model, contents: 'rain' }), { status: 422 })
        for (const row of await relay.rowsOf(id, 2)) assert.equal(row.cost, 0)
        const empty = await open(type, 'sim-empty')
        assert.equal(
          (await empty.ask('embedContent', { content: { parts: [{ text: 'rain' }] } })).status,
          502,
        )
      }
    })
  })
}
