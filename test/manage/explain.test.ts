import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { oneEngine } from '../support/gateway.ts'
import { startRecorder } from '../support/recorder.ts'
import { suiteRelay } from '../support/relay.ts'

const MESSAGES = [{ role: 'user', content: 'Hello' }]
const badKey = (requestId: string) => ({
  status: 401,
  headers: { 'x-request-id': requestId },
  body: { error: { message: 'The key was revoked by its owner.', code: 'key_revoked' } },
})

for (const engine of oneEngine('postgres'))
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
      const explanation = await explain(requestId)
      assert.deepEqual([explanation.rule, explanation.action], ['none', null])
      assert.match(explanation.sentences[0], /^The request succeeded after [\d.]+ s and was charged \$/)
      assert.match(
        explanation.sentences[1],
        /answered 401 key_revoked .*"The key was revoked by its owner\."$/,
      )
      const [first, second] = explanation.attempts
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
      const explanation = await explain(requestId)
      const name = explanation.request.username
      assert.deepEqual(explanation.action, { kind: 'add_credit', target: `user:${userId}`, name })
      const own = await explain(requestId, accessToken)
      assert.equal(own.action, null)
      assert.match(own.sentences[0], /, which can cost up to \$0\.\d+\.$/)
      const user = `user "${name}" (#${userId})`
      assert.deepEqual(
        [own.sentences[2], own.sentences.at(-1)],
        [
          `The balance of ${user} does not suffice; the token is not the reason.`,
          'An administrator can add credit to the user.',
        ],
      )
      assert.ok(own.sentences.includes(`U${user.slice(1)} has $0 left now.`), own.sentences.join('\n'))
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
        ['price', { kind: 'set_price', target: `model:${model}`, name: model }],
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
      const { rule, action, sentences, request } = await explain(`${reply.status} ${reply.text}`)
      assert.deepEqual(
        [rule, action.kind, action.target],
        ['routing', 'enable_channel', `channel:${channels[0]}`],
      )
      assert.equal(
        sentences.at(-1),
        `Channel "${action.name}" (#${channels[0]}) lists the model, but it is disabled now.`,
      )
      assert.equal(JSON.parse(request.other).requested_model, model)
      const route = await relay.must(relay.gateway.api('POST', '/api/route/explain', { model }))
      const [{ network, ...passedOver }] = route.passed_over
      assert.deepEqual(passedOver, {
        channel_id: channels[0],
        channel_name: action.name,
        reason: 'disabled',
        again_in_ms: null,
        detail: '',
      })
      assert.equal(network.proxy, null)
    })

    /** A model on one channel of this provider, and the answers to requests for it by a new user. */
    async function brokenChannel(
      simulated: string,
      requests: number,
      fields: Readonly<Record<string, unknown>> = {},
    ) {
      const { model, channels } = await relay.serve(simulated, fields)
      const { accessToken } = await relay.gateway.createUser({ quota: 100_000_000 })
      const { key } = await relay.newToken({ unlimited_quota: true }, accessToken)
      const ids: string[] = []
      for (let index = 0; index < requests; index++) {
        const reply = await relay.chat(key, { model, messages: MESSAGES })
        ids.push(reply.headers.get('x-request-id') ?? '')
      }
      const channel = await relay.must(relay.gateway.api('GET', `/api/channel/${channels[0]}`))
      const { action, sentences } = await explain(ids.at(-1) ?? '')
      const own = await explain(ids.at(-1) ?? '', accessToken)
      const secret = new RegExp(`${channel.name}|channel ["\\d]|simulator|provider reported|\\bkey\\b`, 'i')
      assert.doesNotMatch(own.sentences.slice(1).join('\n'), secret, 'users do not learn about channels')
      assert.equal(own.action, null)
      const channelLabel = `"${channel.name}" (#${channel.id})`
      const target = { target: `channel:${channel.id}`, name: channel.name }
      return { model, named: channelLabel, ids, action, sentences, target }
    }

    it('tells why a channel is cooling down, since which request, until when, and what ends it', async () => {
      const { named: channelLabel, ids, action, sentences, target } = await brokenChannel('sim-status-401', 2)
      assert.match(
        sentences[1],
        /^Channel ".*" \(#\d+\) was cooling down\. Its provider rejected the key \(401/,
      )
      assert.ok(sentences[1].includes(channelLabel))
      assert.match(sentences[2], /^The provider reported: "/)
      assert.match(
        sentences[3],
        new RegExp(`^The cooldown began with request ${ids[0]} at 20\\d\\d-.* UTC\\.$`),
      )
      assert.match(sentences[4], /is cooling down until 20\d\d-.* UTC\. Then it waits for a trial request\.$/)
      assert.equal(sentences[5], 'After 3 rejections of the key in a row, the gateway disables the channel.')
      assert.deepEqual(action, { kind: 'replace_key', ...target })
      const limited = await brokenChannel('sim-status-429-retry-3000', 2)
      assert.match(limited.sentences[1], /Its provider limits the rate \(429.*\) and asked to wait 300 s\.$/)
      assert.equal(limited.sentences.at(-1), 'Wait until then, or add another key or a second channel.')
      assert.deepEqual(limited.action, { kind: 'open_channel', ...limited.target })
    })

    it('tells why the last attempt failed: refused connection, mapped model, rejected key', async () => {
      const closed = await brokenChannel('sim-words-1', 1, { base_url: 'http://127.0.0.1:9' })
      assert.equal(
        closed.sentences[1],
        `Channel ${closed.named} failed. Nothing accepts connections at http://127.0.0.1:9 (ECONNREFUSED).`,
      )
      assert.match(closed.sentences[2], /refused the connection after/)
      assert.deepEqual(closed.action, { kind: 'edit_base_url', ...closed.target })
      const mapped = await brokenChannel('sim-status-404', 1)
      assert.match(
        mapped.sentences[1],
        new RegExp(
          `failed\\. Its provider does not know the model "sim-status-404", to which the channel maps "${mapped.model}" \\(404`,
        ),
      )
      assert.deepEqual(mapped.action, { kind: 'edit_mapping', ...mapped.target })
      const rejected = await brokenChannel('sim-status-401', 1)
      assert.match(rejected.sentences[1], /Its provider rejected the key \(401/)
      assert.match(rejected.sentences.join('\n'), /is cooling down until/)
    })

    it('names the token, and the limit of the token that decided', async () => {
      const { model } = await relay.serve('sim-words-1')
      const explained = async (
        fields: object,
        prepare: (id: number) => Promise<unknown> = async () => {},
      ) => {
        const { id, key } = await relay.newToken({ name: 'named token', ...fields })
        await prepare(id)
        const reply = await relay.chat(key, { model, messages: MESSAGES })
        const { action, sentences } = await explain(reply.headers.get('x-request-id') ?? '')
        assert.deepEqual([action.target, action.name], [`token:${id}`, 'named token'])
        return [sentences[1].replace(`(#${id})`, '(#1)'), action.kind]
      }
      assert.deepEqual(await explained({ model_limits_enabled: true, models: ['one', 'two'] }), [
        'Token "named token" (#1) may use only these models: one, two.',
        'allow_model',
      ])
      assert.deepEqual(await explained({ allow_ips: ['10.1.2.0/24'] }), [
        'Token "named token" (#1) may be used only from these addresses: 10.1.2.0/24.',
        'allow_address',
      ])
      const expired_time = Math.floor(Date.now() / 1000) - 1
      const [sentence, kind] = await explained({}, id =>
        relay.gateway.db.updateTable('tokens').set({ expired_time }).where('id', '=', id).execute(),
      )
      const moment = new Date(expired_time * 1000).toISOString().slice(0, 19).replace('T', ' ')
      assert.deepEqual(
        [sentence, kind],
        [`Token "named token" (#1) expired at ${moment} UTC.`, 'extend_token'],
      )
    })

    it('finds the newest request by a bare code or by a part of its message, and counts the others', async () => {
      const { accessToken } = await relay.gateway.createUser({ quota: 1_000_000 })
      const { key } = await relay.newToken({ allow_ips: ['10.1.2.0/24'] }, accessToken)
      const { model } = await relay.serve('sim-words-1')
      await relay.chat(key, { model, messages: MESSAGES })
      const reply = await relay.chat(key, { model, messages: MESSAGES })
      const newest = reply.headers.get('x-request-id')
      const count = 'This is the newest of 2 requests with ip_not_allowed in the last 24 hours.'
      await explain(newest ?? '', accessToken)
      for (const text of ['ip_not_allowed', 'May not be used from the address', reply.text]) {
        const { request, sentences } = await explain(text, accessToken)
        assert.deepEqual([request.request_id, sentences[1]], [newest, count], text)
      }
      assert.equal((await explain('ip_not_allowed')).request.request_id, newest)
    })

    it('finds a request by the code of its provider, which its client got', async () => {
      const { ids } = await brokenChannel('sim-status-404', 1)
      const { request, rule } = await explain('model_not_found')
      assert.deepEqual([request.request_id, rule], [ids[0], 'provider'])
    })

    it('explains a code if no request in the log has the error, and knows nothing of other texts', async () => {
      const { request, rule, sentences } = await explain('Error: request_too_large (from another machine)')
      assert.deepEqual([request, rule, sentences.length], [null, 'request', 2])
      assert.equal((await ask('it does not work')).status, 404)
      assert.equal((await ask('')).body.errors[0].path, 'q')
      assert.equal((await ask('x'.repeat(4_097))).status, 400)
    })
  })
