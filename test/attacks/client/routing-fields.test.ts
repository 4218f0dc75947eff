import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type HostileClient, openHostileClient } from '../../support/hostile-client.ts'
import { soundForm, wavOf } from '../../support/media.ts'

const GEMINI = 24
const MESSAGES = [{ role: 'user', content: 'hi' }]
const CHEAP = { input: 1, output: 2 }
const DEAR = { input: 100, output: 200 }
/** Nanodollars for the provider's response, 5 and 2 tokens, at these prices. */
const CHEAP_COST = 5 * 1_000 + 2 * 2_000
const DEAR_COST = 100 * CHEAP_COST

describe('fields that make a provider choose another model', () => {
  let client: HostileClient
  before(async () => {
    client = await openHostileClient()
    await client.must(client.gateway.api('POST', '/api/price/', { model: 'dear', ...DEAR }))
  })
  after(() => client.close())

  const readSentBody = () => client.posted().at(-1)?.body
  const ALLOWED = { setting: { allow_routing_fields: true } }

  const post = (path: string, key: string, body: object, headers = {}) =>
    client.postText(path, key, JSON.stringify(body), headers)

  it('are removed in every operation, with a warning', async () => {
    const { model, key } = await client.offerTo({}, CHEAP)
    const routing = {
      models: ['dear'],
      route: 'fallback',
      provider: { order: ['x'] },
      fallbacks: ['dear'],
      preset: 'p',
      compound_custom: { models: { reasoning_model: 'dear' } },
    }
    const cases: readonly (readonly [path: string, body: object])[] = [
      ['/v1/chat/completions', { model, messages: MESSAGES }],
      ['/v1/completions', { model, prompt: 'hi' }],
      ['/v1/responses', { model, input: 'hi' }],
      ['/v1/messages', { model, messages: MESSAGES, max_tokens: 9 }],
      ['/v1/embeddings', { model, input: 'hi' }],
      ['/v1/moderations', { model, input: 'hi' }],
      ['/v1/images/generations', { model, prompt: 'hi' }],
    ]
    for (const [path, body] of cases) {
      const reply = await post(path, key, { ...body, ...routing })
      assert.equal(reply.status, 200, `${path}: ${reply.text}`)
      for (const name of Object.keys(routing)) {
        assert.ok(!(name in readSentBody()), `${path} sends ${name}`)
        assert.match(reply.headers.get('x-sluice-warnings') ?? '', new RegExp(`${name}: `), path)
      }
      assert.ok(!JSON.stringify(readSentBody()).includes('dear'))
    }
  })

  it('are removed from a form and from the fields of a video, at any depth', async () => {
    const { model, key } = await client.offerTo({}, { per_minute: 0.06 })
    const form = soundForm({ model, models: 'dear', 'fallbacks[]': 'dear' }, wavOf(1))
    const transcriptionReply = await client.post('/v1/audio/transcriptions', key, form)
    assert.equal(transcriptionReply.status, 200, transcriptionReply.text)
    assert.match(transcriptionReply.headers.get('x-sluice-warnings') ?? '', /models: .*; fallbacks\[\]: /)
    assert.ok(!String(readSentBody()).includes('dear'))
    const video = await client.offerTo({}, { per_second: 0.01 })
    const body = {
      model: video.model,
      prompt: 'p',
      seconds: 4,
      models: ['dear'],
      metadata: { provider: 'dear' },
    }
    const videoReply = await post('/v1/videos', video.key, body)
    assert.equal(videoReply.status, 200, videoReply.text)
    assert.match(videoReply.headers.get('x-sluice-warnings') ?? '', /models: .*metadata\.provider: /)
    assert.ok(!String(readSentBody()).includes('dear'))
    const strict = await post('/v1/videos', video.key, body, { 'x-sluice-strict': 'true' })
    assert.equal(strict.status, 400, strict.text)
    assert.equal(strict.body.error.param, 'models')
  })

  it('are refused if the client is strict', async () => {
    const { model, key, tokenId } = await client.offerTo({}, CHEAP)
    const before = client.posted().length
    const body = { model, messages: MESSAGES, models: ['dear'] }
    const reply = await post('/v1/chat/completions', key, body, { 'x-sluice-strict': 'true' })
    assert.equal(reply.status, 400, reply.text)
    assert.equal(reply.body.error.code, 'invalid_parameter')
    assert.equal(reply.body.error.param, 'models')
    assert.equal(client.posted().length, before)
    assert.equal(await client.usedBy(tokenId), 0)
  })

  it('are removed without a warning if they are null', async () => {
    const { model, key } = await client.offerTo({}, CHEAP)
    const reply = await post('/v1/chat/completions', key, { model, messages: MESSAGES, models: null })
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers.get('x-sluice-warnings'), null)
    assert.ok(!('models' in readSentBody()))
  })

  it('are removed from a request that is translated for its channel', async () => {
    const { model, key } = await client.offerTo({ type: GEMINI }, CHEAP)
    const reply = await post('/v1/chat/completions', key, { model, messages: MESSAGES, models: ['dear'] })
    assert.equal(reply.status, 200, reply.text)
    assert.match(reply.headers.get('x-sluice-warnings') ?? '', /models: /)
    assert.ok(!JSON.stringify(readSentBody()).includes('dear'))
  })

  it('are still set by an administrator’s override', async () => {
    const provider = { order: ['mine'] }
    const { model, key } = await client.offerTo({ param_override: { provider } }, CHEAP)
    const body = { model, messages: MESSAGES, provider: { order: ['theirs'] } }
    const reply = await post('/v1/chat/completions', key, body)
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(readSentBody().provider, provider)
  })

  describe('on a channel that allows them', () => {
    const unlimited = async (price = CHEAP, fields = ALLOWED) => {
      const { model } = await client.offerTo(fields, price)
      const { id, key } = await client.open()
      return { model, id, key }
    }

    it('are forwarded, and the most expensive model named is billed', async () => {
      const { model, id, key } = await unlimited()
      const routing = { models: ['dear'], provider: { order: ['x'] } }
      const reply = await post('/v1/chat/completions', key, {
        model,
        messages: MESSAGES,
        max_tokens: 99,
        ...routing,
      })
      assert.equal(reply.status, 200, reply.text)
      assert.deepEqual(readSentBody().models, ['dear'])
      assert.deepEqual(readSentBody().provider, routing.provider)
      assert.equal(reply.headers.get('x-sluice-warnings'), null)
      const row = await client.rowOf(id)
      assert.equal(row.cost, DEAR_COST)
      assert.equal(row.other.priced_as, 'dear')
    })

    it('do not make a request cheaper than its requested model', async () => {
      const { model, id, key } = await unlimited(DEAR)
      await client.must(client.gateway.api('POST', '/api/price/', { model: 'cheap', ...CHEAP }))
      const body = { model, messages: MESSAGES, max_tokens: 99, fallbacks: [{ model: 'cheap' }] }
      const reply = await post('/v1/chat/completions', key, body)
      assert.equal(reply.status, 200, reply.text)
      assert.equal((await client.rowOf(id)).cost, DEAR_COST)
    })

    it('are held for at the price of the most expensive model named', async () => {
      const { model } = await client.offerTo(ALLOWED, CHEAP)
      // Enough for 1,000 tokens of the cheap model, not of the expensive one.
      const { key } = await client.open({ remain_quota: 5_000 })
      const body = { model, messages: MESSAGES, max_tokens: 1_000 }
      const before = client.posted().length
      const refused = await post('/v1/chat/completions', key, { ...body, models: ['dear'] })
      assert.equal(refused.status, 429, refused.text)
      assert.equal(refused.body.error.code, 'insufficient_quota')
      assert.equal(client.posted().length, before)
      assert.equal((await post('/v1/chat/completions', key, body)).status, 200)
    })

    it('may name only models that the token allows', async () => {
      const { model, key } = await client.offerTo(ALLOWED, CHEAP)
      const reply = await post('/v1/chat/completions', key, {
        model,
        messages: MESSAGES,
        models: [model, 'dear'],
      })
      assert.equal(reply.status, 403, reply.text)
      assert.equal(reply.body.error.code, 'model_not_allowed')
    })

    it('are removed if a model that they name has no price, and if they name none', async () => {
      const { model, key } = await unlimited()
      const routing = { models: ['dear', 'without-price'], route: 'fallback' }
      const unpriced = await post('/v1/chat/completions', key, { model, messages: MESSAGES, ...routing })
      assert.equal(unpriced.status, 200, unpriced.text)
      assert.match(unpriced.headers.get('x-sluice-warnings') ?? '', /models: /)
      assert.ok(!('models' in readSentBody()))
      const preset = await post('/v1/chat/completions', key, {
        model,
        messages: MESSAGES,
        preset: 'p',
        route: 'x',
      })
      assert.match(preset.headers.get('x-sluice-warnings') ?? '', /^preset: /)
      assert.equal(readSentBody().route, 'x')
      assert.ok(!('preset' in readSentBody()))
    })

    it('are allowed only by a boolean setting', async () => {
      const channel = { name: 'odd', type: 1, key: 'k', base_url: client.provider.url, models: ['odd'] }
      const reply = await client.api('POST', '/api/channel/', {
        mode: 'single',
        channel: { ...channel, setting: { allow_routing_fields: 'yes' } },
      })
      assert.equal(reply.status, 400, reply.text)
      assert.equal(reply.body.errors[0].path, 'channel.setting.allow_routing_fields')
    })
  })
})
