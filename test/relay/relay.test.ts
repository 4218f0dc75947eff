import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { countTokens } from '../../simulator/tokens.ts'
import { oneEngine } from '../support/engines.ts'
import { type Reply, suiteGateway } from '../support/gateway.ts'
import { until } from '../support/process.ts'

const MODEL = 'gpt-4o-mini'
const ask = (content: string, more: Record<string, unknown> = {}) => ({
  model: MODEL,
  messages: [{ role: 'user', content }],
  ...more,
})

/** The data of every event, `[DONE]` included. */
const eventsOf = ({ text }: Reply) =>
  text
    .split('\n\n')
    .filter(event => event.startsWith('data: '))
    .map(event => event.slice('data: '.length))

for (const engine of oneEngine('sqlite')) {
  describe(`the relay on ${engine}`, () => {
    const gateway = suiteGateway({ engine })
    let upstream: string
    let channelId: number
    before(async () => {
      upstream = (await gateway.simulator()).url
      channelId = await addChannel({ models: [MODEL, 'gpt-4o', 'text-embedding-3-small', 'unpriced-model'] })
    })

    async function addChannel(fields: Record<string, unknown>): Promise<number> {
      const channel = { name: 'simulated', type: 1, key: 'provider-key-1234', base_url: upstream, ...fields }
      const { status, body, text } = await gateway.api('POST', '/api/channel/', { mode: 'single', channel })
      assert.equal(status, 200, text)
      return body.data.id
    }
    const dropChannel = (id: number) => gateway.api('DELETE', `/api/channel/${id}`)

    async function newToken(fields: Record<string, unknown> = {}) {
      const { body } = await gateway.api('POST', '/api/token/', {
        name: 'app',
        remain_quota: 500_000,
        ...fields,
      })
      const { id, key } = body.data
      return { id: id as number, key: key as string }
    }
    const chat = (key: string | null, body: unknown, headers = {}) =>
      gateway.api('POST', '/v1/chat/completions', body, { token: key, headers })
    const refusedWith = (reply: Reply, status: number, code: string, param: string | null = null) => {
      assert.equal(reply.status, status, reply.text)
      assert.equal(reply.body.error.code, code)
      assert.equal(reply.body.error.param, param)
      assert.ok(reply.headers.get('x-request-id')?.startsWith('req_'))
    }
    const tokenNow = async (id: number) => (await gateway.api('GET', `/api/token/${id}`)).body.data

    describe('chat', () => {
      it('responds without streaming, reports the exact cost, and charges the token when the response ends', async () => {
        const { id, key } = await newToken()
        const reply = await chat(key, ask('How are you today?'))
        assert.equal(reply.status, 200)
        const { usage } = reply.body
        assert.equal(usage.prompt_tokens, countTokens('How are you today?'))
        // 0.15 and 0.60 USD per million: 150 and 600 nanodollars per token.
        const nanos = usage.prompt_tokens * 150 + usage.completion_tokens * 600
        assert.equal(Number(reply.headers.get('x-sluice-cost')) * 1e9, nanos)
        const { used_quota, remain_quota, held_quota } = await tokenNow(id)
        assert.equal(used_quota, Math.ceil(nanos / 2000))
        assert.equal(remain_quota, 500_000 - used_quota)
        assert.equal(held_quota, 0)
      })

      it('forwards a stream and removes usage that the client did not request', async () => {
        const { id, key } = await newToken()
        const reply = await chat(key, ask('Stream, please.', { stream: true }))
        assert.match(reply.headers.get('content-type') ?? '', /^text\/event-stream/)
        const events = eventsOf(reply)
        assert.equal(events.at(-1), '[DONE]')
        const chunks = events.slice(0, -1).map(event => JSON.parse(event))
        assert.ok(chunks.every(chunk => chunk.choices.length > 0))
        assert.ok(chunks.length > 3)
        assert.ok((await tokenNow(id)).used_quota > 0)
      })

      it('keeps the usage of a stream if the client requested it', async () => {
        const { key } = await newToken()
        const reply = await chat(key, ask('Hi', { stream: true, stream_options: { include_usage: true } }))
        const last = JSON.parse(eventsOf(reply).at(-2) ?? '')
        assert.deepEqual(last.choices, [])
        assert.equal(last.usage.prompt_tokens, countTokens('Hi'))
      })

      it('names the channel that responded to tokens of administrators only', async () => {
        const { key } = await newToken()
        assert.equal((await chat(key, ask('Hi'))).headers.get('x-sluice-channel'), String(channelId))
        const user = await gateway.createUser({ quota: 1_000_000 })
        const { body } = await gateway.api(
          'POST',
          '/api/token/',
          { name: 'u', unlimited_quota: true },
          { token: user.accessToken },
        )
        const reply = await chat(body.data.key, ask('Hi'))
        assert.equal(reply.status, 200)
        assert.equal(reply.headers.get('x-sluice-channel'), null)
      })

      it('sends the model name that the channel maps to, and bills the requested one', async () => {
        const id = await addChannel({
          name: 'mapped',
          models: ['my-mini'],
          model_mapping: { 'my-mini': MODEL },
        })
        const { key } = await newToken()
        const reply = await chat(key, ask('Hi', { model: 'my-mini' }))
        assert.equal(reply.status, 200)
        assert.equal(reply.body.model, MODEL)
        await dropChannel(id)
      })

      it('serves an alias as its target (docs/reference/routing.md: Aliases)', async () => {
        const { body } = await gateway.api('POST', '/api/alias/', { name: 'house-model', target: MODEL })
        const { key } = await newToken()
        assert.equal((await chat(key, ask('Hi', { model: 'house-model' }))).body.model, MODEL)
        await gateway.api('DELETE', `/api/alias/${body.data.id}`)
        refusedWith(await chat(key, ask('Hi', { model: 'house-model' })), 404, 'model_not_found')
      })
    })

    describe('a more expensive service tier', () => {
      const MODELS = ['usual-only', 'with-priority']
      let channel: number
      before(async () => {
        const model_mapping = Object.fromEntries(MODELS.map(model => [model, MODEL]))
        channel = await addChannel({ models: MODELS, model_mapping })
        const rates = { input: 1, output: 2, max_output_tokens: 300 }
        const variants = [
          { when: { service_tier: 'priority' }, input: 10, output: 20 },
          { when: { service_tier: 'flex' }, input: 0.5, output: 1 },
        ]
        for (const price of [
          { model: MODELS[0], ...rates },
          { model: MODELS[1], ...rates, variants },
        ])
          assert.equal((await gateway.api('POST', '/api/price/', price)).status, 200)
      })
      after(() => dropChannel(channel))

      /** The cost of a response as a multiple of the standard price. */
      const timesUsual = ({ body, headers }: Reply) => {
        const { prompt_tokens, completion_tokens } = body.usage
        const usual = prompt_tokens * 1_000 + completion_tokens * 2_000
        return Math.round(Number(headers.get('x-sluice-cost')) * 1e9) / usual
      }
      const tierRequestOf = (model: string | undefined, service_tier: string) =>
        ask('How are you today?', { model, service_tier })

      it('costs its listed price; without one it is removed and the standard price is charged', async () => {
        const { id, key } = await newToken()
        const cases = [
          [MODELS[0], 'priority', 1, true],
          [MODELS[0], 'flex', 1, false],
          [MODELS[0], 'auto', 1, false],
          [MODELS[1], 'priority', 10, false],
          [MODELS[1], 'scale', 1, true],
          [MODELS[1], 'flex', 0.5, false],
          [MODELS[1], 'default', 1, false],
        ] as const
        for (const [model, tier, times, isLeftOut] of cases) {
          const reply = await chat(key, tierRequestOf(model, tier))
          assert.equal(reply.status, 200, reply.text)
          assert.equal(timesUsual(reply), times, `${model} ${tier}`)
          const warnings = reply.headers.get('x-sluice-warnings') ?? ''
          assert.equal(warnings.startsWith('service_tier: '), isLeftOut, `${model} ${tier}: ${warnings}`)
        }
        const streamed = await chat(key, { ...tierRequestOf(MODELS[0], 'priority'), stream: true })
        assert.match(streamed.headers.get('x-sluice-warnings') ?? '', /^service_tier: /)
        const before = await tokenNow(id)
        const replyWithUsage = await chat(key, {
          ...tierRequestOf(MODELS[1], 'priority'),
          stream: true,
          stream_options: { include_usage: true },
        })
        const { usage } = JSON.parse(eventsOf(replyWithUsage).at(-2) ?? '{}')
        const nanos = usage.prompt_tokens * 10_000 + usage.completion_tokens * 20_000
        const spent = (await tokenNow(id)).used_quota - before.used_quota
        assert.ok(Math.abs(spent - nanos / 2000) <= 1, `${spent} units for ${nanos} nanodollars`)
      })

      it('is covered by the hold if it is requested, and not otherwise', async () => {
        // 300 tokens at 2 USD per million are 300 units; at 20 USD they are 3,000.
        const { key } = await newToken({ remain_quota: 1_500 })
        refusedWith(await chat(key, tierRequestOf(MODELS[1], 'priority')), 429, 'insufficient_quota')
        for (const reply of [
          await chat(key, ask('How are you today?', { model: MODELS[1] })),
          await chat(key, tierRequestOf(MODELS[0], 'priority')),
        ])
          assert.equal(reply.status, 200, reply.text)
      })

      it('is covered by the hold if a channel override raises the output limit', async () => {
        const longer = await addChannel({
          models: MODELS,
          model_mapping: Object.fromEntries(MODELS.map(model => [model, MODEL])),
          param_override: { max_tokens: 300 },
          priority: 100,
        })
        const { key } = await newToken({ remain_quota: 2_400 })
        const short = { ...tierRequestOf(MODELS[1], 'priority'), max_tokens: 3 }
        const answered = async (path: string, body: unknown) => {
          const { status, text } = await gateway.api('POST', path, body, { token: key })
          return status === 429 ? /quota/.test(text) && 'refused' : status
        }
        const paths = ['/v1/chat/completions', '/v1/messages']
        try {
          for (const path of paths) {
            assert.equal(await answered(path, short), 'refused', path)
            assert.equal(await answered(path, { ...short, service_tier: 'scale' }), 200, path)
          }
        } finally {
          await dropChannel(longer)
        }
        for (const path of paths) assert.equal(await answered(path, short), 200, path)
      })

      it('is rejected instead of removed for a strict client', async () => {
        const { key } = await newToken()
        const strict = { 'x-sluice-strict': 'true' }
        const reply = await chat(key, tierRequestOf(MODELS[0], 'priority'), strict)
        refusedWith(reply, 400, 'invalid_parameter')
        assert.equal((await chat(key, tierRequestOf(MODELS[1], 'priority'), strict)).status, 200)
      })
    })

    describe('refuses', () => {
      it('a missing, unknown, disabled, expired or foreign credential (docs/reference/errors.md: Relay errors)', async () => {
        const { id, key } = await newToken()
        for (const credential of [null, 'sk-nothing', 'sat-something', '', `${key}x`]) {
          const reply = await chat(credential, ask('Hi'))
          refusedWith(reply, 401, 'invalid_api_key')
          assert.equal(reply.body.error.type, 'invalid_request_error')
        }
        await gateway.api('PUT', '/api/token/', { id, status: 2 })
        refusedWith(await chat(key, ask('Hi')), 401, 'invalid_api_key')
      })

      it('a model that the token does not allow, and one that no channel lists', async () => {
        const { key } = await newToken({ model_limits_enabled: true, models: ['gpt-4o', 'nobody-has-it'] })
        refusedWith(await chat(key, ask('Hi')), 403, 'model_not_allowed')
        refusedWith(await chat(key, ask('Hi', { model: 'nobody-has-it' })), 404, 'model_not_found')
        assert.equal((await chat(key, ask('Hi', { model: 'gpt-4o' }))).status, 200)
      })

      it('an address outside allow_ips', async () => {
        const { key } = await newToken({ allow_ips: ['10.1.2.3'] })
        refusedWith(await chat(key, ask('Hi')), 403, 'ip_not_allowed')
      })

      it('a model without a price, unless the setting allows it', async () => {
        const { id, key } = await newToken()
        refusedWith(await chat(key, ask('Hi', { model: 'unpriced-model' })), 400, 'model_not_priced')
        await gateway.api('PUT', '/api/setting/', { allow_unpriced_models: true })
        assert.equal((await chat(key, ask('Hi', { model: 'unpriced-model' }))).status, 200)
        await gateway.api('PUT', '/api/setting/', { allow_unpriced_models: null })
        assert.equal((await tokenNow(id)).used_quota, 0)
      })

      it('bodies that are not a JSON object or lack a required field, naming the field', async () => {
        const { key } = await newToken()
        const raw = (bytes: string | Uint8Array, headers = {}) =>
          gateway.api('POST', '/v1/chat/completions', undefined, { token: key, raw: bytes, headers })
        refusedWith(await raw('{"model":'), 400, 'invalid_json')
        refusedWith(await raw('[1]'), 400, 'invalid_json')
        refusedWith(await raw(new Uint8Array([0x7b, 0xff, 0x7d])), 400, 'invalid_json')
        refusedWith(
          await raw('{"model":"gpt-4o-mini","model":"gpt-4o","messages":[{"role":"user","content":"x"}]}'),
          400,
          'invalid_json',
        )
        refusedWith(
          await raw('a=b', { 'content-type': 'application/x-www-form-urlencoded' }),
          415,
          'unsupported_media_type',
        )
        refusedWith(
          await chat(key, { messages: [{ role: 'user', content: 'x' }] }),
          400,
          'missing_parameter',
          'model',
        )
        refusedWith(await chat(key, { model: MODEL }), 400, 'missing_parameter', 'messages')
        refusedWith(await chat(key, ask('x', { stream: 'yes' })), 400, 'invalid_parameter', 'stream')
        refusedWith(await chat(key, ask('x', { n: 0 })), 400, 'invalid_parameter', 'n')
      })

      it('unknown paths and wrong methods in the relay’s error format', async () => {
        const { key } = await newToken()
        refusedWith(await gateway.api('GET', '/v1/nothing', undefined, { token: key }), 404, 'not_found')
        for (const [method, path, allow] of [
          ['GET', '/v1/chat/completions', 'POST'],
          ['POST', '/v1/models', 'GET, HEAD'],
          ['PUT', '/v1/videos', 'GET, POST'],
        ] as const) {
          const reply = await gateway.api(method, path, undefined, { token: key })
          refusedWith(reply, 405, 'method_not_allowed')
          assert.equal(reply.headers.get('allow'), allow)
        }
      })

      it('requests that the token or user cannot pay for, before anything is sent, and makes SDKs not retry', async () => {
        const { key } = await newToken({ remain_quota: 1 })
        const reply = await chat(key, ask('Hi'))
        refusedWith(reply, 429, 'insufficient_quota')
        assert.equal(reply.headers.get('x-should-retry'), 'false')
      })

      it('more requests per minute than a limit allows', async () => {
        const { key } = await newToken({ limits: { rpm: 1 } })
        const first = await chat(key, ask('Hi'))
        assert.equal(first.headers.get('x-ratelimit-limit-requests'), '1')
        const second = await chat(key, ask('Hi'))
        refusedWith(second, 429, 'rate_limit_exceeded')
        assert.ok(Number(second.headers.get('retry-after')) > 0)
      })
    })

    describe('a change takes effect before its 200 is sent', () => {
      it('when a token is deleted', async () => {
        const { id, key } = await newToken()
        assert.equal((await chat(key, ask('Hi'))).status, 200)
        await gateway.api('DELETE', `/api/token/${id}`)
        refusedWith(await chat(key, ask('Hi')), 401, 'invalid_api_key')
      })

      it('when the quota of a token is lowered to 0 under load', async () => {
        for (let round = 0; round < 4; round++) {
          const { id, key } = await newToken({ remain_quota: 50_000_000 })
          let isLowered = false
          let served = 0
          let late = 0
          let isLoadOver = false
          const { promise: lowered, resolve } = Promise.withResolvers<void>()
          const clients = Array.from({ length: 12 }, async () => {
            for (let i = 0; i < 200 && !isLowered; i++)
              if ((await chat(key, ask('Hi'))).status === 200) served += 1
            isLoadOver ||= !isLowered
            await lowered
            if ((await chat(key, ask('Hi'))).status === 200) late += 1
          })
          await until('some requests to be served', () => (served >= 30 ? true : undefined))
          const reply = await gateway.api('PUT', '/api/token/', { id, remain_quota: 0 })
          isLowered = true
          assert.ok(!isLoadOver, 'the change waited for the end of the load')
          resolve()
          assert.equal(reply.status, 200, reply.text)
          await Promise.all(clients)
          assert.equal(late, 0)
          assert.equal((await tokenNow(id)).remain_quota, 0)
        }
      })

      it('when a channel is disabled or deleted', async () => {
        const id = await addChannel({ name: 'passing', models: ['gpt-4.1-mini'] })
        const { key } = await newToken()
        const body = ask('Hi', { model: 'gpt-4.1-mini' })
        assert.equal((await chat(key, body)).status, 200)
        await gateway.api('POST', `/api/channel/${id}/status`, { status: 2 })
        refusedWith(await chat(key, body), 404, 'model_not_found')
        await gateway.api('POST', `/api/channel/${id}/status`, { status: 1 })
        assert.equal((await chat(key, body)).status, 200)
        await dropChannel(id)
        refusedWith(await chat(key, body), 404, 'model_not_found')
      })

      it('when a user is disabled, or a price is set', async () => {
        const user = await gateway.createUser({ quota: 10_000_000 })
        const tokenReply = await gateway.api(
          'POST',
          '/api/token/',
          { name: 'x', unlimited_quota: true },
          { token: user.accessToken },
        )
        const { key } = tokenReply.body.data
        await gateway.api('POST', '/api/price/', { model: 'gpt-4o', per_call: 1 })
        const reply = await chat(key, ask('Hi', { model: 'gpt-4o' }))
        assert.equal(reply.headers.get('x-sluice-cost'), '1')
        const prices = await gateway.api('GET', '/api/price/?model=gpt-4o')
        await gateway.api('DELETE', `/api/price/${prices.body.data.items[0].id}`)
        await gateway.api('POST', '/api/user/manage', { id: user.id, action: 'disable' })
        refusedWith(await chat(key, ask('Hi')), 401, 'invalid_api_key')
      })
    })

    describe('lists models (docs/reference/relay-api.md: Model list)', () => {
      it('in the OpenAI format, only those of active channels that the token may use', async () => {
        const { key } = await newToken({ model_limits_enabled: true, models: ['gpt-4o', 'nobody-has-it'] })
        const { body } = await gateway.api('GET', '/v1/models', undefined, { token: key })
        assert.equal(body.object, 'list')
        assert.deepEqual(
          body.data.map((model: { id: string }) => model.id),
          ['gpt-4o'],
        )
        assert.equal(body.data[0].object, 'model')
        refusedWith(
          await gateway.api('GET', `/v1/models/${MODEL}`, undefined, { token: key }),
          404,
          'model_not_found',
        )
        assert.equal(
          (await gateway.api('GET', '/v1/models/gpt-4o', undefined, { token: key })).body.id,
          'gpt-4o',
        )
      })

      it('in the format selected by the headers, with the credential where those SDKs put it', async () => {
        const { key } = await newToken()
        const anthropic = await gateway.api('GET', '/v1/models', undefined, {
          token: null,
          headers: { 'x-api-key': key, 'anthropic-version': '2023-06-01' },
        })
        assert.equal(anthropic.body.data[0].type, 'model')
        assert.equal(anthropic.body.has_more, false)
        const both = await gateway.api('GET', '/v1/models', undefined, {
          token: key,
          headers: { 'anthropic-version': '2026-10-21' },
        })
        assert.equal(both.body.object, 'list')
        assert.equal(both.body.data[0].object, 'model')
        assert.deepEqual(
          both.body.data.map(({ id, display_name }: Record<string, unknown>) => [id, display_name]),
          anthropic.body.data.map(({ id }: Record<string, unknown>) => [id, id]),
        )
        assert.equal(both.body.last_id, anthropic.body.last_id)
        const gemini = await gateway.api('GET', '/v1/models', undefined, {
          token: null,
          headers: { 'x-goog-api-key': key },
        })
        assert.match(gemini.body.models[0].name, /^models\//)
        assert.equal(
          (await gateway.api('GET', `/v1/models?key=${key}`, undefined, { token: null })).status,
          200,
        )
      })

      it('for web pages of any origin', async () => {
        const reply = await fetch(`${gateway.url}/v1/models`, {
          method: 'OPTIONS',
          headers: { origin: 'https://app.example' },
        })
        assert.equal(reply.status, 204)
        assert.equal(reply.headers.get('access-control-allow-origin'), '*')
      })
    })

    describe('fails over to the next channel', () => {
      it('if one cannot be reached, and starts its cooldown after repeated failures', async () => {
        const dead = await addChannel({
          name: 'dead',
          base_url: 'http://127.0.0.1:9',
          models: ['gpt-4.1'],
          priority: 9,
        })
        const live = await addChannel({ name: 'live', models: ['gpt-4.1'] })
        const { key } = await newToken()
        for (let i = 0; i < 8; i++) {
          const reply = await chat(key, ask('Hi', { model: 'gpt-4.1' }))
          assert.equal(reply.status, 200)
          assert.equal(reply.headers.get('x-sluice-channel'), String(live))
        }
        await dropChannel(live)
        const failed = await chat(key, ask('Hi', { model: 'gpt-4.1' }))
        refusedWith(failed, 503, 'no_channel_available')
        assert.ok(Number(failed.headers.get('retry-after')) > 0)
        await dropChannel(dead)
      })

      it('and responds 502 if every one failed, never with the 401 of a provider', async () => {
        const id = await addChannel({
          name: 'alone',
          base_url: 'http://127.0.0.1:9',
          models: ['gpt-4.1-nano'],
        })
        const { id: tokenId, key } = await newToken()
        refusedWith(await chat(key, ask('Hi', { model: 'gpt-4.1-nano' })), 502, 'upstream_error')
        assert.equal((await tokenNow(tokenId)).used_quota, 0)
        await dropChannel(id)
      })
    })

    it('returns embeddings in the encoding that the client requested', async () => {
      const { key } = await newToken()
      const embed = (encoding_format?: string) =>
        gateway.api(
          'POST',
          '/v1/embeddings',
          {
            model: 'text-embedding-3-small',
            input: ['one', 'two'],
            ...(encoding_format ? { encoding_format } : {}),
          },
          { token: key },
        )
      const floats = await embed()
      assert.equal(floats.status, 200, floats.text)
      assert.ok(Array.isArray(floats.body.data[0].embedding))
      assert.equal(typeof (await embed('base64')).body.data[1].embedding, 'string')
    })

    it('tests a channel without charging any account', async () => {
      const { status, body } = await gateway.api('GET', `/api/channel/test/${channelId}`)
      assert.equal(status, 200)
      assert.equal(body.success, true, body.message)
      assert.equal(body.data.model, MODEL)
      assert.equal(body.data.status, 200)
      const streamed = await gateway.api('GET', `/api/channel/test/${channelId}?stream=true`)
      assert.equal(streamed.body.success, true, streamed.body.message)
      assert.ok(streamed.body.data.first_token_ms >= 0)
      const dead = await addChannel({ name: 'dead', base_url: 'http://127.0.0.1:9', models: ['x'] })
      const failed = await gateway.api('GET', `/api/channel/test/${dead}`)
      assert.equal(failed.status, 200)
      assert.equal(failed.body.success, false)
      const all = await gateway.api('GET', '/api/channel/test')
      assert.deepEqual(
        all.body.data.map((each: { data: { id: number } }) => each.data.id).sort(),
        [channelId, dead].sort(),
      )
      await dropChannel(dead)
    })

    it('tests one key of a channel, even if it is disabled, and no other', async () => {
      const { body } = await gateway.api('POST', '/api/channel/', {
        mode: 'multi_to_single',
        channel: { name: 'keys', type: 1, key: 'key-aaaa\nkey-bbbb', base_url: upstream, models: [MODEL] },
      })
      const id: number = body.data.id
      const triedLast = async () => {
        const report = (await (await fetch(`${upstream}/sim/requests`)).json()) as {
          last: { key_hint: string }[]
        }
        return report.last.at(-1)?.key_hint
      }
      await gateway.api('POST', `/api/channel/${id}/keys/1/status`, { status: 2 })
      for (const [key, hint] of ['aaaa', 'bbbb'].entries()) {
        const tested = await gateway.api('GET', `/api/channel/test/${id}?key=${key}`)
        assert.equal(tested.body.success, true, tested.text)
        assert.equal(await triedLast(), hint)
      }
      const none = await gateway.api('GET', `/api/channel/test/${id}?key=2`)
      assert.equal(none.status, 400)
      assert.equal(none.body.errors[0].path, 'key')
      await dropChannel(id)
    })

    it('keeps a ledger that verifies, and rows whose sum is exactly the change of the balance', async () => {
      const user = await gateway.createUser({ quota: 1_000_000 })
      const tokenReply = await gateway.api(
        'POST',
        '/api/token/',
        { name: 'x', unlimited_quota: true },
        { token: user.accessToken },
      )
      for (const content of ['one', 'one two', 'one two three'])
        await chat(tokenReply.body.data.key, ask(content, { stream: content === 'one two' }))
      const self = await gateway.api('GET', '/api/user/self', undefined, { token: user.accessToken })
      const rows = await gateway.api('GET', '/api/log/self', undefined, { token: user.accessToken })
      const consumed = rows.body.data.items.filter((row: { type: number }) => row.type === 2)
      assert.equal(consumed.length, 3)
      const nanos = consumed.reduce(
        (sum: number, row: { cost: string }) => sum + Math.round(Number(row.cost) * 1e9),
        0,
      )
      assert.equal(self.body.data.used_quota, Math.ceil(nanos / 2000))
      assert.equal(self.body.data.quota + self.body.data.used_quota, 1_000_000)
      assert.equal(self.body.data.request_count, 3)
      const { ok, lines } = await gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
    })
  })
}
