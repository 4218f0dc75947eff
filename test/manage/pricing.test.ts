import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { insertAlias } from '../../src/store/records/aliases.ts'
import { insertChannels, writeModels } from '../../src/store/records/channels.ts'
import { oneEngine, suiteGateway } from '../support/gateway.ts'

type Entry = Readonly<Record<string, unknown>> & { readonly model_name: string }

const nowS = () => Math.floor(Date.now() / 1000)

/** The fields that clients read of an entry, and beside the entries (reference 13.2). */
const READ_OF_ENTRY = {
  model_name: 'string',
  vendor_id: 'number',
  quota_type: 'number',
  model_ratio: 'number',
  model_price: 'number',
  completion_ratio: 'number',
  owner_by: 'string',
  owned_by: 'string',
} as const
const READ_BESIDE = [
  'group_ratio',
  'usable_group',
  'vendors',
  'supported_endpoint',
  'pricing_version',
] as const

for (const engine of oneEngine('sqlite')) {
  describe(`pricing on ${engine} (docs/reference/management-api.md: Pricing)`, () => {
    const gateway = suiteGateway({ engine })

    type Channel = { models: string[]; mapping?: Record<string, string>; status?: number; priority?: number }

    const addChannel = ({ models, mapping = {}, status = 1, priority = 0 }: Channel): Promise<number> =>
      gateway.db.transaction().execute(async trx => {
        const [id] = await insertChannels(trx, [
          {
            name: 'channel',
            type: 1,
            base_url: '',
            models: JSON.stringify(models),
            model_mapping: JSON.stringify(mapping),
            priority,
            weight: 0,
            status,
            status_reason: '',
            tag: null,
            channel_group: 'default',
            created_time: 0,
            test_time: 0,
            response_time: 0,
            used: 0,
            auto_ban: 1,
            test_model: '',
            param_override: '{}',
            header_override: '{}',
            status_code_mapping: '{}',
            setting: '{}',
            openai_organization: '',
            other: '',
            remark: '',
            limits: '{}',
            is_multi: 0,
          },
        ])
        assert.ok(id)
        await writeModels(trx, [id], models)
        return id
      })
    const addAlias = (name: string, target: string, channelIds: number[] | null = null, status = 1) =>
      gateway.db.transaction().execute(trx =>
        insertAlias(trx, {
          name,
          target,
          channel_ids: channelIds === null ? null : JSON.stringify(channelIds),
          status,
          created_time: 0,
        }),
      )
    const newKey = async (fields: object = {}) =>
      (await gateway.api('POST', '/api/token/', { name: 'key', ...fields })).body.data as {
        id: number
        key: string
      }
    const ask = (token: string | null) => gateway.api('GET', '/api/pricing', undefined, { token })
    const entries = async (token?: string) => {
      const { status, body, text } = await gateway.api(
        'GET',
        '/api/pricing',
        undefined,
        token ? { token } : {},
      )
      assert.equal(status, 200, text)
      return new Map((body.data as Entry[]).map(entry => [entry.model_name, entry]))
    }
    const entry = async (name: string) => (await entries()).get(name)
    const setPrice = async (body: object) => {
      const { status, text } = await gateway.api('POST', '/api/price/', body)
      assert.equal(status, 200, text)
    }

    it('needs a credential, and reports that in the relay’s error format', async () => {
      for (const token of [null, 'sk-unknown', 'sat-unknown', 'nonsense']) {
        const { status, body } = await ask(token)
        assert.equal(status, 401)
        assert.equal(body.error.code, 'invalid_api_key')
        assert.equal(body.error.type, 'invalid_request_error')
        assert.equal(body.error.param, null)
        assert.equal(typeof body.error.message, 'string')
      }
    })

    it('refuses tokens that are disabled, expired or deleted, and tokens of disabled users', async () => {
      const disabled = await newKey()
      await gateway.api('PUT', '/api/token/', { id: disabled.id, status: 2 })
      const deleted = await newKey()
      await gateway.api('DELETE', `/api/token/${deleted.id}`)
      const expired = await newKey()
      await gateway.db
        .updateTable('tokens')
        .set({ expired_time: nowS() - 1 })
        .where('id', '=', expired.id)
        .execute()
      const user = await gateway.createUser()
      const { body } = await gateway.api(
        'POST',
        '/api/token/',
        { name: 'theirs' },
        { token: user.accessToken },
      )
      await gateway.api('POST', '/api/user/manage', { id: user.id, action: 'disable' })
      for (const key of [disabled.key, deleted.key, expired.key, body.data.key]) {
        const refused = await ask(key)
        assert.equal(refused.status, 401)
        assert.equal(refused.body.error.code, 'invalid_api_key')
      }
    })

    it('refuses a token from a disallowed address with 403 ip_not_allowed', async () => {
      const away = await newKey({ allow_ips: ['203.0.113.0/24'] })
      const refused = await ask(away.key)
      assert.equal(refused.status, 403)
      assert.equal(refused.body.error.code, 'ip_not_allowed')
      const here = await newKey({ allow_ips: ['127.0.0.0/8', '::1'] })
      assert.equal((await ask(here.key)).status, 200)
    })

    it('is the same for an sk- token, a system access token and a session', async () => {
      await addChannel({ models: ['gpt-4o', 'house-model'] })
      const { key } = await newKey({ remain_quota: 0 })
      const login = await gateway.api(
        'POST',
        '/api/user/login',
        { username: 'root', password: 'test root password' },
        { token: null },
      )
      const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? ''
      const user = await gateway.createUser()
      const byKey = await ask(key)
      const bySession = await gateway.api('GET', '/api/pricing', undefined, {
        token: null,
        headers: { cookie },
      })
      assert.equal(byKey.status, 200)
      assert.ok(byKey.body.data.length >= 2)
      assert.deepEqual(bySession.body, byKey.body)
      assert.deepEqual((await ask(user.accessToken)).body, byKey.body)
      assert.deepEqual((await gateway.api('GET', '/api/pricing/')).body, byKey.body)
    })

    it('can be read by existing clients', async () => {
      await addChannel({ models: ['gpt-4o-mini', 'dall-e-3', 'text-embedding-3-small'] })
      const { body } = await gateway.api('GET', '/api/pricing')
      assert.equal(body.success, true)
      assert.equal(body.message, '')
      for (const name of READ_BESIDE) assert.ok(name in body, name)
      assert.deepEqual(body.group_ratio, { default: 1 })
      assert.deepEqual(Object.keys(body.usable_group), ['default'])
      const vendorIds = new Set(body.vendors.map((vendor: { id: number }) => vendor.id))
      for (const modelEntry of body.data as Entry[]) {
        for (const [name, type] of Object.entries(READ_OF_ENTRY))
          assert.equal(typeof modelEntry[name], type, `${name} of ${modelEntry.model_name}`)
        assert.deepEqual(modelEntry.enable_groups, ['default'])
        assert.ok(vendorIds.has(modelEntry.vendor_id))
        for (const kind of modelEntry.supported_endpoint_types as string[])
          assert.ok(kind in body.supported_endpoint)
      }
      const names = (body.data as Entry[]).map(modelEntry => modelEntry.model_name)
      assert.deepEqual(names, [...names].sort())
    })

    it('returns input and output in dollars per million tokens, and as ratios', async () => {
      await addChannel({ models: ['ours'] })
      await setPrice({ model: 'ours', input: 2.5, output: 10, cached_input: 1.25, cache_write: 3.125 })
      const modelEntry = await entry('ours')
      assert.equal(modelEntry?.input, 2.5)
      assert.equal(modelEntry?.output, 10)
      assert.equal(modelEntry?.cached_input, 1.25)
      assert.equal(modelEntry?.cache_write, 3.125)
      assert.equal(modelEntry?.input_price_per_million, 2.5)
      assert.equal(modelEntry?.output_price_per_million, 10)
      assert.equal(modelEntry?.model_ratio, 1.25)
      assert.equal(modelEntry?.completion_ratio, 4)
      assert.equal(modelEntry?.cache_ratio, 0.5)
      assert.equal(modelEntry?.create_cache_ratio, 1.25)
      assert.equal(modelEntry?.quota_type, 0)
      assert.equal(modelEntry?.model_price, 0)
      assert.equal(modelEntry?.unpriced, false)
    })

    it('returns other units of price, and the endpoint of the model', async () => {
      const models = [
        'painter',
        'film',
        'speaker',
        'listener',
        'bge-rerank-x',
        'vectors',
        'per-call',
        'talker',
      ]
      await addChannel({ models })
      await setPrice({ model: 'painter', image: 0.04 })
      await setPrice({ model: 'film', per_second: 0.1 })
      await setPrice({ model: 'speaker', per_character: 0.000015 })
      await setPrice({ model: 'listener', per_minute: 0.006 })
      await setPrice({ model: 'bge-rerank-x', per_search: 0.002 })
      await setPrice({ model: 'vectors', input: 0.02 })
      await setPrice({ model: 'per-call', per_call: 0.5 })
      await setPrice({ model: 'talker', input: 1, output: 2, per_search: 0.01 })
      const all = await entries()
      const kinds = models.flatMap(name => all.get(name)?.supported_endpoint_types)
      assert.deepEqual(kinds, [
        'image-generation',
        'openai-video',
        'audio-speech',
        'audio-transcription',
        'jina-rerank',
        'embeddings',
        'openai',
        'openai',
      ])
      assert.deepEqual(
        models.map(name => all.get(name)?.quota_type),
        [1, 1, 1, 1, 1, 0, 1, 0],
      )
      assert.equal(all.get('per-call')?.per_call, 0.5)
      assert.equal(all.get('per-call')?.model_price, 0.5)
      assert.equal(all.get('per-call')?.input_price_per_million, 0)
    })

    it('lists models without a price and marks them', async () => {
      await addChannel({ models: ['nobody-knows-it'] })
      const modelEntry = await entry('nobody-knows-it')
      assert.equal(modelEntry?.unpriced, true)
      assert.equal(modelEntry?.input_price_per_million, null)
      assert.equal('input' in (modelEntry ?? {}), false)
      assert.equal(modelEntry?.owned_by, 'custom')
    })

    it('lists models that enabled channels serve, and nothing else', async () => {
      await addChannel({ models: ['by-hand-off'], status: 2 })
      await addChannel({ models: ['gateway-off'], status: 3 })
      await addChannel({ models: ['twice'] })
      await addChannel({ models: ['twice'] })
      const { body } = await gateway.api('GET', '/api/pricing')
      const names = (body.data as Entry[]).map(modelEntry => modelEntry.model_name)
      assert.equal(names.includes('by-hand-off'), false)
      assert.equal(names.includes('gateway-off'), false)
      assert.equal(names.filter(name => name === 'twice').length, 1)
    })

    it('lists aliases while a channel backs them', async () => {
      const one = await addChannel({ models: ['backed'] })
      const other = await addChannel({ models: ['elsewhere'] })
      const off = await addChannel({ models: ['backed', 'dark'], status: 2 })
      await addAlias('alias-any', 'backed')
      await addAlias('alias-empty', 'backed', [])
      await addAlias('alias-here', 'backed', [one])
      await addAlias('alias-chained', 'alias-here')
      await addAlias('alias-there', 'backed', [other])
      await addAlias('alias-sleeping', 'backed', [off])
      await addAlias('alias-narrowed', 'alias-here', [other])
      await addAlias('alias-dark', 'dark')
      await addAlias('alias-nothing', 'no-channel-lists-this')
      await addAlias('alias-disabled', 'backed', null, 2)
      const names = [...(await entries()).keys()].filter(name => name.startsWith('alias-'))
      assert.deepEqual(names, ['alias-any', 'alias-chained', 'alias-empty', 'alias-here'])
    })

    it('prefers an alias over a listed model of the same name', async () => {
      await addChannel({ models: ['shadowed', 'real'] })
      await addAlias('shadowed', 'real')
      await setPrice({ model: 'real', input: 7 })
      assert.equal((await entry('shadowed'))?.input, 7)
      await addChannel({ models: ['lost'] })
      await addAlias('lost', 'no-channel-lists-this-either')
      assert.equal(await entry('lost'), undefined)
    })

    it('uses the price of the requested name, else of the alias’s target, else of the name a channel maps to', async () => {
      await addChannel({ models: ['mapped-model'], mapping: { 'mapped-model': 'step', step: 'sent-model' } })
      await addAlias('asked', 'mapped-model')
      assert.equal((await entry('asked'))?.unpriced, true)
      await setPrice({ model: 'sent-model', input: 1 })
      assert.equal((await entry('asked'))?.input, 1)
      assert.equal((await entry('mapped-model'))?.input, 1)
      await setPrice({ model: 'mapped-model', input: 2 })
      assert.equal((await entry('asked'))?.input, 2)
      assert.equal((await entry('mapped-model'))?.input, 2)
      await setPrice({ model: 'asked', input: 3 })
      assert.equal((await entry('asked'))?.input, 3)
      assert.equal((await entry('mapped-model'))?.input, 2)
    })

    it('uses the mapping of the channel that is tried first, and of no unavailable channel', async () => {
      await setPrice({ model: 'cheap', input: 1 })
      await setPrice({ model: 'dear', input: 9 })
      await addChannel({ models: ['chosen'], mapping: { chosen: 'cheap' }, priority: 1 })
      await addChannel({ models: ['chosen'], mapping: { chosen: 'dear' }, priority: 5 })
      assert.equal((await entry('chosen'))?.input, 9)
      await addChannel({ models: ['unmapped'] })
      await addChannel({ models: ['unmapped'], mapping: { unmapped: 'dear' }, status: 2 })
      await addChannel({ models: ['another'], mapping: { unmapped: 'dear' } })
      assert.equal((await entry('unmapped'))?.unpriced, true)
    })

    it('shows a token with model limits only its own models', async () => {
      await addChannel({ models: ['limit-a', 'limit-b'] })
      await addAlias('limit-alias', 'limit-b')
      const limited = await newKey({
        model_limits_enabled: true,
        models: ['limit-a', 'limit-alias', 'unserved'],
      })
      assert.deepEqual([...(await entries(limited.key)).keys()], ['limit-a', 'limit-alias'])
      const switchedOff = await newKey({ model_limits_enabled: false, models: ['limit-a'] })
      assert.ok((await entries(switchedOff.key)).has('limit-b'))
      const nothing = await newKey({ model_limits_enabled: true, models: [] })
      assert.equal((await entries(nothing.key)).size, 0)
    })

    it('has another version if and only if a price differs', async () => {
      const version = async () => (await gateway.api('GET', '/api/pricing')).body.pricing_version
      await addChannel({ models: ['moving'] })
      const start = await version()
      assert.equal(await version(), start)
      await setPrice({ model: 'moving', input: 1 })
      assert.notEqual(await version(), start)
    })

    it('has a plain list of names for people, in order', async () => {
      const user = await gateway.createUser()
      const { status, body } = await gateway.api('GET', '/api/user/models', undefined, {
        token: user.accessToken,
      })
      assert.equal(status, 200)
      assert.deepEqual(body.data, [...(await entries()).keys()])
      assert.ok(body.data.includes('alias-any'))
      assert.equal((await gateway.api('GET', '/api/user/models', undefined, { token: null })).status, 401)
    })

    it('is not found under a newer name that clients try first', async () => {
      const { status, body } = await gateway.api('GET', '/api/pricing_new')
      assert.equal(status, 404)
      assert.equal(body.success, false)
    })
  })
}
