import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Cohere, CohereClient, CohereClientV2, CohereError } from 'cohere-ai'
import { retryingFetch } from '../support/client.ts'
import { oneEngine } from '../support/gateway.ts'
import { suiteMedia } from '../support/media.ts'

const query = 'capital of France'
const documents = ['Berlin is a capital.', 'Nothing here', 'Paris is the capital of France.']
const PER_SEARCH = { per_search: 0.002 }

/** The code in the error that the SDK throws. */
const codeOf = (error: CohereError) => (error.body as { error: { code: string } }).error.code

for (const engine of oneEngine('sqlite'))
  describe(`the cohere-ai client through the gateway on ${engine}`, () => {
    const media = suiteMedia(engine)

    const clients = (token: string) => {
      const options = { token, environment: media.gateway.url, maxRetries: 0, fetch: retryingFetch }
      return { v1: new CohereClient(options), v2: new CohereClientV2(options) }
    }
    /**
     * Rerankers with Cohere's own protocol, and one that neither sorts nor truncates nor reports searches.
     */
    const KINDS = { cohere: ['rerank-v3.5', { type: 34 }], compatible: ['bge-reranker-v2-m3', {}] } as const

    for (const [kind, [sentModel, fields]] of Object.entries(KINDS)) {
      it(`reranks texts in both API versions with a ${kind} reranker`, async () => {
        const { model } = await media.offer(sentModel, PER_SEARCH, fields)
        const { id, key } = await media.open()
        const { v1, v2 } = clients(key)
        for (const client of [v1, v2]) {
          const all = await client.rerank({ model, query, documents })
          assert.deepEqual(
            all.results.map(({ index }) => index),
            [2, 0, 1],
          )
          assert.equal(all.results[0]?.relevanceScore, 1)
          assert.ok(all.id)
          const units = all.meta?.billedUnits
          assert.ok((units?.searchUnits ?? units?.inputTokens ?? 0) > 0)
          const [best, ...others] = (await client.rerank({ model, query, documents, topN: 1 })).results
          assert.deepEqual([best?.index, others.length], [2, 0])
        }
        const rows = await media.rowsOf(id, 4)
        assert.deepEqual(
          rows.map(({ cost }) => cost),
          Array(4).fill(2_000_000),
        )
      })

      it(`returns objects unchanged to version 1, with a ${kind} reranker`, async () => {
        const { model } = await media.offer(sentModel, PER_SEARCH, fields)
        const { v1 } = clients((await media.open()).key)
        const objects = documents.map((text, at) => ({ text, page: String(at) }))
        const answer = await v1.rerank({ model, query, documents: objects, returnDocuments: true })
        assert.deepEqual(answer.results[0]?.document, { text: documents[2], page: '2' })
        const titled = documents.map((title, at) => ({ title, page: String(at) }))
        const byTitle = await v1.rerank({ model, query, documents: titled, rankFields: ['title'] })
        assert.equal(byTitle.results[0]?.index, 2)
        assert.equal(byTitle.results[0]?.document, undefined)
      })
    }

    it('throws the SDK’s error class for each refusal, with the gateway’s code in it', async () => {
      const { model } = await media.offer('rerank-v3.5', PER_SEARCH, { type: 34 })
      const broken = await media.offer('sim-status-500', PER_SEARCH, { type: 34 })
      const { id, key } = await media.open()
      const poor = await media.open({ remain_quota: 0 })
      const limited = await media.open({ model_limits_enabled: true, models: ['another'] })
      const request = { model, query, documents }
      const cases = [
        ['sk-nobody', request, Cohere.UnauthorizedError, 401, 'invalid_api_key'],
        [limited.key, request, Cohere.ForbiddenError, 403, 'model_not_allowed'],
        [poor.key, request, Cohere.TooManyRequestsError, 429, 'insufficient_quota'],
        [key, { ...request, model: 'nobody-has-it' }, Cohere.NotFoundError, 404, 'model_not_found'],
        [key, { ...request, documents: [] }, Cohere.BadRequestError, 400, 'invalid_parameter'],
        [key, { ...request, topN: 0 }, Cohere.BadRequestError, 400, 'invalid_parameter'],
        [key, { ...request, query: '' }, Cohere.BadRequestError, 400, 'missing_parameter'],
        [key, { ...request, model: broken.model }, CohereError, 502, 'upstream_error'],
      ] as const
      for (const [token, body, Kind, status, code] of cases)
        for (const client of Object.values(clients(token)))
          await assert.rejects(client.rerank({ ...body, documents: [...body.documents] }), error => {
            assert.ok(error instanceof Kind && error instanceof CohereError, String(error))
            assert.deepEqual([error.statusCode, codeOf(error)], [status, code])
            return true
          })
      assert.equal(await media.usedBy(id), 0)
    })
  })
