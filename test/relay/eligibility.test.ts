import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Operation } from '../../src/domain/operation.ts'
import { jina } from '../../src/providers/vendors/jina.ts'
import { openVideos, type VideoRelay } from '../support/videos.ts'

type Verdict = readonly [channelId: number, reason: string]

const TOKEN_PRICE = { input: 1, output: 2, max_output_tokens: 1000 }

/** One request of each operation, the simulator model that serves it, and a price that bills it. */
const CASES = [
  {
    operation: 'chat',
    path: '/v1/chat/completions',
    body: { messages: [{ role: 'user', content: 'hi' }] },
    answeredBy: 'sim-words-4',
    price: TOKEN_PRICE,
  },
  {
    operation: 'speech',
    path: '/v1/audio/speech',
    body: { input: 'hi', voice: 'alloy' },
    answeredBy: 'sim-tts',
    price: { per_call: 0.1 },
  },
  {
    operation: 'videos',
    path: '/v1/videos',
    body: { prompt: 'A lake' },
    answeredBy: 'sim-video',
    price: { per_call: 0.5 },
  },
] as const satisfies readonly { operation: Operation; [field: string]: unknown }[]

describe('the channels eligible for a request', () => {
  let relay: VideoRelay
  before(async () => {
    relay = await openVideos('sqlite')
  })
  after(() => relay.gateway.close())

  /** A channel for `model` that maps it to another upstream name. */
  const add = (model: string, sentModel: string, fields: object) =>
    relay.addChannel({ models: [model], model_mapping: { [model]: sentModel }, ...fields })

  const setPrice = (model: string, price: object) =>
    relay.must(relay.gateway.api('POST', '/api/price/', { model, ...price }))

  async function explain(model: string, operation: Operation) {
    const { data } = (await relay.api('POST', '/api/route/explain', { model, operation })).body
    return {
      steps: data.steps.map((step: { channel_id: number }) => step.channel_id) as number[],
      passedOver: data.passed_over.map((each: { channel_id: number; reason: string }) => [
        each.channel_id,
        each.reason,
      ]) as Verdict[],
    }
  }

  for (const { operation, path, body, answeredBy, price } of CASES)
    it(`match the routing explanation for ${operation}`, async () => {
      const model = `eligible-${operation}`
      const lacking = await add(model, answeredBy, { type: jina.type, priority: 30 })
      const unpriced = await add(model, `${model}-unpriced`, { priority: 20 })
      const good = await add(model, answeredBy, { priority: 10 })
      await setPrice(answeredBy, price)
      const verdicts: Verdict[] = [
        [lacking, 'not_offered'],
        [unpriced, 'unpriced'],
      ]
      assert.deepEqual(await explain(model, operation), { steps: [good], passedOver: verdicts })

      const token = await relay.newToken({ unlimited_quota: true })
      const reply = await relay.gateway.api('POST', path, { model, ...body }, { token: token.key })
      assert.equal(reply.status, 200, reply.text)
      const { channel_id, other } = await relay.rowOf(token.id)
      assert.equal(channel_id, good)
      assert.deepEqual(
        other.trace.passed_over.map((each: { channelId: number; reason: string }) => [
          each.channelId,
          each.reason,
        ]),
        verdicts,
      )
    })

  it('exclude a channel with a per-token price, for a video', async () => {
    const model = 'eligible-video-price'
    const byToken = await add(model, 'video-by-token', { priority: 2 })
    const byCall = await add(model, 'video-by-call', { priority: 1 })
    await setPrice('video-by-token', TOKEN_PRICE)
    await setPrice('video-by-call', { per_call: 0.5 })
    assert.deepEqual(await explain(model, 'videos'), {
      steps: [byCall],
      passedOver: [[byToken, 'unpriced']],
    })
    assert.deepEqual((await explain(model, 'chat')).steps, [byToken, byCall])
  })

  it('are none for an operation that no provider of the model supports', async () => {
    const model = 'eligible-nowhere'
    const channel = await add(model, 'sim-words-4', { type: jina.type })
    for (const operation of ['chat', 'images', 'videos'] as const)
      assert.deepEqual(await explain(model, operation), { steps: [], passedOver: [[channel, 'not_offered']] })
  })
})
