import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { rank } from '../../simulator/formats/rerank.ts'
import { oneEngine } from '../support/gateway.ts'
import { suiteMedia } from '../support/media.ts'
import { jsonAnswer, startVendor } from '../support/scripted-vendor.ts'

const CATEGORIES = [
  'hate',
  'hate/threatening',
  'harassment',
  'self-harm',
  'sexual',
  'sexual/minors',
  'violence',
  'violence/graphic',
]

const QUERY = 'capital of France'
const DOCUMENTS = ['Berlin is a capital.', 'Nothing here', 'Paris is the capital of France.']

for (const engine of oneEngine('sqlite')) {
  describe(`moderation through the gateway on ${engine} (docs/reference/relay-api.md: Moderation)`, () => {
    const media = suiteMedia(engine)
    before(async () => {
      await media.addChannel({ models: ['text-moderation-latest', 'text-moderation-stable'] })
    })

    const judge = (key: string, body: unknown) => media.api('POST', '/v1/moderations', body, { token: key })

    it('moderates one text, with every common category and those of the provider', async () => {
      const { id, sdk } = await media.open()
      const answer = await sdk.moderations.create({
        model: 'text-moderation-latest',
        input: 'I will kill you',
      })
      const [result, ...others] = answer.results
      assert.equal(others.length, 0)
      assert.equal(result?.flagged, true)
      const categories = result?.categories as unknown as Record<string, boolean>
      const scores = result?.category_scores as unknown as Record<string, number>
      for (const name of CATEGORIES) {
        assert.equal(typeof categories[name], 'boolean', name)
        assert.equal(typeof scores[name], 'number', name)
      }
      assert.deepEqual([categories.violence, categories.illicit], [true, false])
      assert.match(answer.id, /^modr-/)
      assert.equal((await media.rowOf(id)).cost, 0)
    })

    it('moderates several texts, in their order', async () => {
      const { sdk } = await media.open()
      const input = ['all is well', 'I will kill you', 'steal it']
      const answer = await sdk.moderations.create({ model: 'text-moderation-latest', input })
      assert.deepEqual(
        answer.results.map(({ flagged }) => flagged),
        [false, true, true],
      )
    })

    it('forwards images, as one input with the text beside them', async () => {
      const { sdk } = await media.open()
      const answer = await sdk.moderations.create({
        model: 'text-moderation-latest',
        input: [
          { type: 'text', text: 'kill' },
          { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
        ],
      })
      assert.deepEqual(
        answer.results.map(({ flagged }) => flagged),
        [true],
      )
    })

    it('uses the first common model that is served if none is named, or the one that Root has set', async () => {
      const { key } = await media.open()
      const before = await judge(key, { input: 'hello' })
      assert.equal(before.body.model, 'text-moderation-latest')
      await media.set({ default_moderation_model: 'text-moderation-stable' })
      const after = await judge(key, { input: 'hello', model: null })
      await media.set({ default_moderation_model: null })
      assert.equal(after.body.model, 'text-moderation-stable')
    })

    it('refuses fields that are missing or out of range', async () => {
      const { key } = await media.open()
      const requestsBefore = await media.seenInAll()
      const cases: [Record<string, unknown>, string, string][] = [
        [{}, 'input', 'missing_parameter'],
        [{ input: '' }, 'input', 'missing_parameter'],
        [{ input: 7 }, 'input', 'invalid_parameter'],
        [{ input: [] }, 'input', 'invalid_parameter'],
        [{ input: ['a', 7] }, 'input.1', 'invalid_parameter'],
        [{ input: Array(2049).fill('a') }, 'input', 'invalid_parameter'],
        [{ input: 'a', model: 7 }, 'model', 'invalid_parameter'],
      ]
      for (const [body, param, code] of cases) {
        const { status, body: replyBody } = await judge(key, body)
        assert.deepEqual([status, replyBody.error.param, replyBody.error.code], [400, param, code])
      }
      assert.equal(await media.seenInAll(), requestsBefore)
    })

    it('fails over to the next channel if results are missing', async () => {
      const { model } = await media.offer('sim-html', { input: 0 }, { priority: 9 })
      await media.addChannel({ models: [model], priority: 1 })
      const { key } = await media.open()
      const reply = await judge(key, { model, input: ['a', 'b'] })
      assert.equal(reply.body.results.length, 2)
    })
  })

  describe(`reranking through the gateway on ${engine} (docs/reference/relay-api.md: Rerank)`, () => {
    const media = suiteMedia(engine)

    const ranked = (key: string, body: object, path = '/v1/rerank') =>
      media.api('POST', path, { query: QUERY, documents: DOCUMENTS, ...body }, { token: key })

    it('sorts and truncates if the provider does not, and returns the index in the request', async () => {
      const { model } = await media.offer('bge-reranker-v2-m3', { input: 1 })
      const { id, key } = await media.open()
      const all = await ranked(key, { model })
      assert.equal(all.status, 200, all.text)
      assert.deepEqual(
        all.body.results.map(({ index }: { index: number }) => index),
        [2, 0, 1],
      )
      assert.deepEqual(Object.keys(all.body.results[0]), ['index', 'relevance_score'])
      assert.match(all.body.id, /^rerank-/)
      const { tokens } = rank(JSON.stringify({ model: 'x', query: QUERY, documents: DOCUMENTS }))
      assert.deepEqual(all.body.meta.billed_units, { input_tokens: tokens })
      const row = await media.rowOf(id)
      assert.deepEqual([row.cost, row.prompt_tokens], [tokens * 1_000, tokens])

      const best = await ranked(key, { model, top_n: 1, return_documents: true })
      assert.deepEqual(best.body.results, [
        { index: 2, relevance_score: 1, document: { text: DOCUMENTS[2] } },
      ])
      const many = await ranked(key, { model, top_n: 99 })
      assert.equal(many.body.results.length, 3)
    })

    it('ranks objects by their text and returns them unchanged', async () => {
      const { model } = await media.offer('bge-reranker-v2-m3', { input: 1 })
      const { key } = await media.open()
      const documents = DOCUMENTS.map((text, at) => ({ text, at }))
      const reply = await ranked(key, { model, documents, return_documents: true, top_n: 1 })
      assert.deepEqual(reply.body.results[0].document, { text: DOCUMENTS[2], at: 2 })
    })

    it('is charged per search if the price is, also for Cohere, which accepts only texts', async () => {
      const { model } = await media.offer('rerank-v3.5', { per_search: 0.002 }, { type: 34 })
      const { id, key } = await media.open()
      const documents = Array.from({ length: 150 }, (_, at) => ({ text: `document ${at}` }))
      const reply = await ranked(key, { model, documents, return_documents: true, top_n: 2 }, '/v2/rerank')
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.body.results.length, 2)
      assert.equal(reply.body.results[0].document.text, 'document 0')
      assert.deepEqual(reply.body.meta.billed_units, { search_units: 2 })
      const row = await media.rowOf(id)
      assert.deepEqual([row.cost, row.other.searches], [4_000_000, 2])
      const byToken = await media.offer('rerank-v3.5', { input: 1 }, { type: 34 })
      const other = await media.open()
      assert.equal((await ranked(other.key, { model: byToken.model })).status, 200)
      assert.ok((await media.rowOf(other.id)).cost > 0, 'its tokens are counted where it tells only searches')
    })

    it('is charged per search by its documents if the provider reports none', async t => {
      const documents = Array.from({ length: 250 }, (_, at) => `document ${at}`)
      const results = documents.map((_, index) => ({ index, relevance_score: 0.5 }))
      let body: object = { results }
      const vendor = await startVendor(() => jsonAnswer(body))
      t.after(vendor.close)
      const { model } = await media.offer('ranker', { per_search: 0.002 }, { base_url: vendor.url })
      for (const [more, units] of [
        [{}, { search_units: 3 }],
        [{ usage: { total_tokens: 900 } }, { input_tokens: 900 }],
      ] as const) {
        body = { results, ...more }
        const { id, key } = await media.open()
        const reply = await ranked(key, { model, documents, top_n: 2 })
        assert.deepEqual(reply.body.meta.billed_units, units, reply.text)
        assert.equal((await media.rowOf(id)).cost, 6_000_000)
      }
      body = { results: [] }
      const { id, key } = await media.open()
      assert.equal((await ranked(key, { model, documents })).status, 502)
      await media.rowOf(id)
      assert.deepEqual(
        (await media.suspenseOf(id)).map(({ amount }) => Number(amount)),
        [6_000_000],
      )
    })

    it('refuses fields that are missing or out of range before anything is sent', async () => {
      const { model } = await media.offer('bge-reranker-v2-m3', { input: 1 })
      const { id, key } = await media.open()
      const requestsBefore = await media.seenInAll()
      const cases: [object, string, string][] = [
        [{ model: undefined }, 'model', 'missing_parameter'],
        [{ query: undefined }, 'query', 'missing_parameter'],
        [{ query: '' }, 'query', 'missing_parameter'],
        [{ query: 7 }, 'query', 'invalid_parameter'],
        [{ documents: undefined }, 'documents', 'missing_parameter'],
        [{ documents: 'one' }, 'documents', 'invalid_parameter'],
        [{ documents: [] }, 'documents', 'invalid_parameter'],
        [{ documents: ['a', 7] }, 'documents.1', 'invalid_parameter'],
        [{ documents: Array(1001).fill('a') }, 'documents', 'invalid_parameter'],
        [{ top_n: 0 }, 'top_n', 'invalid_parameter'],
        [{ top_n: 1.5 }, 'top_n', 'invalid_parameter'],
        [{ return_documents: 'yes' }, 'return_documents', 'invalid_parameter'],
      ]
      for (const [fields, param, code] of cases) {
        const { status, body } = await ranked(key, { model, ...fields })
        assert.deepEqual([status, body.error.param, body.error.code], [400, param, code])
      }
      assert.equal(await media.seenInAll(), requestsBefore)
      assert.equal(await media.usedBy(id), 0)
    })

    it('holds enough for the longest documents, and refuses if the balance is insufficient', async () => {
      const { model } = await media.offer('rerank-v3.5', { per_search: 0.002 }, { type: 34 })
      const { key } = await media.open({ remain_quota: 1_000 })
      assert.equal((await ranked(key, { model })).status, 200)
      const reply = await ranked(key, { model })
      assert.deepEqual([reply.status, reply.body.error.code], [429, 'insufficient_quota'])
    })
  })
}
