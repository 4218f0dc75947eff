import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { oneEngine } from '../support/gateway.ts'
import { suiteRelay } from '../support/relay.ts'

const MESSAGES = [{ role: 'user', content: 'Say it again, please.' }]

for (const engine of oneEngine('postgres'))
  describe(`the replay of a request, on ${engine} (docs/operating/bodies.md: Replay)`, () => {
    const relay = suiteRelay(engine)
    let model: string
    let channels: readonly number[]
    before(async () => {
      ;({ model, channels } = await relay.serve(['sim-words-1', 'sim-words-2']))
    })

    const idOf = ({ headers }: { headers: Headers }) => headers.get('x-request-id') ?? ''
    const replay = (body: Readonly<Record<string, unknown>>, token?: string) =>
      relay.gateway.api('POST', '/api/replay', body, token === undefined ? {} : { token })
    const post = (path: string, key: string, body: unknown) =>
      relay.gateway.api('POST', path, body, { token: key })
    const balanceOf = async (token: string) =>
      (await relay.must(relay.gateway.api('GET', '/api/user/self', undefined, { token }))).quota as number

    async function keeper() {
      const user = await relay.gateway.createUser({ quota: 50_000_000 })
      const { key } = await relay.newToken({ log_bodies: 'all', unlimited_quota: true }, user.accessToken)
      return { ...user, key }
    }

    it('is sent by the owner like a playground call, and shows both answers, tokens and costs', async () => {
      const { key, accessToken } = await keeper()
      const first = await relay.chat(key, { model, messages: MESSAGES })
      const before = await balanceOf(accessToken)
      const result = await relay.must(replay({ request_id: idOf(first) }, accessToken))
      assert.equal(result.status, 200)
      assert.equal(result.original.answer, first.body.choices[0].message.content)
      assert.ok(result.answer.length > 0)
      assert.deepEqual(
        [result.prompt_tokens, result.original.prompt_tokens],
        [first.body.usage.prompt_tokens, first.body.usage.prompt_tokens],
      )
      assert.ok(Number(result.cost) > 0 && result.ms >= result.first_ms)
      assert.equal(result.channel_id, null)
      assert.notEqual(result.request_id, idOf(first))
      assert.ok((await balanceOf(accessToken)) < before)
      const { rows } = await relay.must(
        relay.gateway.api('GET', `/api/log/request/${result.request_id}`, undefined, { token: accessToken }),
      )
      assert.deepEqual(
        [rows[0].token_name, JSON.parse(rows[0].other).tags],
        ['playground', { replay: 'true' }],
      )
      const { items } = await relay.must(relay.gateway.api('GET', '/api/audit/?action=body.replay'))
      assert.equal(items[0].target, `request:${idOf(first)}`)
    })

    it('can go to another model, in every chat format, whole and streamed', async () => {
      const { key, accessToken } = await keeper()
      const { model: other } = await relay.serve('sim-words-1')
      const requests = [
        ['/v1/chat/completions', { model, messages: MESSAGES, stream: true }],
        ['/v1/messages', { model, messages: MESSAGES, max_tokens: 100 }],
        ['/v1/messages', { model, messages: MESSAGES, max_tokens: 100, stream: true }],
        ['/v1/responses', { model, input: 'Say it again, please.' }],
        ['/v1/responses', { model, input: 'Say it again, please.', stream: true }],
        [`/v1beta/models/${model}:generateContent`, { contents: [{ parts: [{ text: 'Again.' }] }] }],
        [
          `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
          { contents: [{ parts: [{ text: 'Go.' }] }] },
        ],
      ] as const
      for (const [path, body] of requests) {
        const first = await post(path, key, body)
        assert.equal(first.status, 200, first.text)
        const result = await relay.must(replay({ request_id: idOf(first), model: other }, accessToken))
        assert.deepEqual([result.status, result.model, result.original.model], [200, other, model], path)
        assert.match(result.answer, /^\w[^{}]*$/, path)
        assert.match(result.original.answer, /^\w[^{}]*$/, path)
        const { rows } = await relay.must(relay.gateway.api('GET', `/api/log/request/${result.request_id}`))
        assert.equal(rows[0].model_name, other)
      }
    })

    it('can be sent to one channel by administrators, also to a disabled one', async () => {
      const { key, accessToken } = await keeper()
      const first = await relay.chat(key, { model, messages: MESSAGES })
      const [, second = 0] = channels
      await relay.must(relay.gateway.api('POST', `/api/channel/${second}/status`, { status: 2 }))
      const result = await relay.must(replay({ request_id: idOf(first), channel_id: second }))
      assert.deepEqual([result.status, result.channel_id], [200, second])
      await relay.must(relay.gateway.api('POST', `/api/channel/${second}/status`, { status: 1 }))
      const refused = await replay({ request_id: idOf(first), channel_id: second }, accessToken)
      assert.deepEqual([refused.status, refused.body.errors[0].path], [403, 'channel_id'])
      const elsewhere = await relay.addChannel({ models: ['something-else'] })
      const unserved = await relay.must(replay({ request_id: idOf(first), channel_id: elsewhere }))
      assert.equal(unserved.status, 404)
      assert.match(unserved.answer, /The channel does not serve the model/)
      // A request without a chosen channel is routed as before.
      assert.equal((await relay.chat(key, { model, messages: MESSAGES })).status, 200)
    })

    it('needs the whole request: not one that is truncated, a form, or unknown', async () => {
      const { key, accessToken } = await keeper()
      const long = await relay.chat(key, {
        model,
        messages: [{ role: 'user', content: 'long '.repeat(60_000) }],
      })
      const refused = await replay({ request_id: idOf(long) }, accessToken)
      assert.deepEqual([refused.status, refused.body.code], [409, 'conflict'])
      const unknown = await replay({ request_id: `req_${'0'.repeat(26)}` }, accessToken)
      assert.equal(unknown.status, 404)
      const wrong = await replay({ request_id: 'req_1' }, accessToken)
      assert.deepEqual([wrong.status, wrong.body.errors[0].path], [400, 'request_id'])
    })
  })
