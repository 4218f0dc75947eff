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

type Fields = Readonly<Record<string, unknown>>

const ANTHROPIC = 14
const GEMINI = 24
const XAI = 48
const DASHSCOPE = 17
const SILICONFLOW = 40
const VOLCENGINE = 45
const NEW_API = 60

/** `limit` × 1.1 + 64. */
const plausible = (limit: number) => Math.ceil((limit * 11) / 10) + 64

const completion = (usage: object, content = 'Hi') => ({
  id: 'c1',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  usage,
})

const chunk = (delta: object, finish_reason: string | null = null) => ({
  id: 'c1',
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, finish_reason }],
})

const absurd = { prompt_tokens: 5, completion_tokens: 900_000_000, total_tokens: 900_000_005 }

for (const engine of oneEngine('postgres')) {
  describe(`a provider that reports implausible usage, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let vendor: Vendor
    let answer: ScriptedAnswer
    before(async () => {
      vendor = await startVendor(() => answer)
    })
    after(async () => {
      await vendor.close()
    })

    const messages = [{ role: 'user', content: 'Hi' }]

    async function open(fields: Fields = {}, price: Fields = {}) {
      const { model, channels } = await relay.serve('sim-small', { base_url: vendor.url, ...fields }, price)
      const { id, key } = await relay.newToken({ unlimited_quota: true })
      return { model, channel: Number(channels[0]), id, key }
    }

    it('is paid up to the client’s limit, and the rest is in suspense for the channel', async () => {
      const { model, channel, id, key } = await open()
      answer = jsonAnswer(completion(absurd))
      const reply = await relay.chat(key, { model, messages, max_tokens: 50 })
      assert.equal(reply.status, 200)
      const row = await relay.rowOf(id)
      assert.equal(row.completion_tokens, plausible(50))
      assert.equal(row.cost, 5 * INPUT_NANOS + plausible(50) * OUTPUT_NANOS)
      assert.equal(reply.headers.get('x-sluice-cost'), '0.000243')
      assert.deepEqual(row.other.reported, { prompt_tokens: 5, completion_tokens: 900_000_000 })
      const [doubt, ...others] = await relay.suspenseOf(id)
      assert.deepEqual(others, [])
      assert.equal(doubt?.reason, 'implausible_usage')
      assert.equal(Number(doubt?.channel_id), channel)
      assert.equal(Number(doubt?.amount), (900_000_000 - plausible(50)) * OUTPUT_NANOS)
    })

    it('puts its channel on the list of channels that need attention', async () => {
      const { model, channel, id, key } = await open()
      answer = jsonAnswer(completion(absurd))
      await relay.chat(key, { model, messages, max_tokens: 50 })
      await relay.rowOf(id)
      const needs = await relay.must(relay.api('GET', '/api/attention'))
      const need = needs.find(
        (each: { kind: string; target: string }) =>
          each.kind === 'implausible_usage' && each.target === `channel:${channel}`,
      )
      assert.equal(need?.level, 'error')
    })

    it('is trusted within the limit, times the choices, plus a margin', async () => {
      const { model, id, key } = await open()
      const usage = { prompt_tokens: 5, completion_tokens: plausible(100), total_tokens: plausible(100) + 5 }
      answer = jsonAnswer(completion(usage))
      await relay.chat(key, { model, messages, max_tokens: 50, n: 2 })
      const row = await relay.rowOf(id)
      assert.equal(row.completion_tokens, plausible(100))
      assert.equal(row.other.reported, undefined)
      assert.deepEqual(await relay.suspenseOf(id), [])
    })

    it('is trusted about reasoning if the client’s limit applies to the answer only', async () => {
      const reasoned = { prompt_tokens: 5, completion_tokens: 30_000, total_tokens: 30_005 }
      const itemized = { ...reasoned, completion_tokens_details: { reasoning_tokens: 29_990 } }
      for (const type of [DASHSCOPE, SILICONFLOW, VOLCENGINE]) {
        const { model, id, key } = await open({ type }, { max_output_tokens: 32_768 })
        for (const usage of [reasoned, itemized, absurd]) {
          answer = jsonAnswer(completion(usage))
          const reply = await relay.chat(key, { model, messages, max_tokens: 1 })
          assert.equal(reply.status, 200, reply.text)
        }
        const rows = await relay.rowsOf(id, 3)
        assert.deepEqual(
          rows.map(row => row.completion_tokens).toSorted((a, b) => a - b),
          [30_000, 30_000, plausible(32_769)],
          String(type),
        )
      }
    })

    it('is limited to the model’s own limit if the client’s is 0, which some hosts read as none', async () => {
      const { model, id, key } = await open({ type: NEW_API }, { max_output_tokens: 8_192 })
      const usage = { input_tokens: 5, output_tokens: 5_000 }
      const content = [{ type: 'text', text: 'Hi' }]
      answer = jsonAnswer({ id: 'm', type: 'message', role: 'assistant', model: 'm', content, usage })
      const body = { model, max_tokens: 0, messages }
      const poor = await relay.newToken({ remain_quota: 5_000 })
      assert.equal((await relay.api('POST', '/v1/messages', body, { token: poor.key })).status, 429)
      const reply = await relay.api('POST', '/v1/messages', body, { token: key })
      assert.equal(reply.status, 200, reply.text)
      assert.equal((await relay.rowOf(id)).completion_tokens, 5_000)
      answer = jsonAnswer({
        choices: [{ index: 0, text: 'Hi' }],
        usage: { ...absurd, completion_tokens: 6_000 },
      })
      const completed = await relay.newToken({ unlimited_quota: true })
      const scored = { model, prompt: 'Hi', max_tokens: 0 }
      await relay.api('POST', '/v1/completions', scored, { token: completed.key })
      assert.equal((await relay.rowOf(completed.id)).completion_tokens, 6_000)
    })

    it('is sent no request whose reasoning beyond the limit the quota does not cover', async () => {
      answer = jsonAnswer(completion({ prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 }))
      const price = { max_output_tokens: 32_768 }
      for (const type of [DASHSCOPE, SILICONFLOW, VOLCENGINE, XAI]) {
        const { model } = await relay.serve('sim-small', { base_url: vendor.url, type }, price)
        const ask = (remain_quota: number) =>
          relay
            .newToken({ remain_quota })
            .then(({ key }) => relay.chat(key, { model, messages, max_tokens: 1 }))
        const few = await ask(relay.units(32_768 * OUTPUT_NANOS))
        assert.equal(few.status, 429, `${type}: ${few.text}`)
        assert.equal(few.body.error.code, 'insufficient_quota')
        assert.equal((await ask(relay.units(34_000 * OUTPUT_NANOS))).status, 200, String(type))
      }
    })

    it('is limited to the model’s own limit if the client sets none', async () => {
      const { model, id, key } = await open({}, { max_output_tokens: 200 })
      answer = jsonAnswer(completion(absurd))
      await relay.chat(key, { model, messages })
      assert.equal((await relay.rowOf(id)).completion_tokens, plausible(200))
    })

    it('is limited to what the channel’s own override requests, if that is more', async () => {
      const { model, id, key } = await open({ param_override: { max_tokens: 700 } })
      answer = jsonAnswer(completion(absurd))
      await relay.chat(key, { model, messages, max_tokens: 50 })
      assert.equal((await relay.rowOf(id)).completion_tokens, plausible(700))
    })

    it('is limited to the bytes that it delivered if the model has no hidden reasoning', async () => {
      const { model, id, key } = await open({}, { max_output_tokens: null })
      const plain = await relay.addChannel({
        name: 'plain',
        base_url: vendor.url,
        models: ['plain-model'],
        model_mapping: { 'plain-model': 'gpt-4o-mini' },
      })
      assert.ok(plain)
      answer = jsonAnswer(completion(absurd))
      const bytes = Buffer.byteLength(String(answer.body))
      await relay.must(
        relay.api('POST', '/api/price/', { model: 'plain-model', input: 0.000001, output: 0.000001 }),
      )
      await relay.chat(key, { model: 'plain-model', messages })
      await relay.chat(key, { model, messages })
      const [delivered, hidden] = await relay.rowsOf(id, 2)
      assert.equal(delivered?.completion_tokens, plausible(bytes))
      // Without any limit, a model may have reasoned for as long as its vendor reports.
      assert.equal(hidden?.completion_tokens, 900_000_000)
    })

    it('is paid for a few more images than requested, not for any number', async () => {
      const price = { input: undefined, output: undefined, per_image: 0.01 }
      for (const [delivered, charged] of [
        [4, 4],
        [1_000, 12],
      ] as const) {
        const { model, id, key } = await open({}, price)
        answer = jsonAnswer({
          created: 1,
          data: Array(delivered).fill({ url: 'https://images.example/1.png' }),
        })
        const body = { model, prompt: 'a', n: 2 }
        const reply = await relay.api('POST', '/v1/images/generations', body, { token: key })
        assert.equal(reply.status, 200, reply.text)
        assert.equal(JSON.parse(reply.text).data.length, delivered)
        assert.equal((await relay.rowOf(id)).cost, charged * 10_000_000)
        const excess = (await relay.suspenseOf(id)).map(({ reason, amount }) => [reason, Number(amount)])
        const uncharged = (delivered - charged) * 10_000_000
        assert.deepEqual(excess, uncharged === 0 ? [] : [['implausible_usage', uncharged]])
      }
    })

    it('does not extend the hold of a stream that ignores the client’s limit', async () => {
      const { model, key: other } = await open()
      const { id, key } = await relay.newToken({ remain_quota: 5_000 })
      assert.ok(other)
      answer = eventsAnswer(
        ...Array.from({ length: 400 }, () => chunk({ content: 'word '.repeat(1_000) })),
        chunk({}, 'stop'),
      )
      const reply = await relay.chat(key, { model, messages, max_tokens: 50, stream: true })
      assert.ok(reply.text.includes('[DONE]'), reply.text.slice(-200))
      const row = await relay.rowOf(id)
      assert.equal(row.completion_tokens, plausible(50))
      assert.equal((await relay.suspenseOf(id))[0]?.reason, 'implausible_usage')
    })

    it('is not trusted about the prompt, about searches or inside a stream either', async () => {
      const { model, id, key } = await open({}, { per_search: 0.001 })
      answer = eventsAnswer(chunk({ content: 'Hi' }), {
        ...chunk({}, 'stop'),
        usage: { prompt_tokens: 900_000_000, completion_tokens: 2, num_search_queries: 900_000_000 },
      })
      await relay.chat(key, { model, messages, max_tokens: 50, stream: true })
      const row = await relay.rowOf(id)
      assert.ok(row.prompt_tokens < 1_002_000, String(row.prompt_tokens))
      assert.equal(row.other.searches, 1_064)
      assert.equal(row.other.reported.prompt_tokens, 900_000_000)
    })

    const TOOLS = ['web_search', 'file_search', 'code_interpreter', 'image_generation'] as const
    const PRICES = { tools: Object.fromEntries(TOOLS.map(tool => [tool, 0.01])) }
    const CALL_NANOS = 10_000_000
    const MILLION = 1_000_000
    const image = { type: 'image_generation_call', id: 'ig', status: 'completed', result: 'aGk=' }
    const text = { type: 'output_text', text: 'Hi', annotations: [] }
    const tokens = { input_tokens: 5, output_tokens: 2, total_tokens: 7 }
    const searched = { tool_usage: { web_search: { num_requests: MILLION } } }

    const responsesAnswer = (fields: Fields, images = 0) => ({
      id: 'resp_1',
      object: 'response',
      created_at: 1,
      status: 'completed',
      model: 'm',
      output: [
        ...Array(images).fill(image),
        { type: 'message', id: 'm', role: 'assistant', status: 'completed', content: [text] },
      ],
      usage: tokens,
      ...fields,
    })

    const responsesEvents = (whole: object) => {
      const started = { ...whole, status: 'in_progress', output: [], usage: null, tool_usage: undefined }
      return eventsAnswer(
        { type: 'response.created', response: started },
        { type: 'response.output_text.delta', item_id: 'm', output_index: 0, content_index: 0, delta: 'Hi' },
        { type: 'response.completed', response: whole },
      )
    }

    const WAYS = { buffered: jsonAnswer, streamed: responsesEvents }

    /** Sends a Responses request with all tools; returns what was charged and what is in suspense. */
    async function runTools(way: keyof typeof WAYS, whole: object, maxCalls = 3) {
      const { model } = await relay.serve('sim-small', { base_url: vendor.url }, PRICES)
      const { id, key } = await relay.newToken({ unlimited_quota: true })
      answer = WAYS[way](whole)
      const request = {
        model,
        input: 'Hi',
        stream: way === 'streamed',
        tools: TOOLS.map(type => ({ type })),
        max_tool_calls: maxCalls,
        max_output_tokens: 50,
      }
      const reply = await relay.api('POST', '/v1/responses', request, { token: key })
      assert.equal(reply.status, 200, reply.text)
      const row = await relay.rowOf(id)
      assert.equal(row.other.overrun, undefined)
      const paidTokens = row.prompt_tokens * INPUT_NANOS + row.completion_tokens * OUTPUT_NANOS
      return {
        calls: (row.cost - paidTokens) / CALL_NANOS,
        other: row.other,
        suspense: await relay.suspenseOf(id),
      }
    }

    for (const way of ['buffered', 'streamed'] as const) {
      it(`is not trusted about the searches that it ran for a ${way} response`, async () => {
        const { calls, other, suspense } = await runTools(way, responsesAnswer(searched))
        const most = plausible(3) + 1_000
        assert.equal(calls, most)
        assert.equal(other.searches, most)
        assert.equal(other.reported.searches, MILLION)
        assert.deepEqual(
          suspense.map(({ reason, amount }) => [reason, Number(amount)]),
          [['implausible_usage', (MILLION - most) * CALL_NANOS]],
        )
      })

      it(`is not trusted about searches if a ${way} response has no usage`, async () => {
        const { calls, other, suspense } = await runTools(
          way,
          responsesAnswer({ ...searched, usage: undefined }),
        )
        const most = plausible(3) + 1_000
        assert.equal(other.source, 'counted')
        assert.equal(calls, most)
        assert.equal(Number(suspense[0]?.amount), (MILLION - most) * CALL_NANOS)
      })

      it(`is not trusted about other tools that it ran for a ${way} response`, async () => {
        const details = { file_search_calls: MILLION, code_interpreter_calls: MILLION }
        const usage = { ...tokens, server_side_tool_usage_details: details }
        const images = 2_000
        const { calls, other, suspense } = await runTools(way, responsesAnswer({ usage }, images))
        const most = plausible(3) + 1_000
        assert.equal(calls, 3 * most)
        assert.deepEqual(other.reported, {
          prompt_tokens: 5,
          completion_tokens: 2,
          file_searches: MILLION,
          code_interpreter_calls: MILLION,
          image_generation_calls: images,
        })
        assert.equal(Number(suspense[0]?.amount), (2 * MILLION + images - 3 * most) * CALL_NANOS)
      })

      it(`is paid for all calls that the client of a ${way} response allowed`, async () => {
        const requests = { tool_usage: { web_search: { num_requests: 2_000 } } }
        const { calls, other, suspense } = await runTools(way, responsesAnswer(requests), 2_000)
        assert.equal(calls, 2_000)
        assert.equal(other.reported, undefined)
        assert.deepEqual(suspense, [])
      })
    }
    for (const stream of [false, true])
      it(`is not paid for usage that costs more than 2^53 nanodollars${stream ? ' in a stream' : ''}, and the client gets its response`, async () => {
        const { model, channel, id, key } = await open({}, { output: 20_000, max_output_tokens: null })
        answer = stream
          ? eventsAnswer({ ...chunk({ content: 'Hi' }), usage: absurd }, chunk({ content: ' there' }), {
              ...chunk({}, 'stop'),
              usage: absurd,
            })
          : jsonAnswer(completion(absurd, 'Hi there'))
        const reply = await relay.chat(key, { model, messages, stream })
        assert.equal(reply.status, 200, reply.text)
        assert.match(reply.text, stream ? /there[\s\S]*\[DONE\]/ : /Hi there/)
        const row = await relay.rowOf(id)
        assert.deepEqual([row.type, row.cost, row.completion_tokens, row.other.source], [2, 0, 0, 'zero'])
        assert.deepEqual(row.other.reported, { prompt_tokens: 5, completion_tokens: 900_000_000 })
        const entries = await relay.suspenseOf(id)
        assert.deepEqual(
          entries.map(({ reason, channel_id, amount }) => [reason, Number(channel_id), Number(amount)]),
          [['implausible_usage', channel, 1e14]],
        )
        const { held_quota } = await relay.must(relay.api('GET', `/api/token/${id}`))
        assert.equal(held_quota, 0)
      })

    it('has the same limits if its response is translated, and in further inferences', async () => {
      const { model, id, key } = await open({ type: ANTHROPIC })
      const message = (usage: object) => ({
        id: 'm',
        type: 'message',
        role: 'assistant',
        content: [{ type: 'text', text: 'Hi' }],
        stop_reason: 'end_turn',
        usage,
      })
      answer = jsonAnswer(message({ input_tokens: 5, output_tokens: 900_000_000 }))
      await relay.chat(key, { model, messages, max_tokens: 50 })
      const compaction = { type: 'compaction', input_tokens: 5, output_tokens: 900_000_000 }
      const iterations = [compaction, { type: 'message', input_tokens: 5, output_tokens: 2 }]
      answer = jsonAnswer(message({ input_tokens: 5, output_tokens: 2, iterations }))
      await relay.chat(key, { model, messages, max_tokens: 50 })
      const [first, second] = await relay.rowsOf(id, 2)
      assert.equal(first?.completion_tokens, plausible(50))
      assert.equal(second?.completion_tokens, 2 + plausible(1_000))
    })

    it('may reason beyond the limit if its limit is for the response text alone', async () => {
      const { model, id, key } = await open({ type: XAI })
      const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 907 }
      answer = jsonAnswer(completion(usage))
      await relay.chat(key, { model, messages, max_tokens: 50 })
      const row = await relay.rowOf(id)
      assert.equal(row.completion_tokens, 902)
      assert.deepEqual(await relay.suspenseOf(id), [])
    })

    it('of another format than the client’s, and of embeddings, has limits too', async () => {
      const { model, id, key } = await open({ type: GEMINI })
      answer = jsonAnswer({
        candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }],
        usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 2, thoughtsTokenCount: 900_000_000 },
      })
      await relay.chat(key, { model, messages, max_tokens: 50 })
      assert.equal((await relay.rowOf(id)).completion_tokens, plausible(50))
      const embedder = await open()
      answer = jsonAnswer({
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: [0.1] }],
        usage: absurd,
      })
      const body = { model: embedder.model, input: 'Hi' }
      const reply = await relay.api('POST', '/v1/embeddings', body, { token: embedder.key })
      assert.equal(reply.status, 200, reply.text)
      assert.equal((await relay.rowOf(embedder.id)).completion_tokens, plausible(0))
    })
  })
}
