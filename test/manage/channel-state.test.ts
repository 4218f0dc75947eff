import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { oneEngine } from '../support/gateway.ts'
import { until } from '../support/process.ts'
import { startRecorder } from '../support/recorder.ts'
import { PROVIDER_KEY, suiteRelay } from '../support/relay.ts'

const WORDS = '401 key_revoked: The key [redacted] was revoked.'
const REJECTED = {
  status: 401,
  body: { error: { message: `The key ${PROVIDER_KEY} was revoked.`, code: 'key_revoked' } },
}

for (const engine of oneEngine('sqlite'))
  describe(`a channel whose keys all cool down, on ${engine} (docs/reference/routing.md: Cooldown)`, () => {
    const relay = suiteRelay(engine)
    let provider: Awaited<ReturnType<typeof startRecorder>>
    before(async () => {
      provider = await startRecorder()
    })
    after(() => provider.close())

    const ask = (path: string) => relay.must(relay.api('GET', path))
    const nowS = () => Math.floor(Date.now() / 1000)
    const healthOf = async (id: number) =>
      (await ask('/api/channel/health')).find((each: { channel_id: number }) => each.channel_id === id)
    const needOf = async (id: number) =>
      (await ask('/api/attention')).find((each: { target: string }) => each.target === `channel:${id}`)

    async function failOnce(key = PROVIDER_KEY) {
      provider.answers(REJECTED)
      const { model, channels } = await relay.serve('any', { base_url: provider.url })
      const [channel = 0] = channels
      if (key !== PROVIDER_KEY)
        await relay.must(relay.api('PUT', '/api/channel/', { id: channel, key, key_mode: 'append' }))
      const token = await relay.newToken()
      const reply = await relay.chat(token.key, { model, messages: [{ role: 'user', content: 'Hello' }] })
      assert.equal(reply.status, 502, reply.text)
      return { model, channel, key: token.key }
    }

    it('cools down itself, at once and in every list, with the time left and the provider’s words', async () => {
      const { model, channel, key } = await failOnce()
      const health = await healthOf(channel)
      assert.equal(health.state, 'cooling_down')
      assert.equal(health.reason, WORDS)
      assert.ok(health.cooldown_until > nowS() && health.cooldown_until <= nowS() + 31)
      assert.deepEqual(
        health.keys.map((key: { index: number; state: string; reason: string }) => [
          key.index,
          key.state,
          key.reason,
        ]),
        [[0, 'cooling_down', WORDS]],
      )

      const { items } = await ask('/api/channel/search?page_size=100')
      const listed = items.find(({ id }: { id: number }) => id === channel)
      for (const view of [listed, await ask(`/api/channel/${channel}`)]) {
        assert.deepEqual([view.status, view.state, view.cooldown_reason], [1, 'cooling_down', WORDS])
        assert.ok(view.cooldown_until > nowS())
      }

      const need = await needOf(channel)
      assert.deepEqual([need.kind, need.level, need.detail], ['channel_cooling_down', 'error', WORDS])
      assert.ok(need.until > nowS())

      const plan = await relay.must(relay.api('POST', '/api/route/explain', { model }))
      assert.deepEqual(plan.steps, [])
      const [excluded] = plan.passed_over
      assert.deepEqual([excluded.channel_id, excluded.reason, excluded.detail], [channel, 'resting', WORDS])
      assert.ok(excluded.again_in_ms > 0)

      const rejected = await relay.chat(key, { model, messages: [{ role: 'user', content: 'Hello' }] })
      assert.equal(rejected.status, 503, rejected.text)
      const id = rejected.headers.get('x-request-id')
      const { sentences } = await until('the row of the rejected request', async () => {
        const explained = await relay.api('GET', `/api/log/explain?q=${id}`)
        return explained.status === 200 ? explained.body.data : undefined
      })
      const whole = sentences.join('\n')
      assert.match(whole, /was cooling down\. Its provider rejected the key \(401 key_revoked\)\./)
      assert.match(whole, /^The provider reported: "The key \[redacted\] was revoked\."$/m)
      assert.match(whole, /is cooling down until .* UTC\. Then it waits for a trial request\./)
      const figures = await healthOf(channel)
      assert.deepEqual([figures.requests, figures.failures], [1, 1], 'rejected requests have no channel')
    })

    it('is ready again after a successful test', async () => {
      const { channel } = await failOnce()
      provider.answers()
      await relay.must(relay.api('GET', `/api/channel/test/${channel}`))
      assert.equal((await healthOf(channel)).state, 'ready')
      const { state, cooldown_until, cooldown_reason } = await ask(`/api/channel/${channel}`)
      assert.deepEqual([state, cooldown_until, cooldown_reason], ['enabled', null, ''])
      assert.equal(await needOf(channel), undefined)
    })

    it('stays enabled while another key is usable', async () => {
      const { channel } = await failOnce('another-key-0002')
      const health = await healthOf(channel)
      assert.deepEqual([health.state, health.keys.length], ['ready', 1])
      assert.equal((await ask(`/api/channel/${channel}`)).state, 'enabled')
      assert.equal(await needOf(channel), undefined)
    })
  })
