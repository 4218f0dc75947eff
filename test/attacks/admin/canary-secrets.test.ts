import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { oneEngine } from '../../support/gateway.ts'
import { suiteRelay } from '../../support/relay.ts'

const KEY_OF_ROOT = 'key-of-root-that-no-admin-knows-8181'

for (const engine of oneEngine('sqlite'))
  describe(`the secrets of a channel, against an Admin with a canary on ${engine}`, () => {
    const relay = suiteRelay(engine)
    const must: typeof relay.must = reply => relay.must(reply)
    /** The same simulator under another origin: it stands for the server of the Admin. */
    const foreign = () => relay.upstream.replace('127.0.0.1', 'localhost')
    const ask = (key: string, model: string) =>
      relay.chat(key, { model, messages: [{ role: 'user', content: 'Hi' }] })

    type Fields = Readonly<Record<string, unknown>>
    /** What the Admin sets up before Root takes the channel over, and how. */
    const TRAPS: Readonly<Record<string, () => { channel: Fields; canary: Fields; takeover: Fields }>> = {
      'another path of a server that Root replaces': () => ({
        channel: { base_url: foreign() },
        canary: { base_url: `${foreign()}/v1` },
        takeover: { base_url: relay.upstream },
      }),
      'a setting beside a proxy that Root removes': () => ({
        channel: { setting: { proxy: 'http://127.0.0.1:9' } },
        canary: { setting: { proxy: 'http://127.0.0.1:9', timeouts: { connect_ms: 5_000 } } },
        takeover: { setting: {} },
      }),
      'a header beside a copy of the key that Root removes': () => ({
        channel: { header_override: { 'x-copy': '{api_key}' } },
        canary: { header_override: { 'x-copy': '{api_key}', 'x-team': 'a' } },
        takeover: { header_override: {} },
      }),
    }

    for (const [how, trap] of Object.entries(TRAPS))
      it(`are not sent elsewhere by ${how}`, async () => {
        const admin = await relay.gateway.createUser({ role: 10 })
        const { channel, canary, takeover } = trap()
        const { model, channels } = await relay.serve('sim-ok', channel)
        const { id: tokenId, key } = await relay.newToken()
        const start = { kind: 'channel', channel_id: channels[0], changes: canary }
        const { id } = await must(relay.api('POST', '/api/canary/', start, { token: admin.accessToken }))
        await must(relay.api('PUT', '/api/channel/', { id: channels[0], key: KEY_OF_ROOT, ...takeover }))
        assert.equal((await ask(key, model)).status, 200)
        assert.equal((await relay.rowOf(tokenId)).other.canary, undefined)
        const { drift } = await must(relay.api('GET', `/api/canary/${id}`))
        assert.equal(drift.at(-1), 'secrets')
      })
  })
