import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { isMasked, keyFault, readKeys } from '../../src/domain/channel-key.ts'
import { decideStatus } from '../../src/store/records/channel-status.ts'
import { oneEngine } from '../support/engines.ts'
import { type Gateway, suiteGateway } from '../support/gateway.ts'

for (const engine of oneEngine('postgres')) {
  describe(`keys of a channel on ${engine} (docs/reference/management-api.md: Channel keys)`, () => {
    const gateway = suiteGateway({ engine })
    let api: Gateway['api']
    before(async () => {
      api = gateway.api
    })

    let channelCount = 0
    const make = async (count: number) => {
      channelCount += 1
      const key = Array.from({ length: count }, (_, index) => `key-${channelCount}-${index}`).join('\n')
      const mode = count === 1 ? 'single' : 'multi_to_single'
      const { body } = await api('POST', '/api/channel/', {
        mode,
        channel: { name: 'keys', type: 1, key, models: 'm' },
      })
      return { id: body.data.id as number, keys: key.split('\n') }
    }
    const get = async (id: number) => (await api('GET', `/api/channel/${id}`)).body.data
    const revealed = async (id: number) => (await api('POST', `/api/channel/${id}/key`)).body.data.key
    const manage = (channel_id: number, action: string, more: object = {}) =>
      api('POST', '/api/channel/multi_key/manage', { channel_id, action, ...more })
    const disableByGateway = (id: number, positions: number[]) =>
      gateway.db
        .updateTable('channel_keys')
        .set({ status: 3, reason: '401', disabled_time: 77 })
        .where('channel_id', '=', id)
        .where('position', 'in', positions)
        .execute()

    it('are disabled and enabled one by one, and the others stay', async () => {
      const { id } = await make(3)
      const set = (index: number, status: unknown) =>
        api('POST', `/api/channel/${id}/keys/${index}/status`, { status })
      const disabled = (await set(1, 2)).body.data
      assert.deepEqual(
        disabled.keys.map((key: { status: number }) => key.status),
        [1, 2, 1],
      )
      assert.ok(disabled.keys[1].disabled_time > 0)
      assert.deepEqual(disabled.channel_info.multi_key_status_list, { 1: 2 })
      assert.equal(disabled.status, 1)
      await disableByGateway(id, [2])
      assert.equal((await get(id)).keys[2].reason, '401')
      const enabled = (await set(2, 1)).body.data.keys[2]
      assert.deepEqual(
        { status: enabled.status, reason: enabled.reason, disabled_time: enabled.disabled_time },
        { status: 1, reason: '', disabled_time: 0 },
      )
      assert.equal((await set(3, 1)).status, 404)
      assert.equal((await set(1, 3)).status, 400)
      assert.equal((await api('POST', `/api/channel/999999/keys/0/status`, { status: 1 })).status, 404)
      assert.equal((await api('POST', `/api/channel/${id}/keys/x/status`, { status: 1 })).status, 400)
    })

    it('are renumbered when one is deleted, and the last one cannot be deleted', async () => {
      const { id, keys } = await make(3)
      await disableByGateway(id, [2])
      const remove = (index: number) => api('DELETE', `/api/channel/${id}/keys/${index}`)
      const { keys: remainingKeys } = (await remove(0)).body.data
      assert.deepEqual(
        remainingKeys.map((key: { index: number; status: number }) => [key.index, key.status]),
        [
          [0, 1],
          [1, 3],
        ],
      )
      assert.equal(await revealed(id), `${keys[1]}\n${keys[2]}`)
      assert.equal((await remove(2)).status, 404)
      assert.equal((await remove(1)).status, 200)
      const last = await remove(0)
      assert.equal(last.status, 409)
      assert.equal(last.body.code, 'conflict')
      assert.equal(await revealed(id), keys[1])
      assert.equal((await get(id)).channel_info.is_multi_key, true)
      const single = await make(1)
      assert.equal((await api('DELETE', `/api/channel/${single.id}/keys/0`)).status, 409)
    })

    it('are disabled by the gateway under their own name, also if a node does not know yet that one was deleted', async () => {
      const { id, keys } = await make(3)
      const rows = await gateway.db
        .selectFrom('channel_keys')
        .select(['id', 'position'])
        .where('channel_id', '=', id)
        .orderBy('position')
        .execute()
      assert.equal((await api('DELETE', `/api/channel/${id}/keys/0`)).status, 200)
      const decision = { channelId: id, status: 3, reason: '401', time: 77 } as const
      assert.equal(await decideStatus(gateway.db, { ...decision, keyId: rows[1]?.id }), true)
      assert.equal(await decideStatus(gateway.db, { ...decision, keyId: rows[0]?.id }), false)
      const channel = await get(id)
      assert.deepEqual(
        channel.keys.map(({ status }: { status: number }) => status),
        [3, 1],
      )
      assert.equal(await revealed(id), keys.slice(1).join('\n'))
      const [audited] = (await api('GET', `/api/audit/?target=channel:${id}&action=channel.disable`)).body
        .data.items
      assert.deepEqual(audited.after, { status: 3, reason: '401', key: 0 })
    })

    it('are listed by page in the form of existing clients', async () => {
      const { id } = await make(5)
      await disableByGateway(id, [4])
      await manage(id, 'disable_key', { key_index: 0 })
      const { status, body } = await manage(id, 'get_key_status')
      assert.equal(status, 200)
      const { keys, ...figures } = body.data
      assert.deepEqual(figures, {
        total: 5,
        page: 1,
        page_size: 50,
        total_pages: 1,
        enabled_count: 3,
        manual_disabled_count: 1,
        auto_disabled_count: 1,
      })
      assert.deepEqual(Object.keys(keys[1]).sort(), ['index', 'key_preview', 'status'])
      assert.deepEqual(keys[4], {
        index: 4,
        status: 3,
        disabled_time: 77,
        reason: '401',
        key_preview: (await get(id)).keys[4].key,
      })
      const second = (await manage(id, 'get_key_status', { page: 2, page_size: 2 })).body.data
      assert.deepEqual(
        second.keys.map((key: { index: number }) => key.index),
        [2, 3],
      )
      assert.equal(second.total_pages, 3)
      const filtered = (await manage(id, 'get_key_status', { status: 3 })).body.data
      assert.equal(filtered.total, 1)
      assert.equal(filtered.keys[0].index, 4)
    })

    it('are managed by every action of existing clients', async () => {
      const { id, keys } = await make(4)
      const statuses = async () => (await get(id)).keys.map((key: { status: number }) => key.status)
      assert.equal((await manage(id, 'disable_all_keys')).body.data.manual_disabled_count, 4)
      assert.deepEqual(await statuses(), [2, 2, 2, 2])
      await manage(id, 'enable_key', { key_index: 2 })
      assert.deepEqual(await statuses(), [2, 2, 1, 2])
      await manage(id, 'enable_all_keys')
      assert.deepEqual(await statuses(), [1, 1, 1, 1])
      await manage(id, 'delete_key', { key_index: 1 })
      assert.equal(await revealed(id), [keys[0], keys[2], keys[3]].join('\n'))
      await manage(id, 'disable_key', { key_index: 0 })
      await disableByGateway(id, [1])
      assert.equal((await manage(id, 'delete_disabled_keys')).body.data.total, 2)
      assert.equal(await revealed(id), [keys[0], keys[3]].join('\n'))
      assert.deepEqual(await statuses(), [2, 1])
      await disableByGateway(id, [0, 1])
      assert.equal((await manage(id, 'delete_disabled_keys')).status, 409)
      assert.deepEqual(await statuses(), [3, 3])
    })

    it('need an index if an action applies to one of them', async () => {
      const { id } = await make(2)
      for (const action of ['disable_key', 'enable_key', 'delete_key']) {
        const missing = await manage(id, action)
        assert.equal(missing.status, 400)
        assert.equal(missing.body.errors[0].path, 'key_index')
        assert.equal((await manage(id, action, { key_index: 2 })).status, 404)
      }
      assert.equal((await manage(id, 'explode')).status, 400)
      assert.equal((await manage(999_999, 'get_key_status')).status, 404)
      assert.equal((await manage(999_999, 'enable_all_keys')).status, 404)
    })

    it('are audited in masked form', async () => {
      const { id, keys } = await make(2)
      await manage(id, 'disable_key', { key_index: 1 })
      await api('DELETE', `/api/channel/${id}/keys/1`)
      const { body, text } = await api('GET', `/api/audit/?target=channel:${id}&action=channel.keys`)
      assert.equal(body.data.total, 2)
      const [deleted, disabled] = body.data.items
      assert.equal(disabled.after.keys[1].status, 2)
      assert.equal(deleted.before.keys.length, 2)
      assert.equal(deleted.after.keys.length, 1)
      for (const key of keys) assert.ok(!text.includes(key))
    })

    it('can be decrypted after the secret was rotated', async () => {
      const { id, keys } = await make(3)
      const sealed = async () =>
        (await gateway.db.selectFrom('channel_keys').select('sealed').where('channel_id', '=', id).execute())
          .map(row => row.sealed.split('.')[1])
          .at(0)
      const before = await sealed()
      await gateway.operations.rotateSecret()
      assert.notEqual(await sealed(), before)
      assert.equal(await revealed(id), keys.join('\n'))
    })

    it('are not available to users', async () => {
      const { id } = await make(2)
      const { accessToken: token } = await gateway.createUser()
      for (const [method, path, body] of [
        ['POST', `/api/channel/${id}/keys/0/status`, { status: 2 }],
        ['DELETE', `/api/channel/${id}/keys/0`, undefined],
        ['POST', '/api/channel/multi_key/manage', { channel_id: id, action: 'get_key_status' }],
      ] as const)
        assert.equal((await api(method, path, body, { token })).status, 403, path)
      assert.equal((await get(id)).keys.length, 2)
    })
  })
}

describe('a text of several keys', () => {
  const keysOf = (text: string) => {
    const read = readKeys(text)
    return 'keys' in read ? read.keys : read.fault
  }

  it('is split at commas and line breaks, trimmed, each key once', () => {
    assert.deepEqual(keysOf(' a,b\n\n c\r\na , '), ['a', 'b', 'c'])
    assert.deepEqual(keysOf(''), [])
  })

  it('is JSON if it starts like JSON, and invalid if that JSON is', () => {
    assert.deepEqual(keysOf('["a,b"," c ",""]'), ['a,b', 'c'])
    assert.deepEqual(keysOf('{"a":"x,y"}'), ['{"a":"x,y"}'])
    assert.deepEqual(keysOf('{"a":1}\n{"b":2}'), ['{"a":1}', '{"b":2}'])
    assert.match(String(keysOf('{"a":1},{"b":2')), /JSON/)
    assert.match(String(keysOf('[1]')), /JSON/)
    assert.match(String(keysOf(`[${'{"a":'.repeat(200_000)}1${'}'.repeat(200_000)}]`)), /JSON|longer/)
  })

  it('names the position of an invalid key and never the key', () => {
    assert.match(String(keysOf('good,bäd')), /key 2 /)
    assert.doesNotMatch(String(keysOf('good,bäd')), /bäd/)
  })
})

describe('a key', () => {
  it('is plain ASCII or a JSON object', () => {
    assert.equal(keyFault('sk-123'), undefined)
    assert.equal(keyFault('{"name":"Zoë…"}'), undefined)
    assert.notEqual(keyFault('sk-ü'), undefined)
    assert.notEqual(keyFault('sk-\u0000'), undefined)
  })

  it('is recognized as masked in the form that the API returns', () => {
    assert.equal(isMasked('sk-a…z'), true)
    assert.equal(isMasked('{"type"…"}'), true)
    assert.equal(isMasked('{"a":"…"}'), false)
    assert.equal(isMasked('sk-abc'), false)
  })
})
