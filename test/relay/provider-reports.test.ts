import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { oneEngine } from '../support/gateway.ts'
import { startRecorder } from '../support/recorder.ts'
import { PROVIDER_KEY, suiteRelay } from '../support/relay.ts'

const MESSAGES = [{ role: 'user', content: 'Hello' }]
const LIMIT = {
  status: 429,
  headers: { 'retry-after': '7', 'x-request-id': 'req_limit' },
  body: {
    error: {
      message: `Rate limit of org-42 for ${PROVIDER_KEY}. ${'x'.repeat(600)}`,
      code: 'rate_limit_exceeded',
    },
  },
}
const BAD_KEY = {
  status: 401,
  headers: { 'request-id': 'req_key' },
  body: {
    error: { message: 'Key of org-42 was revoked.', type: 'authentication_error', code: 'key_revoked' },
  },
}

for (const engine of oneEngine('sqlite'))
  describe(`the error report of a provider whose attempt failed, on ${engine}`, () => {
    const relay = suiteRelay(engine)
    const providers: Awaited<ReturnType<typeof startRecorder>>[] = []
    before(async () => {
      for (const answer of [LIMIT, BAD_KEY]) {
        const provider = await startRecorder()
        provider.answers(answer)
        providers.push(provider)
      }
    })
    after(() => Promise.all(providers.map(provider => provider.close())))

    async function failAtBoth() {
      const [limited, rejected] = providers
      const { model, channels } = await relay.serve(['first', 'second'], { base_url: limited?.url })
      const change = { id: channels[1], base_url: rejected?.url, key: PROVIDER_KEY }
      await relay.must(relay.gateway.api('PUT', '/api/channel/', change))
      const { accessToken } = await relay.gateway.createUser({ quota: 1_000_000 })
      const token = await relay.newToken({}, accessToken)
      const reply = await relay.chat(token.key, { model, messages: MESSAGES })
      assert.equal(reply.status, 502, reply.text)
      return { ...token, accessToken, channels, reply }
    }

    it('is stored for every attempt, masked and truncated', async () => {
      const { id, channels } = await failAtBoth()
      const { other } = await relay.rowOf(id)
      const [first, second] = other.trace.attempts
      const { message, ...limit } = first.provider
      assert.deepEqual(limit, {
        status: 429,
        code: 'rate_limit_exceeded',
        request_id: 'req_limit',
        retry_after_s: 7,
      })
      assert.equal(message.length, 500)
      assert.match(message, /^Rate limit of org-42 for /)
      assert.ok(!message.includes(PROVIDER_KEY))
      assert.deepEqual(
        [second.channel, second.provider],
        [
          channels[1],
          { status: 401, code: 'key_revoked', message: 'Key of org-42 was revoked.', request_id: 'req_key' },
        ],
      )
    })

    it('is summarized for the client by status and code, with the message only if the setting allows it', async () => {
      const { reply } = await failAtBoth()
      assert.equal(reply.body.error.message, 'All channels failed (last: 401 key_revoked). Try again later.')
      await relay.set({ expose_provider_messages: true })
      const exposed = await failAtBoth()
      assert.equal(
        exposed.reply.body.error.message,
        'All channels failed (last: 401 key_revoked). The provider reported: Key of org-42 was revoked.',
      )
      await relay.set({ expose_provider_messages: null })
    })

    it('is shown to administrators and not to the user', async () => {
      const { id, accessToken } = await failAtBoth()
      await relay.rowOf(id)
      const logs = async (path: string, token?: string) =>
        (await relay.api('GET', `${path}?token_id=${id}`, undefined, token === undefined ? {} : { token }))
          .text
      assert.match(await logs('/api/log/'), /Rate limit of org-42/)
      const own = await logs('/api/log/self/', accessToken)
      assert.match(own, /All channels failed/)
      assert.doesNotMatch(own, /org-42|req_limit|req_key/)
    })
  })
