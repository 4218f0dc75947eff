import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ENGINES } from '../support/gateway.ts'
import { startRecorder } from '../support/recorder.ts'
import { suiteRelay } from '../support/relay.ts'

const MESSAGES = [{ role: 'user', content: 'Hello' }]
const badKey = (requestId: string) => ({
  status: 401,
  headers: { 'x-request-id': requestId },
  body: { error: { message: 'The key was revoked by its owner.', code: 'key_revoked' } },
})

for (const engine of ENGINES)
  describe(`the explanation of a request, on ${engine} (docs/reference/management-api.md: Request explanation)`, () => {
    const relay = suiteRelay(engine)
    let failures = 7_000
    let provider: Awaited<ReturnType<typeof startRecorder>>
    before(async () => {
      provider = await startRecorder()
    })
    after(() => provider.close())

    const ask = (q: string, token?: string) =>
      relay.gateway.api(
        'GET',
        `/api/log/explain?q=${encodeURIComponent(q)}`,
        undefined,
        token === undefined ? {} : { token },
      )
    const explain = (q: string, token?: string) => relay.must(ask(q, token))

    /** A request that fails at the first channel and is answered by the second. */
    async function failOver() {
      const providerId = `provider-${engine}-${++failures}`
      provider.answers(badKey(providerId))
      const { model, channels } = await relay.serve(['first', 'sim-words-1'])
      const change = { id: channels[0], base_url: provider.url, key: 'another-key' }
      await relay.must(relay.gateway.api('PUT', '/api/channel/', change))
      const { accessToken } = await relay.gateway.createUser({ quota: 1_000_000 })
      const { key } = await relay.newToken({}, accessToken)
      const reply = await relay.chat(key, { model, messages: MESSAGES })
      assert.equal(reply.status, 200, reply.text)
      return { accessToken, channels, providerId, requestId: reply.headers.get('x-request-id') ?? '' }
    }

    it('tells administrators what each attempt got, and its owner only how many there were', async () => {
      const { accessToken, channels, providerId, requestId } = await failOver()
      const told = await explain(requestId)
      assert.deepEqual([told.rule, told.action], ['none', null])
      assert.match(told.sentences[0], /^The request succeeded after [\d.]+ s and was charged \$/)
      assert.match(told.sentences[1], /answered 401 key_revoked .*"The key was revoked by its owner\."$/)
      const [first, second] = told.attempts
      assert.deepEqual(
        [first.channel_id, first.status, first.provider.request_id, second.channel_id, second.status],
        [channels[0], 401, providerId, channels[1], 200],
      )
      const own = await explain(requestId, accessToken)
      assert.equal(own.request.request_id, requestId)
      assert.equal(own.sentences.length, 1)
      assert.deepEqual(
        own.attempts.map(({ channel_id, channel_name, status, provider: report }: typeof first) => [
          channel_id,
          channel_name,
          status,
          report,
        ]),
        [
          [null, '', null, null],
          [null, '', null, null],
        ],
      )
    })

    it('finds a request by an ID of its provider: of the answer or of a failed attempt', async () => {
      const { requestId, providerId } = await failOver()
      const byFailure = await explain(providerId)
      assert.equal(byFailure.request.request_id, requestId)
      const byAnswer = await explain(`see ${byFailure.request.upstream_request_id}, please`)
      assert.equal(byAnswer.request.request_id, requestId)
    })

    it('is of no other user’s request', async () => {
      const { requestId, providerId } = await failOver()
      const { accessToken } = await relay.gateway.createUser({ quota: 1_000_000 })
      assert.equal((await ask(requestId, accessToken)).status, 404)
      assert.equal((await ask(providerId, accessToken)).status, 404)
    })

    it('offers an action only to a person who may take it, and else names who may', async () => {
      const { id: userId, accessToken } = await relay.gateway.createUser({ quota: 0 })
      const { model } = await relay.serve('sim-words-1')
      const { key } = await relay.newToken({ unlimited_quota: true }, accessToken)
      const reply = await relay.chat(key, { model, messages: MESSAGES })
      assert.equal(reply.status, 429, reply.text)
      const requestId = reply.headers.get('x-request-id') ?? ''
      assert.deepEqual((await explain(requestId)).action, { kind: 'add_credit', target: `user:${userId}` })
      const own = await explain(requestId, accessToken)
      assert.equal(own.action, null)
      assert.deepEqual(own.sentences.slice(-2), [
        'The user has $0 left now.',
        'An administrator can add credit to the user.',
      ])
    })

    it('says what is true now: the model has a price since', async () => {
      const model = `unpriced-${engine}`
      await relay.addChannel({ models: [model], model_mapping: { [model]: 'sim-words-1' } })
      const { key } = await relay.newToken({})
      const reply = await relay.chat(key, { model, messages: MESSAGES })
      const requestId = reply.headers.get('x-request-id') ?? ''
      const before = await explain(requestId)
      assert.deepEqual(
        [before.rule, before.action],
        ['price', { kind: 'set_price', target: `model:${model}` }],
      )
      await relay.must(relay.gateway.api('POST', '/api/price/', { model, per_call: 0.01 }))
      const now = await explain(requestId)
      assert.deepEqual([now.sentences.at(-1), now.action], ['The model has a price now.', null])
    })

    it('names the channel to enable if the only one is disabled', async () => {
      const { model, channels } = await relay.serve('sim-words-1')
      await relay.must(relay.gateway.api('PUT', '/api/channel/', { id: channels[0], status: 2 }))
      const { key } = await relay.newToken({})
      const reply = await relay.chat(key, { model, messages: MESSAGES })
      const { rule, action, sentences } = await explain(`${reply.status} ${reply.text}`)
      assert.deepEqual(
        [rule, action],
        ['routing', { kind: 'enable_channel', target: `channel:${channels[0]}` }],
      )
      assert.match(sentences.at(-1), /is disabled now\.$/)
    })

    it('explains a code if no request in the log has the error, and knows nothing of other texts', async () => {
      const { request, rule, sentences } = await explain('Error: request_too_large (from another machine)')
      assert.deepEqual([request, rule, sentences.length], [null, 'request', 2])
      assert.equal((await ask('it does not work')).status, 404)
      assert.equal((await ask('')).body.errors[0].path, 'q')
      assert.equal((await ask('x'.repeat(4_097))).status, 400)
    })
  })
