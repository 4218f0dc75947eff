import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { retryingFetch } from '../support/client.ts'
import { oneEngine } from '../support/gateway.ts'
import { INPUT_NANOS, OUTPUT_NANOS, suiteRelay } from '../support/relay.ts'

const SEARCH_NANOS = 10_000_000
const PRICE = { tools: { web_search: 0.01 } }
const SENT = 'sim-searches-3'

for (const engine of oneEngine('postgres')) {
  describe(`web searches run by a provider, on ${engine}`, () => {
    const relay = suiteRelay(engine)

    async function open(fields: Readonly<Record<string, unknown>>, sentModel = SENT) {
      const { model } = await relay.serve(sentModel, fields, PRICE)
      const { id, key } = await relay.newToken({ remain_quota: 5_000_000 })
      const sdk = { apiKey: key, maxRetries: 0, fetch: retryingFetch }
      return {
        model,
        id,
        openai: new OpenAI({ ...sdk, baseURL: `${relay.gateway.url}/v1` }),
        anthropic: new Anthropic({ ...sdk, baseURL: relay.gateway.url }),
      }
    }

    /** The cost of the tokens and searches of a row. */
    async function searchesPaid(id: number): Promise<number> {
      const { cost, prompt_tokens, completion_tokens, other } = await relay.rowOf(id)
      const tokens = prompt_tokens * INPUT_NANOS + completion_tokens * OUTPUT_NANOS
      assert.equal(cost, tokens + other.searches * SEARCH_NANOS)
      return other.searches
    }

    const anthropic = { type: 14 }
    const responses = { type: 1 }
    const searching = [{ type: 'web_search' as const }]
    const server = [{ type: 'web_search_20250305' as const, name: 'web_search' as const, max_uses: 2 }]
    const messages = [{ role: 'user' as const, content: 'What is new?' }]

    it('are charged to clients of the Responses format, streamed and not', async () => {
      const whole = await open(responses)
      await whole.openai.responses.create({ model: whole.model, input: 'What is new?', tools: searching })
      assert.equal(await searchesPaid(whole.id), 3)
      const streamed = await open(responses)
      const request = { model: streamed.model, input: 'What is new?', tools: searching }
      const final = await streamed.openai.responses.stream(request).finalResponse()
      assert.equal(final.output.filter(({ type }) => type === 'web_search_call').length, 3)
      assert.equal(await searchesPaid(streamed.id), 3)
    })

    it('are charged to clients of Anthropic’s format, streamed and not, within the limit they set', async () => {
      for (const way of ['create', 'stream'] as const) {
        const {
          model,
          id,
          anthropic: sdk,
        } = await open({ ...anthropic, base_url: `${relay.upstream}/anthropic` })
        const request = { model, max_tokens: 200, messages, tools: server }
        const answer =
          way === 'create'
            ? await sdk.messages.create(request)
            : await sdk.messages.stream(request).finalMessage()
        assert.equal(answer.usage.server_tool_use?.web_search_requests, 2)
        assert.equal(await searchesPaid(id), 2)
      }
    })

    it('are separate lines in the cost breakdown of a row', async () => {
      const { model, id, openai } = await open(responses)
      await openai.responses.create({ model, input: 'What is new?', tools: searching })
      const { request_id } = await relay.rowOf(id)
      const { costs } = await relay.must(relay.api('GET', `/api/log/request/${request_id}`))
      const line = costs[0].lines.find(({ kind }: { kind: string }) => kind === 'searches')
      assert.deepEqual(line, {
        kind: 'searches',
        quantity: 3,
        rate: 'per_search',
        price: 0.01,
        amount: '0.03',
      })
    })
  })
}
