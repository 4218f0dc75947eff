import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { NO_CHANNEL } from '../../src/domain/rejection.ts'
import { oneEngine } from '../support/gateway.ts'
import { soundForm, suiteMedia, wavOf } from '../support/media.ts'
import { until } from '../support/process.ts'

const SAME_SITE = { 'sec-fetch-site': 'same-origin' }
const ASK = { messages: [{ role: 'user', content: 'How are you today?' }] }
const NANOS_PER_UNIT = 2_000

for (const engine of oneEngine('sqlite'))
  describe(`a relay call of a signed-in user on ${engine}`, () => {
    const relay = suiteMedia(engine)
    let model: string
    before(async () => {
      ;({ model } = await relay.serve('sim-words-4'))
    })

    /** A signed-in user with a browser. */
    async function somebody(quota = 500_000) {
      const { id, accessToken, username, password } = await relay.gateway.createUser({ quota })
      const { headers } = await relay.api('POST', '/api/user/login', { username, password }, { token: null })
      const cookie = headers.get('set-cookie')?.split(';')[0] ?? ''
      const post = (
        path: string,
        body: string | FormData,
        { headers: more = {}, ...init }: RequestInit = {},
      ) =>
        fetch(`${relay.gateway.url}/api/playground${path}`, {
          method: 'POST',
          body,
          headers: { cookie, ...SAME_SITE, ...(more as Record<string, string>) },
          ...init,
        })
      const ask = async (body: object, query = '', headers = {}) => {
        const reply = await post(`/v1/chat/completions${query}`, JSON.stringify(body), { headers })
        return { status: reply.status, headers: reply.headers, body: JSON.parse(await reply.text()) }
      }
      const self = () => relay.must(relay.api('GET', '/api/user/self', undefined, { token: accessToken }))
      const rows = () =>
        relay.gateway.db
          .selectFrom('logs')
          .selectAll()
          .where('user_id', '=', id)
          .where('type', 'in', [2, 5])
          .where('channel_id', '<>', NO_CHANNEL)
          .execute()
      return { id, accessToken, post, ask, self, rows }
    }

    it('is served without a token, charged to the user to the nanodollar, and named in the usage log', async () => {
      const { ask, self, rows, accessToken } = await somebody()
      const { status, headers } = await ask({ model, ...ASK })
      assert.equal(status, 200)
      const nanos = Math.round(Number(headers.get('x-sluice-cost')) * 1e9)
      assert.ok(nanos > 0)
      const { quota, used_quota, request_count } = await self()
      assert.deepEqual([used_quota, request_count], [relay.units(nanos), 1])
      assert.equal(quota, 500_000 - Math.ceil(nanos / NANOS_PER_UNIT))
      const [row] = await until('the row', async () => ((await rows()).length > 0 ? rows() : undefined))
      assert.deepEqual([row?.token_id, row?.token_name, Number(row?.cost)], [0, 'playground', nanos])
      const listed = await relay.api('GET', '/api/log/self', undefined, { token: accessToken })
      assert.equal(listed.body.data.items[0].token_name, 'playground')
      assert.equal((await relay.api('GET', '/api/ledger/verify')).body.data.ok, true)
    })

    it('accepts a system access token like the rest of the API, and no sk- token', async () => {
      const { accessToken } = await somebody()
      const { key } = await relay.newToken()
      const path = '/api/playground/v1/chat/completions'
      assert.equal((await relay.api('POST', path, { model, ...ASK }, { token: accessToken })).status, 200)
      assert.equal((await relay.api('POST', path, { model, ...ASK }, { token: key })).status, 401)
    })

    it('is refused from another site, and has no effect', async () => {
      const { ask, self } = await somebody()
      const { status } = await ask({ model, ...ASK }, '', { 'sec-fetch-site': 'cross-site' })
      assert.equal(status, 401)
      assert.equal((await self()).request_count, 0)
    })

    it('applies the limits of the token that is named, and charges it too', async () => {
      const { ask, accessToken, rows } = await somebody()
      const { id } = await relay.newToken(
        { name: 'narrow', models: [model], model_limits_enabled: true },
        accessToken,
      )
      const { model: other } = await relay.serve('sim-words-4')
      assert.equal((await ask({ model, ...ASK }, `?token_id=${id}`)).status, 200)
      const refused = await ask({ model: other, ...ASK }, `?token_id=${id}`)
      assert.deepEqual([refused.status, refused.body.error.code], [403, 'model_not_allowed'])
      const token = await relay.must(relay.api('GET', `/api/token/${id}`, undefined, { token: accessToken }))
      assert.ok(token.used_quota > 0)
      const [row] = await until('the row', async () => ((await rows()).length > 0 ? rows() : undefined))
      assert.deepEqual([row?.token_id, row?.token_name], [id, 'narrow'])
    })

    it('cannot use another user’s token, nor a deleted one', async () => {
      const { ask, accessToken } = await somebody()
      const { id: roots } = await relay.newToken()
      assert.equal((await ask({ model, ...ASK }, `?token_id=${roots}`)).status, 404)
      const { id } = await relay.newToken({}, accessToken)
      assert.equal((await ask({ model, ...ASK }, `?token_id=${id}`)).status, 200)
      await relay.must(relay.api('DELETE', `/api/token/${id}`, undefined, { token: accessToken }))
      assert.equal((await ask({ model, ...ASK }, `?token_id=${id}`)).status, 404)
      assert.equal((await ask({ model, ...ASK }, '?token_id=x')).status, 400)
    })

    it('is refused when the balance does not cover it, and when the user is disabled', async () => {
      const poor = await somebody(0)
      const { status, body } = await poor.ask({ model, ...ASK })
      assert.deepEqual([status, body.error.code], [429, 'insufficient_quota'])
      const { id, ask } = await somebody()
      assert.equal((await ask({ model, ...ASK })).status, 200)
      await relay.must(relay.api('POST', '/api/user/manage', { id, action: 'disable' }))
      assert.equal((await ask({ model, ...ASK })).status, 401)
    })

    it('counts towards the user’s own limits', async () => {
      const { id, ask } = await somebody()
      await relay.must(relay.api('PUT', '/api/user/', { id, limits: { rpm: 1 } }))
      assert.equal((await ask({ model, ...ASK })).status, 200)
      const { status, body } = await ask({ model, ...ASK })
      assert.deepEqual([status, body.error.code], [429, 'rate_limit_exceeded'])
    })

    it('never spends more than the balance, with any number of concurrent requests', async () => {
      const { model: dear } = await relay.serve('sim-words-4', {}, { per_call: 0.1 })
      const { ask, self } = await somebody(150_000)
      const answers = await Promise.all(Array.from({ length: 8 }, () => ask({ model: dear, ...ASK })))
      assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 200, 200, 429, 429, 429, 429, 429])
      assert.equal((await self()).quota, 0)
    })

    it('forwards files unchanged', async () => {
      const { model: ears } = await relay.offer('sim-transcribe', { per_minute: 0.06 })
      const { post } = await somebody()
      const reply = await post('/v1/audio/transcriptions', soundForm({ model: ears }, wavOf(3)))
      assert.equal(reply.status, 200, await reply.clone().text())
      assert.equal(typeof ((await reply.json()) as { text: string }).text, 'string')
    })

    it('returns 404 for paths that the relay does not serve', async () => {
      const { post } = await somebody()
      for (const path of ['/v1/nothing', '/v1/', '/v1/../user/self'])
        assert.equal((await post(path, '{}')).status, 404, path)
    })

    it('is cancelled upstream when the user stops it, and only the output until then is charged', async () => {
      const { model: slow } = await relay.serve('sim-words-400-pace-20')
      const { ask, post, rows } = await somebody()
      const leaving = new AbortController()
      const reply = await post(
        '/v1/chat/completions',
        JSON.stringify({ model: slow, stream: true, ...ASK }),
        {
          signal: leaving.signal,
        },
      )
      const reader = reply.body?.getReader()
      await reader?.read()
      leaving.abort()
      const [row] = await until('the row', async () => ((await rows()).length > 0 ? rows() : undefined))
      assert.ok((row?.completion_tokens ?? 0) < 400)
      assert.equal((await ask({ model, ...ASK })).status, 200)
    })

    it('creates videos that can be refunded and deleted without a token', async () => {
      const { model: film } = await relay.offer('sim-video-fails', { per_call: 0.5 })
      const { post, self, accessToken } = await somebody()
      const reply = await post('/v1/videos', JSON.stringify({ model: film, prompt: 'a lake' }))
      const { id } = (await reply.json()) as { id: string }
      assert.equal(reply.status, 200)
      assert.equal((await self()).used_quota, 250_000)
      const video = () => relay.api('GET', `/api/video/${id}`, undefined, { token: accessToken })
      await until('the end', async () => ((await video()).body.data.status === 'failed' ? true : undefined))
      await relay.must(relay.api('POST', `/api/video/${id}/refund`, { reason: 'it failed' }))
      assert.equal((await self()).used_quota, 0)
      assert.equal((await relay.api('GET', '/api/ledger/verify')).body.data.ok, true)
      await relay.must(relay.api('DELETE', `/api/video/${id}`, undefined, { token: accessToken }))
      assert.equal((await video()).status, 404)
    })
  })
