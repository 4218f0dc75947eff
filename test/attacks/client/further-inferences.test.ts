import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { oneEngine } from '../../support/gateway.ts'
import { INPUT_NANOS, OUTPUT_NANOS, suiteRelay } from '../../support/relay.ts'
import {
  eventsAnswer,
  jsonAnswer,
  type ScriptedAnswer,
  startVendor,
  type Vendor,
} from '../../support/scripted-vendor.ts'

const ANTHROPIC = 14
const ADVISOR_INPUT_NANOS = 5_000
const ADVISOR_OUTPUT_NANOS = 25_000

const COMPACTION = { edits: [{ type: 'compact_20260112', trigger: { type: 'input_tokens', value: 50_000 } }] }
const BETA = { 'anthropic-beta': 'compact-2026-01-12,advisor-tool-2026-03-01' }

const iterations = [
  { type: 'compaction', input_tokens: 60_385, output_tokens: 592 },
  { type: 'message', input_tokens: 682, output_tokens: 1_320 },
]

const message = (usage: object) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude',
  content: [{ type: 'text', text: 'Hi' }],
  stop_reason: 'end_turn',
  usage,
})

for (const engine of oneEngine('postgres')) {
  describe(`a client that makes the vendor run more than one inference, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let vendor: Vendor
    let answer: ScriptedAnswer
    before(async () => {
      vendor = await startVendor(() => answer)
      await relay.must(
        relay.api('POST', '/api/price/', {
          model: 'advisor-model',
          input: ADVISOR_INPUT_NANOS / 1000,
          output: ADVISOR_OUTPUT_NANOS / 1000,
        }),
      )
    })
    after(async () => {
      await vendor.close()
    })

    const ask = (key: string, body: object) =>
      relay.api(
        'POST',
        '/v1/messages',
        { max_tokens: 2_000, messages: [{ role: 'user', content: 'Hi' }], ...body },
        { token: key, headers: BETA },
      )

    async function open(price: Readonly<Record<string, unknown>> = {}) {
      const { model } = await relay.serve('claude', { type: ANTHROPIC, base_url: vendor.url }, price)
      const { id, key } = await relay.newToken({ unlimited_quota: true })
      return { model, id, key }
    }

    it('pays for the summary of its conversation, streamed and not', async () => {
      const { model, id, key } = await open()
      answer = jsonAnswer(message({ input_tokens: 682, output_tokens: 1_320, iterations }))
      assert.equal((await ask(key, { model, context_management: COMPACTION })).status, 200)
      answer = eventsAnswer(
        {
          type: 'message_start',
          message: { ...message({ input_tokens: 682, output_tokens: 1 }), content: [] },
        },
        { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
        { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
        { type: 'content_block_stop', index: 0 },
        {
          type: 'message_delta',
          delta: { stop_reason: 'end_turn' },
          usage: { input_tokens: 682, output_tokens: 1_320, iterations },
        },
        { type: 'message_stop' },
      )
      await ask(key, { model, context_management: COMPACTION, stream: true })
      for (const row of await relay.rowsOf(id, 2)) {
        assert.deepEqual([row.prompt_tokens, row.completion_tokens], [61_067, 1_912])
        assert.equal(row.cost, 61_067 * INPUT_NANOS + 1_912 * OUTPUT_NANOS)
      }
    })

    it('pays for the advice of another model at that model’s price, line by line', async () => {
      const { model, id, key } = await open()
      const advice = {
        type: 'advisor_message',
        model: 'advisor-model',
        input_tokens: 823,
        cache_read_input_tokens: 100,
        output_tokens: 612,
      }
      const rounds = [{ type: 'message', input_tokens: 412, output_tokens: 89 }, advice]
      answer = jsonAnswer(message({ input_tokens: 412, output_tokens: 89, iterations: rounds }))
      const reply = await ask(key, { model })
      const row = await relay.rowOf(id)
      const own = 412 * INPUT_NANOS + 89 * OUTPUT_NANOS
      assert.equal(row.cost, own + 923 * ADVISOR_INPUT_NANOS + 612 * ADVISOR_OUTPUT_NANOS)
      assert.deepEqual([row.prompt_tokens, row.completion_tokens], [412 + 923, 89 + 612])
      const requestDetails = await relay.must(relay.api('GET', `/api/log/request/${row.request_id}`))
      const lines = requestDetails.costs[0]?.lines as { kind: string; quantity: number }[] | undefined
      assert.deepEqual(
        lines?.map(({ kind, quantity }) => [kind, quantity]),
        [
          ['input', 412],
          ['output', 89],
          ['input', 823],
          ['cachedInput', 100],
          ['output', 612],
        ],
        reply.text,
      )
    })

    it('pays the price tier of each prompt, not of their sum', async () => {
      const { model, id, key } = await open({ tiers: [{ input_over: 200_000, input: 2 }] })
      const rounds = [
        { type: 'compaction', input_tokens: 180_000, output_tokens: 10 },
        { type: 'message', input_tokens: 23_000, output_tokens: 10 },
      ]
      answer = jsonAnswer(message({ input_tokens: 23_000, output_tokens: 10, iterations: rounds }))
      await ask(key, { model })
      assert.equal((await relay.rowOf(id)).cost, 203_000 * INPUT_NANOS + 20 * OUTPUT_NANOS)
    })

    it('has a hold for a summary that it requests', async () => {
      const { model } = await open()
      const text = 'word '.repeat(20_000)
      const messages = [{ role: 'user', content: text }]
      // Enough for the prompt and the response once, and not twice.
      const units = Math.ceil((text.length * 1.2 * INPUT_NANOS + 200 * OUTPUT_NANOS) / 2_000)
      const { key } = await relay.newToken({ remain_quota: units })
      answer = jsonAnswer(message({ input_tokens: 20_000, output_tokens: 2 }))
      const before = vendor.seen.length
      const refused = await ask(key, { model, messages, max_tokens: 100, context_management: COMPACTION })
      assert.equal(refused.body.error.type, 'billing_error', refused.text)
      assert.equal(vendor.seen.length, before)
      assert.equal((await ask(key, { model, messages, max_tokens: 100 })).status, 200)
    })
  })
}
