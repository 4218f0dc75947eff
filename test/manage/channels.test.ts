import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { oneEngine } from '../support/engines.ts'
import { type Gateway, type Reply, suiteGateway } from '../support/gateway.ts'

const SECRET = 'sk-upstream-secret-0123456789'

for (const engine of oneEngine('sqlite')) {
  describe(`channels on ${engine} (docs/reference/management-api.md: Channels)`, () => {
    const gateway = suiteGateway({ engine })
    let api: Gateway['api']
    before(async () => {
      api = gateway.api
    })

    const plain = { name: 'plain', type: 1, key: SECRET, models: ['model-a', 'model-b'] }
    const make = async (fields: object = {}, mode = 'single') => {
      const { status, body, text } = await api('POST', '/api/channel/', {
        mode,
        channel: { ...plain, ...fields },
      })
      assert.equal(status, 200, text)
      return body.data
    }
    const get = async (id: number) => (await api('GET', `/api/channel/${id}`)).body.data
    const count = async () => (await api('GET', '/api/channel/')).body.data.total as number
    const revealed = async (id: number) => (await api('POST', `/api/channel/${id}/key`)).body.data.key
    const modelRows = async (id: number) =>
      (await gateway.db.selectFrom('channel_models').select('model').where('channel_id', '=', id).execute())
        .map(row => row.model)
        .sort()
    const refused = (reply: Reply, path: string) => {
      assert.equal(reply.status, 400, reply.text)
      assert.equal(reply.body.code, 'invalid_request')
      assert.ok(
        reply.body.errors.some((error: { path: string }) => error.path === path),
        `${reply.text} names ${path}`,
      )
    }

    it('are created with one key in mode single, and returned with every field of the contract', async () => {
      const channel = await make()
      const { id, created_time, key, keys, ...rest } = channel
      assert.ok(id > 0)
      assert.ok(created_time > 1_700_000_000)
      assert.match(key, /^sk-.*….*$/)
      assert.deepEqual(keys, [{ index: 0, key, status: 1, reason: '', disabled_time: 0 }])
      assert.deepEqual(rest, {
        name: 'plain',
        type: 1,
        base_url: '',
        models: ['model-a', 'model-b'],
        model_mapping: {},
        priority: 0,
        weight: 0,
        status: 1,
        status_reason: '',
        state: 'enabled',
        cooldown_until: null,
        cooldown_reason: '',
        tag: null,
        group: 'default',
        test_time: 0,
        response_time: 0,
        used_quota: 0,
        vendor_cost: '0',
        vendor_cost_difference: '0',
        auto_ban: 1,
        test_model: '',
        param_override: {},
        header_override: {},
        status_code_mapping: {},
        setting: {},
        openai_organization: '',
        other: '',
        remark: '',
        limits: { rpm: null, tpm: null, concurrency: null },
        channel_info: {
          is_multi_key: false,
          multi_key_size: 1,
          multi_key_status_list: null,
          multi_key_mode: '',
        },
      })
      assert.deepEqual(await get(id), channel)
      assert.deepEqual(await modelRows(id), ['model-a', 'model-b'])
      assert.equal(await revealed(id), SECRET)
    })

    it('are created from the joined strings of existing clients as from arrays and objects', async () => {
      const strings = await make({
        models: ' model-a, model-b ,,model-a\n',
        group: 'default,vip',
        model_mapping: '{"model-a":"upstream-a"}',
        auto_ban: false,
        tag: '',
      })
      const arrays = await make({
        models: ['model-a', 'model-b'],
        group: ['default', 'vip'],
        model_mapping: { 'model-a': 'upstream-a' },
        auto_ban: 0,
        tag: null,
      })
      for (const channel of [strings, arrays]) {
        assert.deepEqual(channel.models, ['model-a', 'model-b'])
        assert.deepEqual(channel.model_mapping, { 'model-a': 'upstream-a' })
        assert.equal(channel.group, 'default,vip')
        assert.equal(channel.auto_ban, 0)
        assert.equal(channel.tag, null)
      }
    })

    it('are required as a field if neither form was sent', async () => {
      for (const body of [{}, { mode: 'single' }, { mode: 'batch', channel: null }]) {
        const reply = await api('POST', '/api/channel/', body)
        assert.deepEqual([reply.status, reply.body.message], [400, 'channel is required'])
      }
    })

    it('are created from a flat body without mode, ignoring extra headers and fields of existing clients', async () => {
      const { status, body } = await api(
        'POST',
        '/api/channel/',
        {
          ...plain,
          id: 4711,
          name: 'flat',
          priority: null,
          weight: null,
          balance: 12.5,
          other_info: '{}',
          settings: '{}',
          channel_info: { is_multi_key: true },
        },
        { headers: { 'New-Api-User': '1', 'Veloera-User': '1' } },
      )
      assert.equal(status, 200)
      assert.notEqual(body.data.id, 4711)
      assert.equal(body.data.name, 'flat')
      assert.equal(body.data.channel_info.is_multi_key, false)
    })

    it('are served with and without a trailing slash', async () => {
      const { status, body } = await api('POST', '/api/channel', { mode: 'single', channel: plain })
      assert.equal(status, 200)
      assert.equal((await api('GET', `/api/channel/${body.data.id}/`)).status, 200)
    })

    it('keep a key with commas intact in mode single', async () => {
      const channel = await make({ key: ' one-part,another-part ' })
      assert.equal(channel.channel_info.is_multi_key, false)
      assert.equal(await revealed(channel.id), 'one-part,another-part')
    })

    it('are created per key in mode batch, with numbered names and trimmed, unique keys', async () => {
      const channels = await make(
        { name: 'batch', key: ' batch-key-1, batch-key-2\n\nbatch-key-1\r\nbatch-key-3,', tag: 'together' },
        'batch',
      )
      assert.deepEqual(
        channels.map((channel: { name: string }) => channel.name),
        ['batch', 'batch 2', 'batch 3'],
      )
      for (const [index, channel] of channels.entries()) {
        assert.equal(channel.tag, 'together')
        assert.equal(channel.channel_info.is_multi_key, false)
        assert.equal(await revealed(channel.id), `batch-key-${index + 1}`)
        assert.deepEqual(await modelRows(channel.id), ['model-a', 'model-b'])
      }
    })

    it('keep the names of a batch within the length limit', async () => {
      const [first, second] = await make({ name: 'n'.repeat(100), key: 'long-name-1,long-name-2' }, 'batch')
      assert.equal(first.name, 'n'.repeat(100))
      assert.equal(second.name, `${'n'.repeat(98)} 2`)
    })

    it('have several keys in mode multi_to_single', async () => {
      const channel = await make({ key: 'multi-key-1,multi-key-2\nmulti-key-3' }, 'multi_to_single')
      assert.equal(channel.keys.length, 3)
      assert.deepEqual(
        channel.keys.map((key: { index: number }) => key.index),
        [0, 1, 2],
      )
      assert.deepEqual(channel.channel_info, {
        is_multi_key: true,
        multi_key_size: 3,
        multi_key_status_list: {},
        multi_key_mode: 'polling',
      })
      assert.equal(await revealed(channel.id), 'multi-key-1\nmulti-key-2\nmulti-key-3')
    })

    it('parse JSON keys as JSON if several keys are allowed', async () => {
      const account = { type: 'service_account', project_id: 'p1', private_key: 'a,b\nc' }
      const array = await make({ type: 41, key: JSON.stringify([account, 'plain-key']) }, 'multi_to_single')
      assert.equal(await revealed(array.id), `${JSON.stringify(account)}\nplain-key`)
      const object = await make({ type: 41, key: JSON.stringify(account, null, 2) }, 'multi_to_single')
      assert.equal(object.keys.length, 1)
      assert.deepEqual(JSON.parse(await revealed(object.id)), account)
      const lines = `${JSON.stringify(account)}\n${JSON.stringify({ ...account, project_id: 'p2' })}`
      assert.equal((await make({ type: 41, key: lines }, 'batch')).length, 2)
    })

    it('are all created or none: with one invalid key in a batch nothing is written', async () => {
      const before = await count()
      const bad = [
        'good-key-1,kéy-that-no-header-carries',
        'good-key-1\ngood\u0007key',
        `good-key-1,${'x'.repeat(20_000)}`,
        'good-key-1,sk-a…masked',
        '["good-key-1",7]',
        '{"broken": ',
      ]
      for (const key of bad)
        refused(
          await api('POST', '/api/channel/', { mode: 'batch', channel: { ...plain, key } }),
          'channel.key',
        )
      assert.equal(await count(), before)
      const keys = await gateway.db.selectFrom('channel_keys').select('hint').execute()
      assert.ok(keys.every(({ hint }) => !hint.startsWith('good')))
    })

    it('accept at most a thousand keys at once, duplicates and blanks not counted', async () => {
      const keys = Array.from({ length: 1_001 }, (_, index) => `many-key-${index}`)
      const tooMany = { ...plain, key: keys.join('\n') }
      refused(await api('POST', '/api/channel/', { mode: 'batch', channel: tooMany }), 'channel.key')
      const fits = [...keys.slice(1), ...keys.slice(1, 50), '', ' '].join(',')
      const channel = await make({ key: fits }, 'multi_to_single')
      assert.equal(channel.keys.length, 1_000)
    })

    it('are created for a batch of many keys in one call', async () => {
      const keys = Array.from({ length: 300 }, (_, index) => `batch-of-300-${index}`)
      const channels = await make(
        { name: 'large', key: keys.join('\n'), models: ['m1', 'm2', 'm3'] },
        'batch',
      )
      assert.equal(channels.length, 300)
      assert.equal(channels.at(-1).name, 'large 300')
      assert.equal(await revealed(channels.at(-1).id), 'batch-of-300-299')
      assert.deepEqual(await modelRows(channels[150].id), ['m1', 'm2', 'm3'])
      const { body } = await api('POST', '/api/channel/batch', {
        ids: channels.map((channel: { id: number }) => channel.id),
      })
      assert.equal(body.data, 300)
    })

    it('need a name, a known type and a key, each reported by its path in the body', async () => {
      const wrapped = (channel: object, mode = 'single') => api('POST', '/api/channel/', { mode, channel })
      const { name: _name, ...nameless } = plain
      const { type: _type, ...typeless } = plain
      const { key: _key, ...keyless } = plain
      refused(await wrapped(nameless), 'channel.name')
      refused(await wrapped({ ...plain, name: '  ' }), 'channel.name')
      refused(await wrapped({ ...plain, name: 'n'.repeat(101) }), 'channel.name')
      refused(await wrapped(typeless), 'channel.type')
      refused(await wrapped({ ...plain, type: 29 }), 'channel.type')
      refused(await wrapped({ ...plain, type: 'openai' }), 'channel.type')
      refused(await wrapped(keyless), 'channel.key')
      refused(await wrapped({ ...plain, key: ' , ' }, 'batch'), 'channel.key')
      refused(await api('POST', '/api/channel/', keyless), 'key')
      refused(await api('POST', '/api/channel/', nameless), 'name')
      refused(await wrapped(plain, 'several'), 'mode')
      assert.equal((await wrapped({ ...plain, name: '名'.repeat(100) })).status, 200)
    })

    it('need no key for a provider that runs locally', async () => {
      const channel = await make({ type: 4, key: '', name: 'local' })
      assert.equal(channel.key, '')
      assert.deepEqual(channel.keys, [])
      const cloud = await api('PUT', '/api/channel/', { id: channel.id, type: 1 })
      refused(cloud, 'key')
      assert.equal((await get(channel.id)).type, 4)
    })

    it('may list no models yet', async () => {
      const channel = await make({ models: [] })
      assert.deepEqual(channel.models, [])
      assert.deepEqual(await modelRows(channel.id), [])
      const { models: _models, ...withoutModels } = plain
      const { body } = await api('POST', '/api/channel/', withoutModels)
      assert.deepEqual(body.data.models, [])
    })

    it('are changed in the given fields and keep the rest', async () => {
      const channel = await make({ priority: 5, weight: 7, remark: 'stays', tag: 'tagged' })
      const { status, body } = await api('PUT', '/api/channel/', {
        id: channel.id,
        weight: 0,
        models: 'only',
      })
      assert.equal(status, 200)
      assert.deepEqual(body.data, { ...channel, weight: 0, models: ['only'] })
      assert.deepEqual(await get(channel.id), body.data)
      assert.deepEqual(await modelRows(channel.id), ['only'])
    })

    it('stay unchanged when the complete object is sent back', async () => {
      const single = await make({
        key: 'sent-back-key-1',
        base_url: 'https://upstream.example/v1',
        model_mapping: { a: 'b' },
        param_override: { temperature: 0 },
        header_override: { 'x-team': '{api_key}' },
        status_code_mapping: { '400': '500' },
        setting: { timeouts: { total_ms: 0 }, proxy: '' },
        limits: { rpm: 60 },
        tag: 'sent-back',
      })
      const multi = await make({ key: 'sent-back-key-2,sent-back-key-3' }, 'multi_to_single')
      const account = JSON.stringify({ type: 'a', project_id: 'p', more: 'x'.repeat(50) })
      const json = await make(
        { type: 41, key: `[${account},${account.replace('p', 'q')}]` },
        'multi_to_single',
      )
      for (const channel of [single, multi, json]) {
        const keys = await revealed(channel.id)
        const { status, body } = await api('PUT', '/api/channel/', channel)
        assert.equal(status, 200)
        assert.deepEqual(body.data, channel)
        assert.equal(await revealed(channel.id), keys)
      }
    })

    it('keep their key if an update has none, an empty or a masked one', async () => {
      const channel = await make({ key: 'kept-key-0123456789' })
      for (const key of [undefined, null, '', '  ', channel.key, 'sk-other…mask']) {
        const { status } = await api('PUT', '/api/channel/', { id: channel.id, name: 'renamed', key })
        assert.equal(status, 200)
        assert.equal(await revealed(channel.id), 'kept-key-0123456789')
      }
    })

    it('accept a new key as a replacement, or several if they have several', async () => {
      const single = await make({ key: 'old-key-of-single' })
      await api('PUT', '/api/channel/', { id: single.id, key: 'new,key' })
      assert.equal(await revealed(single.id), 'new,key')
      const multi = await make({ key: 'old-1,old-2' }, 'multi_to_single')
      await api('PUT', '/api/channel/', { id: multi.id, key: 'new-1\nnew-2,new-3' })
      assert.equal(await revealed(multi.id), 'new-1\nnew-2\nnew-3')
      await api('PUT', '/api/channel/', { id: multi.id, key: 'new-4', key_mode: 'replace' })
      assert.equal(await revealed(multi.id), 'new-4')
      assert.equal((await get(multi.id)).channel_info.is_multi_key, true)
    })

    it('append keys with key_mode append, each once, and refuse masked ones among them', async () => {
      const multi = await make({ key: 'append-1,append-2' }, 'multi_to_single')
      const appended = { id: multi.id, key: 'append-2\nappend-3', key_mode: 'append' }
      assert.equal((await api('PUT', '/api/channel/', appended)).body.data.keys.length, 3)
      assert.equal(await revealed(multi.id), 'append-1\nappend-2\nappend-3')
      const mixed = { id: multi.id, key: `${multi.keys[0].key}\nappend-4`, key_mode: 'append' }
      refused(await api('PUT', '/api/channel/', mixed), 'key')
      assert.equal(await revealed(multi.id), 'append-1\nappend-2\nappend-3')
      const single = await make({ key: 'first-of-two' })
      await api('PUT', '/api/channel/', { id: single.id, key: 'second-of-two', key_mode: 'append' })
      assert.equal((await get(single.id)).channel_info.is_multi_key, true)
      assert.equal(await revealed(single.id), 'first-of-two\nsecond-of-two')
    })

    it('accept a status as number or word, and a 3 that is sent back changes nothing', async () => {
      const channel = await make({ status: 'disabled' })
      assert.equal(channel.status, 2)
      const put = async (status: unknown) =>
        (await api('PUT', '/api/channel/', { id: channel.id, status })).body.data.status
      assert.equal(await put('enabled'), 1)
      assert.equal(await put(2), 2)
      assert.equal(await put(3), 2)
      assert.equal(await put('disabled'), 2)
      assert.equal(await put(1), 1)
      refused(await api('PUT', '/api/channel/', { id: channel.id, status: 4 }), 'status')
      refused(await api('PUT', '/api/channel/', { id: channel.id, status: 'on' }), 'status')
    })

    it('lose the reason for the automatic disabling when they are enabled again', async () => {
      for (const enable of [
        (id: number) => api('PUT', '/api/channel/', { id, status: 1 }),
        (id: number) => api('POST', `/api/channel/${id}/status`, { status: 1 }),
      ]) {
        const { id } = await make()
        await gateway.db
          .updateTable('channels')
          .set({ status: 3, status_reason: '401 from upstream' })
          .where('id', '=', id)
          .execute()
        assert.equal((await get(id)).status_reason, '401 from upstream')
        await api('PUT', '/api/channel/', await get(id))
        assert.equal((await get(id)).status, 3)
        await enable(id)
        const { status, status_reason } = await get(id)
        assert.deepEqual({ status, status_reason }, { status: 1, status_reason: '' })
      }
    })

    it('are enabled and disabled one by one or together; the response reports what changed', async () => {
      const [a, b] = [await make(), await make()]
      const set = (id: number, status: unknown) => api('POST', `/api/channel/${id}/status`, { status })
      assert.equal((await set(a.id, 2)).body.data, true)
      assert.equal((await set(a.id, 2)).body.data, false)
      assert.equal((await set(a.id, 'enabled')).body.data, true)
      refused(await set(a.id, 3), 'status')
      assert.equal((await set(999_999, 1)).status, 404)
      const together = (status: number) =>
        api('POST', '/api/channel/status/batch', { ids: [a.id, b.id, b.id, 999_999], status })
      assert.equal((await together(2)).body.data, 2)
      assert.equal((await together(2)).body.data, 0)
      assert.equal((await get(b.id)).status, 2)
    })

    it('are edited together, each completely or not at all, and the response reports which', async () => {
      const [a, b] = [await make(), await make()]
      const edit = async (fields: object) =>
        (await api('PUT', '/api/channel/batch', { ids: [a.id, b.id, b.id, 999_999], fields })).body.data
      const results = await edit({ priority: 7, models: ['edited-together'], name: 'not for all' })
      assert.deepEqual(
        results.map(({ id, is_changed, code }: Record<string, unknown>) => [id, is_changed, code]),
        [
          [a.id, true, ''],
          [b.id, true, ''],
          [999_999, false, 'not_found'],
        ],
      )
      for (const { id, name } of [a, b]) {
        const after = await get(id)
        assert.deepEqual([after.priority, after.models, after.name], [7, ['edited-together'], name])
      }
      refused(
        await api('PUT', '/api/channel/batch', { ids: [a.id], fields: { priority: 'high' } }),
        'fields.priority',
      )
    })

    it('get models together and lose them together, each keeping its own', async () => {
      const [a, b] = [await make({ models: ['own-a', 'shared'] }), await make({ models: ['own-b'] })]
      const edit = (lists: object) =>
        api('PUT', '/api/channel/batch', { ids: [a.id, b.id], fields: {}, ...lists })
      const modelsNow = async () => [(await get(a.id)).models, (await get(b.id)).models]
      await edit({ add_models: 'shared,new-one' })
      assert.deepEqual(await modelsNow(), [
        ['own-a', 'shared', 'new-one'],
        ['own-b', 'shared', 'new-one'],
      ])
      await edit({ remove_models: ['shared', 'own-b'] })
      assert.deepEqual(await modelsNow(), [['own-a', 'new-one'], ['new-one']])
      refused(await edit({ add_models: 5 }), 'add_models')
      const many = Array.from({ length: 2_000 }, (_, at) => `m-${at}`)
      const { body } = await edit({ add_models: many })
      assert.deepEqual(
        body.data.map(({ is_changed, code }: Record<string, unknown>) => [is_changed, code]),
        [
          [false, 'invalid_request'],
          [false, 'invalid_request'],
        ],
      )
      const ids = Array.from({ length: 101 }, (_, at) => at + 1)
      refused(await api('PUT', '/api/channel/batch', { ids, fields: { models: many } }), 'fields.models')
    })

    it('are deleted permanently, one by one or together, with their keys and models', async () => {
      const [a, b, c] = [await make(), await make({ key: 'x1,x2' }, 'multi_to_single'), await make()]
      assert.equal((await api('DELETE', `/api/channel/${a.id}`)).status, 200)
      assert.equal((await api('GET', `/api/channel/${a.id}`)).status, 404)
      assert.equal((await api('DELETE', `/api/channel/${a.id}`)).status, 404)
      const { body } = await api('POST', '/api/channel/batch', { ids: [b.id, c.id, a.id] })
      assert.equal(body.data, 2)
      assert.deepEqual(await modelRows(b.id), [])
      const keys = gateway.db.selectFrom('channel_keys').select('id').where('channel_id', '=', b.id)
      assert.deepEqual(await keys.execute(), [])
      const next = await make()
      assert.ok(next.id > c.id, 'ids are never used again')
    })

    it('are deleted together if they are disabled, manually or automatically', async () => {
      const [byHand, byGateway, enabled] = [await make({ status: 2 }), await make(), await make()]
      await gateway.db.updateTable('channels').set({ status: 3 }).where('id', '=', byGateway.id).execute()
      const disabled = (await api('GET', '/api/channel/?status=disabled')).body.data.total
      assert.ok(disabled >= 2)
      assert.equal((await api('DELETE', '/api/channel/disabled')).body.data, disabled)
      assert.equal((await api('GET', `/api/channel/${byHand.id}`)).status, 404)
      assert.equal((await api('GET', `/api/channel/${byGateway.id}`)).status, 404)
      assert.equal((await api('GET', `/api/channel/${enabled.id}`)).status, 200)
    })

    it('are copied with their keys, which are encrypted for the copy', async () => {
      const original = await make(
        { key: 'copied-1,copied-2', models: 'm1,m2', tag: 't', priority: 3, name: 'original' },
        'multi_to_single',
      )
      await gateway.db
        .updateTable('channels')
        .set({ used: 2_000_000 })
        .where('id', '=', original.id)
        .execute()
      const { body } = await api('POST', `/api/channel/copy/${original.id}?suffix=-b&reset_balance=true`)
      const copy = await get(body.data.id)
      assert.notEqual(copy.id, original.id)
      assert.equal(copy.name, 'original-b')
      assert.equal(copy.used_quota, 0)
      const { id: _a, name: _b, created_time: _c, ...expected } = original
      const { id: _d, name: _e, created_time: _f, ...copyFields } = copy
      assert.deepEqual(copyFields, expected)
      assert.deepEqual(await modelRows(copy.id), ['m1', 'm2'])
      await api('DELETE', `/api/channel/${original.id}`)
      assert.equal(await revealed(copy.id), 'copied-1\ncopied-2')
      const secondCopy = (await api('POST', `/api/channel/copy/${copy.id}`)).body.data
      assert.equal(secondCopy.name, 'original-b_copy')
      assert.equal((await api('POST', '/api/channel/copy/999999')).status, 404)
    })

    it('respond 404 for an unknown id', async () => {
      for (const [method, path, body] of [
        ['GET', '/api/channel/999999', undefined],
        ['PUT', '/api/channel/', { id: 999_999, name: 'x' }],
        ['DELETE', '/api/channel/999999', undefined],
        ['POST', '/api/channel/999999/key', undefined],
        ['GET', '/api/channel/test/999999', undefined],
      ] as const)
        assert.equal((await api(method, path, body)).status, 404, `${method} ${path}`)
      refused(await api('GET', '/api/channel/abc'), 'id')
      refused(await api('PUT', '/api/channel/', { name: 'x' }), 'id')
    })

    it('are available to Admin and Root; keys are revealed to Root only', async () => {
      const channel = await make()
      const admin = await gateway.createUser({ role: 10 })
      const user = await gateway.createUser()
      const calls = [
        ['GET', '/api/channel/', undefined],
        ['POST', '/api/channel/', plain],
        ['GET', `/api/channel/${channel.id}`, undefined],
        ['PUT', '/api/channel/', { id: channel.id, weight: 1 }],
        ['GET', '/api/channel/search?keyword=x', undefined],
        ['GET', '/api/channel/types', undefined],
        ['POST', `/api/channel/${channel.id}/status`, { status: 1 }],
        ['GET', '/api/channel/models_enabled', undefined],
      ] as const
      for (const [method, path, body] of calls) {
        assert.equal((await api(method, path, body, { token: user.accessToken })).status, 403, path)
        assert.equal((await api(method, path, body, { token: admin.accessToken })).status, 200, path)
        assert.equal((await api(method, path, body, { token: null })).status, 401, path)
      }
      const key = `/api/channel/${channel.id}/key`
      assert.equal((await api('POST', key, undefined, { token: admin.accessToken })).status, 403)
      assert.equal((await api('POST', key, undefined, { token: user.accessToken })).status, 403)
      for (const path of ['/api/channel/test', `/api/channel/test/${channel.id}`])
        assert.equal((await api('GET', path, undefined, { token: user.accessToken })).status, 403)
    })

    it('are audited without their secrets', async () => {
      const canary = 'canary-9f8e7d6c5b4a-canary'
      const channel = await make({ key: canary, name: 'watched' })
      const multi = await make({ key: `${canary}-1,${canary}-2` }, 'multi_to_single')
      await api('PUT', '/api/channel/', { id: channel.id, name: 'watched still', key: `${canary}-new` })
      await api('POST', `/api/channel/${channel.id}/status`, { status: 2 })
      assert.equal(await revealed(channel.id), `${canary}-new`)
      await api('POST', `/api/channel/copy/${multi.id}`)
      await api('DELETE', `/api/channel/${channel.id}`)

      const audit = await api('GET', `/api/audit/?target=channel:${channel.id}`)
      assert.equal(audit.status, 200)
      const actions = audit.body.data.items.map((item: { action: string }) => item.action)
      assert.deepEqual(actions, [
        'channel.delete',
        'channel.reveal',
        'channel.update',
        'channel.update',
        'channel.create',
      ])
      const [, , disabled, renamed] = audit.body.data.items
      assert.deepEqual(disabled.before, { status: 1 })
      assert.deepEqual(disabled.after, { status: 2 })
      assert.equal(renamed.before.name, 'watched')
      assert.equal(renamed.after.name, 'watched still')

      for (const path of [
        '/api/audit/?page_size=500',
        '/api/channel/?page_size=500',
        '/api/channel/?tag_mode=true&page_size=500',
        `/api/channel/search?keyword=${canary}-1`,
        `/api/channel/${multi.id}`,
      ]) {
        const { status, text } = await api('GET', path)
        assert.equal(status, 200)
        assert.ok(!text.includes(canary), `${path} tells a key`)
      }
      const stored = await gateway.db.selectFrom('channel_keys').selectAll().execute()
      assert.ok(!JSON.stringify(stored).includes(canary), 'the store holds a key in the clear')
    })

    it('report that a key must be entered again if its ciphertext was moved or damaged', async () => {
      const [a, b] = [await make({ key: 'seal-of-a' }), await make({ key: 'seal-of-b' })]
      const sealOf = (id: number) =>
        gateway.db.selectFrom('channel_keys').select('sealed').where('channel_id', '=', id)
      const { sealed } = await sealOf(a.id).executeTakeFirstOrThrow()
      await gateway.db.updateTable('channel_keys').set({ sealed }).where('channel_id', '=', b.id).execute()
      const { status, body } = await api('POST', `/api/channel/${b.id}/key`)
      assert.equal(status, 409)
      assert.equal(body.code, 'conflict')
      assert.equal((await api('GET', `/api/channel/${b.id}`)).status, 200)
      await api('PUT', '/api/channel/', { id: b.id, key: 'entered-anew' })
      assert.equal(await revealed(b.id), 'entered-anew')
    })

    it('are created once per Idempotency-Key', async () => {
      const asking = { headers: { 'Idempotency-Key': 'make-one-channel' } }
      const first = await api('POST', '/api/channel/', { ...plain, name: 'once' }, asking)
      const again = await api('POST', '/api/channel/', { ...plain, name: 'once' }, asking)
      assert.equal(first.status, 200)
      assert.deepEqual(again.body, first.body)
    })

    it('lose no change with several concurrent changes', async () => {
      const channel = await make({ key: 'at-once-0' }, 'multi_to_single')
      const replies = await Promise.all(
        Array.from({ length: 8 }, (_, index) =>
          api('PUT', '/api/channel/', { id: channel.id, key: `at-once-${index + 1}`, key_mode: 'append' }),
        ),
      )
      assert.ok(replies.every(reply => reply.status === 200))
      const { keys } = await get(channel.id)
      assert.deepEqual(
        keys.map((key: { index: number }) => key.index),
        [0, 1, 2, 3, 4, 5, 6, 7, 8],
      )
    })
  })
}
