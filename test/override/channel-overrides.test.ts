import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { createCatalogSource } from '../../src/relay/catalog/sources.ts'
import { oneEngine } from '../support/gateway.ts'
import { startRecorder } from '../support/recorder.ts'
import { PROVIDER_KEY, suiteRelay } from '../support/relay.ts'

type Fields = Record<string, unknown>

const ask = (model: string, more: Fields = {}) => ({
  model,
  messages: [{ role: 'user', content: 'How are you?' }],
  ...more,
})

for (const engine of oneEngine('sqlite'))
  describe(`the overrides of a channel on ${engine}`, () => {
    const relay = suiteRelay(engine)
    let provider: Awaited<ReturnType<typeof startRecorder>>
    before(async () => {
      provider = await startRecorder()
    })
    after(async () => {
      await provider.close()
    })

    async function askThrough(
      fields: Fields,
      {
        body = {},
        headers = {},
        token = {},
      }: { body?: Fields; headers?: Record<string, string>; token?: Fields } = {},
    ) {
      const served = await relay.serve('sent-model', { base_url: provider.url, ...fields })
      const { id, key } = await relay.newToken(token)
      const before = provider.seen.length
      const reply = await relay.chat(key, ask(served.model, body), headers)
      return { reply, tokenId: id, ...served, asked: provider.seen.length - before }
    }

    const channelOf = async (id: number) => (await relay.api('GET', `/api/channel/${id}`)).body.data
    const auditOf = async (id: number) =>
      (await relay.gateway.db.selectFrom('audit').selectAll().where('target', '=', `channel:${id}`).execute())
        .map(row => JSON.stringify(row))
        .join('\n')

    describe('param_override', () => {
      it('sets members of the body in its plain form', async () => {
        const { reply } = await askThrough({ param_override: { temperature: 0, top_p: null } })
        assert.equal(reply.status, 200, reply.text)
        const { body } = provider.last()
        assert.equal(body.temperature, 0)
        assert.equal(body.top_p, null)
        assert.equal(body.model, 'sent-model')
      })

      it('applies operations under their conditions, to body and headers', async () => {
        const param_override = {
          operations: [
            {
              mode: 'prepend',
              path: 'messages',
              value: [{ role: 'system', content: 'Be kind.' }],
              conditions: [{ path: 'original_model', mode: 'prefix', value: 'case-' }],
            },
            {
              mode: 'set',
              path: 'never',
              value: 1,
              conditions: [{ path: 'model', mode: 'full', value: 'other' }],
            },
            { mode: 'delete', path: 'user' },
            { mode: 'pass_headers', value: ['x-session'] },
          ],
        }
        const { reply } = await askThrough(
          { param_override: JSON.stringify(param_override) },
          { body: { user: 'u' }, headers: { 'x-session': 's-1' } },
        )
        assert.equal(reply.status, 200, reply.text)
        const { body, headers } = provider.last()
        assert.deepEqual((body.messages as Fields[])[0], { role: 'system', content: 'Be kind.' })
        assert.equal('user' in body, false)
        assert.equal('never' in body, false)
        assert.equal(headers['x-session'], 's-1')
      })

      it('determines the hold, and refuses if the quota does not cover it', async () => {
        const param_override = { max_tokens: 1_000_000 }
        const body = { max_tokens: 1 }
        const short = await askThrough({ param_override }, { body, token: { remain_quota: 1_000 } })
        assert.equal(short.reply.status, 429, short.reply.text)
        assert.equal(short.reply.body.error.code, 'insufficient_quota')
        assert.equal(short.asked, 0)
        const enough = await askThrough({ param_override }, { body, token: { remain_quota: 5_000_000 } })
        assert.equal(enough.reply.status, 200, enough.reply.text)
        assert.equal(provider.last().body.max_tokens, 1_000_000)
      })

      it('responds in place of the provider, which is not called and not paid', async () => {
        const value = { message: 'this channel takes no such thing', status_code: 422, code: 'nope' }
        const {
          reply,
          asked: requestCount,
          tokenId,
        } = await askThrough({
          param_override: { operations: [{ mode: 'return_error', value }] },
        })
        assert.equal(reply.status, 422)
        assert.equal(reply.body.error.message, value.message)
        assert.equal(reply.body.error.code, 'nope')
        assert.equal(requestCount, 0)
        assert.equal((await relay.rowOf(tokenId)).cost, 0)
      })

      it('fails over to the next channel if it makes the request invalid', async () => {
        const model = 'two-ways'
        const broken = { operations: [{ mode: 'set', path: 'messages', value: 'none' }] }
        await relay.must(relay.api('POST', '/api/price/', { model, input: 1, output: 1 }))
        for (const [priority, param_override] of [
          [2, broken],
          [1, {}],
        ] as const)
          await relay.addChannel({ base_url: provider.url, models: [model], priority, param_override })
        const { key } = await relay.newToken()
        const reply = await relay.chat(key, ask(model))
        assert.equal(reply.status, 200, reply.text)
        assert.ok(Array.isArray(provider.last().body.messages))
      })

      it('is applied to a channel test too', async () => {
        const { channels } = await relay.serve('sent-model', {
          base_url: provider.url,
          param_override: { operations: [{ mode: 'set', path: 'metadata.tested', value: true }] },
        })
        const { body } = await relay.api('GET', `/api/channel/test/${channels[0]}`)
        assert.equal(body.success, true, JSON.stringify(body))
        assert.deepEqual(provider.last().body.metadata, { tested: true })
      })

      it('is refused with the path of the error', async () => {
        const refused = async (param_override: unknown, path: string) => {
          const channel = { name: 'x', type: 1, key: 'k', models: ['m'], param_override }
          const { status, body } = await relay.api('POST', '/api/channel/', { mode: 'single', channel })
          assert.equal(status, 400)
          assert.equal(body.errors[0].path, `channel.param_override${path}`)
        }
        await refused({ stream: true }, '.stream')
        await refused({ operations: [{ mode: 'set', path: 'model', value: 'x' }] }, '.operations.0.path')
        await refused(JSON.stringify({ operations: [{ mode: 'sett' }] }), '.operations.0.mode')
      })

      it('is refused with a regular expression that RE2 does not accept, which the message quotes', async () => {
        const channel = { name: 'x', type: 1, key: 'k', models: ['m'] }
        const add = async (overrides: Fields) =>
          (
            await relay.api('POST', '/api/channel/', {
              mode: 'single',
              channel: { ...channel, ...overrides },
            })
          ).body.errors[0]
        const operation = { mode: 'regex_replace', path: 'user', from: 'a(?=b)', to: '' }
        const param = await add({ param_override: { operations: [operation] } })
        assert.equal(param.path, 'channel.param_override.operations.0.from')
        assert.match(param.message, /RE2.*"a\(\?=b\)"/)
        const header = await add({ header_override: { 're:^x-(?!a)': '' } })
        assert.equal(header.path, 'channel.header_override.re:^x-(?!a)')
        assert.match(header.message, /RE2.*"\^x-\(\?!a\)"/)
      })

      it('stored with such an expression loses that operation only, with a warning', async () => {
        const { channels, model } = await relay.serve('sent-model', { base_url: provider.url })
        const [id = 0] = channels
        const { db } = relay.gateway
        const operations = [
          { mode: 'regex_replace', path: 'user', from: 'a(?=b)', to: 'x' },
          { mode: 'set', path: 'metadata.kept', value: true },
        ]
        const param_override = JSON.stringify({ operations })
        await db.updateTable('channels').set({ param_override }).where('id', '=', id).execute()
        const name = `renamed-${id}`
        await relay.must(relay.api('PUT', '/api/channel/', { id, name }))
        const { key } = await relay.newToken()
        assert.equal((await relay.chat(key, ask(model, { user: 'ab' }))).status, 200)
        assert.equal(provider.last().body.user, 'ab')
        assert.deepEqual(provider.last().body.metadata, { kept: true })

        const { data } = (await relay.api('GET', '/api/attention')).body
        const need = data.find(({ kind }: Fields) => kind === 'override_disabled')
        assert.deepEqual([need.level, need.target, need.name], ['warning', `channel:${id}`, name])
        assert.match(need.detail, /^param_override\.operations\.0\.from .*"a\(\?=b\)"/)

        const reports: unknown[] = []
        const source = createCatalogSource({
          db,
          keyring: { open: () => '' } as never,
          digest: () => '',
          shippedPrice: () => undefined,
          nowMs: Date.now,
          onUnreadable: () => {},
          onDisabledOverride: (channelId, reason) => reports.push([channelId, reason]),
        })
        await source.channelsOf([id])
        assert.deepEqual(reports, [[id, need.detail]])
      })
    })

    describe('header_override', () => {
      it('inserts the key and headers of the client, and omits those that the client did not send', async () => {
        await askThrough(
          {
            header_override: {
              'X-Upstream': 'Key {api_key}',
              'X-Session': 's/{client_header:X-Trace}/{client_header:x-span}',
              'X-Absent': 'a {client_header:x-nothing}',
            },
          },
          { headers: { 'x-trace': '1', 'x-span': '$&' } },
        )
        const { headers } = provider.last()
        assert.equal(headers['x-upstream'], `Key ${PROVIDER_KEY}`)
        assert.equal(headers['x-session'], 's/1/$&')
        assert.equal('x-absent' in headers, false)
        assert.equal('x-trace' in headers, false)
      })

      it('forwards the headers of the client by a pattern or all of them, and never its credentials', async () => {
        const clientHeaders = {
          'x-client-a': '1',
          'x-other': '2',
          'user-agent': 'its-own/1',
          cookie: 'session=1',
          'x-api-key': 'sk-other',
          'x-secret-thing': '3',
          'x-forwarded-for': '10.0.0.1',
          'proxy-authorization': 'Basic x',
        }
        await askThrough({ header_override: { 're:^X-Client-': '' } }, { headers: clientHeaders })
        const some = provider.last().headers
        assert.equal(some['x-client-a'], '1')
        assert.equal('x-other' in some, false)
        await askThrough({ header_override: { '*': '', 'X-Other': 'ours' } }, { headers: clientHeaders })
        const all = provider.last().headers
        assert.equal(all['x-client-a'], '1')
        assert.equal(all['x-other'], 'ours')
        assert.equal(all['user-agent'], 'its-own/1')
        assert.equal(all.authorization, `Bearer ${PROVIDER_KEY}`)
        for (const name of [
          'cookie',
          'x-api-key',
          'x-secret-thing',
          'x-forwarded-for',
          'proxy-authorization',
        ])
          assert.equal(name in all, false, name)
      })

      it('refuses to forward the client’s credential headers, by name', async () => {
        for (const header_override of [
          { 'X-A': '{client_header:Authorization}' },
          { 'X-A': 'x {client_header:x-api-key}' },
          { 'X-A': '{client_header:Transfer-Encoding}' },
          { 'X-A': '{client_header:bad name}' },
        ]) {
          const channel = { name: 'x', type: 1, key: 'k', models: ['m'], header_override }
          const { status, body } = await relay.api('POST', '/api/channel/', { mode: 'single', channel })
          assert.equal(status, 400)
          assert.equal(body.errors[0].path, 'channel.header_override.X-A')
        }
      })

      it('returns likely secrets masked, accepts the mask back, and keeps them out of the audit log', async () => {
        const secret = 'Bearer typed-in-secret-4711'
        const header_override = { Authorization: secret, 'X-Team': 'a', 'X-Key': '{api_key}' }
        const setting = { api_key: 'another-secret-0815', mirror: 'http://me:hidden-word@mirror:1' }
        const { channels, model } = await relay.serve('sent-model', {
          base_url: provider.url,
          header_override,
          setting,
        })
        const [id = 0] = channels
        const storedChannel = await channelOf(id)
        assert.notEqual(storedChannel.header_override.Authorization, secret)
        assert.match(storedChannel.header_override.Authorization, /…/)
        assert.equal(storedChannel.header_override['X-Team'], 'a')
        assert.equal(storedChannel.header_override['X-Key'], '{api_key}')

        const sentBack = { ...storedChannel.header_override, 'X-Team': 'b' }
        const update = { id, header_override: sentBack, setting: storedChannel.setting }
        await relay.must(relay.api('PUT', '/api/channel/', update))
        const { key } = await relay.newToken()
        assert.equal((await relay.chat(key, ask(model))).status, 200)
        assert.equal(provider.last().headers.authorization, secret)
        assert.equal(provider.last().headers['x-team'], 'b')
        const stored = await relay.gateway.db
          .selectFrom('channels')
          .select('setting')
          .where('id', '=', id)
          .executeTakeFirstOrThrow()
        assert.deepEqual(JSON.parse(stored.setting), setting)

        const wrong = await relay.api('PUT', '/api/channel/', {
          id,
          header_override: { Authorization: 'B…x' },
        })
        assert.equal(wrong.status, 400)
        assert.equal(wrong.body.errors[0].path, 'header_override.Authorization')
        const audited = await auditOf(id)
        assert.match(audited, /X-Team/)
        for (const word of ['typed-in-secret', 'another-secret', 'hidden-word'])
          assert.equal(audited.includes(word), false, word)
      })

      it('of a tag applies immediately, also if both values look the same once they are masked', async () => {
        const [first, second] = ['Bearer aaaa-secret-zzzz', 'Bearer aaaa-notice-zzzz']
        const { model } = await relay.serve('sent-model', {
          base_url: provider.url,
          tag: 'masked',
          header_override: { Authorization: first },
        })
        const header_override = { Authorization: second }
        await relay.must(relay.api('PUT', '/api/channel/tag', { tag: 'masked', header_override }))
        const { key } = await relay.newToken()
        await relay.chat(key, ask(model))
        assert.equal(provider.last().headers.authorization, second)
      })
    })

    describe('status_code_mapping', () => {
      const refusing = (status: number) =>
        provider.answers({ status, body: { error: { message: 'no', type: 'x', code: 'y' } } })
      after(() => provider.answers())

      it('determines the status for the client', async () => {
        refusing(418)
        const { reply } = await askThrough({ status_code_mapping: { '418': '422' } })
        assert.equal(reply.status, 422)
        assert.equal(reply.body.error.message, 'no')
      })

      it('determines whether the gateway fails over', async () => {
        refusing(500)
        const { reply } = await askThrough({ status_code_mapping: { '500': 400 } })
        assert.equal(reply.status, 400)
        refusing(400)
        const model = 'mapped-failover'
        await relay.must(relay.api('POST', '/api/price/', { model, input: 1, output: 1 }))
        const common = { models: [model], model_mapping: { [model]: 'sim-words-4' } }
        await relay.addChannel({
          ...common,
          base_url: provider.url,
          priority: 2,
          status_code_mapping: { '400': '503' },
        })
        await relay.addChannel({ ...common, priority: 1 })
        const { key } = await relay.newToken()
        assert.equal((await relay.chat(key, ask(model))).status, 200)
      })

      it('determines whether a key cools down', async () => {
        refusing(401)
        const { model, reply } = await askThrough({ status_code_mapping: { '401': '400' } })
        assert.equal(reply.status, 400)
        provider.answers()
        const { key } = await relay.newToken()
        assert.equal((await relay.chat(key, ask(model))).status, 200)
      })

      it('never turns a failure into a success, nor a success into a failure', async () => {
        for (const mapping of [{ '200': '500' }, { '500': '200' }, { '500': '302' }]) {
          const channel = { name: 'x', type: 1, key: 'k', models: ['m'], status_code_mapping: mapping }
          const { status, body } = await relay.api('POST', '/api/channel/', { mode: 'single', channel })
          assert.equal(status, 400)
          assert.equal(body.errors[0].path, `channel.status_code_mapping.${Object.keys(mapping)[0]}`)
        }
      })
    })
  })
