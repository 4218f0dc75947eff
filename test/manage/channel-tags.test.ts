import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { sql } from 'kysely'
import { oneEngine } from '../support/engines.ts'
import { type Gateway, suiteGateway } from '../support/gateway.ts'

for (const engine of oneEngine('postgres')) {
  describe(`channels under a tag on ${engine}`, () => {
    const gateway = suiteGateway({ engine })
    let api: Gateway['api']
    before(async () => {
      api = gateway.api
    })

    const make = async (fields: object) => {
      const { body } = await api('POST', '/api/channel/', {
        name: 'c',
        type: 1,
        key: 'tag-key',
        models: 'm',
        ...fields,
      })
      return body.data.id as number
    }
    const get = async (id: number) => (await api('GET', `/api/channel/${id}`)).body.data
    const statuses = (ids: readonly number[]) => Promise.all(ids.map(async id => (await get(id)).status))

    it('are disabled and enabled together, and others are not', async () => {
      const ids = [await make({ tag: 'switch' }), await make({ tag: 'switch' }), await make({ tag: 'other' })]
      await gateway.db
        .updateTable('channels')
        .set({ status: 3, status_reason: 'why' })
        .where('id', '=', ids[1] ?? 0)
        .execute()
      const off = await api('POST', '/api/channel/tag/disabled', { tag: 'switch' })
      assert.deepEqual(off.body, { success: true, message: '' })
      assert.deepEqual(await statuses(ids), [2, 2, 1])
      assert.equal((await api('POST', '/api/channel/tag/enabled', { tag: 'switch' })).status, 200)
      assert.deepEqual(await statuses(ids), [1, 1, 1])
      assert.equal((await get(ids[1] ?? 0)).status_reason, '')
      const { body } = await api('GET', `/api/audit/?target=channel:${ids[1]}&action=channel.update`)
      assert.deepEqual(
        body.data.items.map((item: { after: object }) => item.after),
        [{ status: 1 }, { status: 2, status_reason: '' }],
      )
    })

    it('are changed together in the given fields', async () => {
      const ids = [await make({ tag: 'old', weight: 1 }), await make({ tag: 'old', weight: 2, models: 'x' })]
      const { status, body } = await api('PUT', '/api/channel/tag', {
        tag: 'old',
        new_tag: 'new',
        priority: 9,
        models: 'model-1,model-2',
        model_mapping: '{"model-1":"sent"}',
        groups: 'default,vip',
        param_override: '{"top_p":1}',
        header_override: { 'x-a': 'b' },
      })
      assert.equal(status, 200)
      assert.equal(body.data, undefined)
      for (const [index, id] of ids.entries()) {
        const channel = await get(id)
        assert.equal(channel.tag, 'new')
        assert.equal(channel.priority, 9)
        assert.equal(channel.weight, index + 1)
        assert.deepEqual(channel.models, ['model-1', 'model-2'])
        assert.deepEqual(channel.model_mapping, { 'model-1': 'sent' })
        assert.equal(channel.group, 'default,vip')
        assert.deepEqual(channel.param_override, { top_p: 1 })
        assert.deepEqual(channel.header_override, { 'x-a': 'b' })
        const { body: searchBody } = await api('GET', '/api/channel/search?model=model-2')
        assert.equal(searchBody.data.total, 2)
      }
    })

    it('keep fields that a form of existing clients left empty, and lose the tag with an empty new_tag', async () => {
      const id = await make({ tag: 'forms', priority: 4 })
      await api('PUT', '/api/channel/tag', {
        tag: 'forms',
        models: '',
        groups: '',
        priority: null,
        new_tag: null,
      })
      const channel = await get(id)
      assert.deepEqual(
        [channel.models, channel.priority, channel.tag, channel.group],
        [['m'], 4, 'forms', 'default'],
      )
      await api('PUT', '/api/channel/tag', { tag: 'forms', new_tag: '' })
      assert.equal((await get(id)).tag, null)
    })

    it('get a tag or lose it by id', async () => {
      const ids = [await make({}), await make({ tag: 'before' })]
      const tag = (value: string | null) =>
        api('POST', '/api/channel/batch/tag', { ids: [...ids, 999_999], tag: value })
      assert.equal((await tag('after')).body.data, 2)
      assert.deepEqual([(await get(ids[0] ?? 0)).tag, (await get(ids[1] ?? 0)).tag], ['after', 'after'])
      assert.equal((await tag(null)).body.data, 2)
      assert.deepEqual([(await get(ids[0] ?? 0)).tag, (await get(ids[1] ?? 0)).tag], [null, null])
    })

    it('return the longest of their lists of models', async () => {
      await make({ tag: 'lists', models: 'a' })
      await make({ tag: 'lists', models: 'a,b,c' })
      await make({ tag: 'lists', models: 'a,b' })
      assert.equal((await api('GET', '/api/channel/tag/models?tag=lists')).body.data, 'a,b,c')
    })

    it('are validated by field: an unknown tag is 404, an invalid field 400, and nothing is written', async () => {
      for (const [method, path, body] of [
        ['POST', '/api/channel/tag/enabled', { tag: 'nowhere' }],
        ['POST', '/api/channel/tag/disabled', { tag: 'nowhere' }],
        ['PUT', '/api/channel/tag', { tag: 'nowhere', priority: 1 }],
        ['GET', '/api/channel/tag/models?tag=nowhere', undefined],
      ] as const)
        assert.equal((await api(method, path, body)).status, 404, path)
      const id = await make({ tag: 'careful' })
      const bad = await api('PUT', '/api/channel/tag', {
        tag: 'careful',
        priority: 8,
        header_override: { a: 'b\nc' },
      })
      assert.equal(bad.status, 400)
      assert.equal(bad.body.errors[0].path, 'header_override.a')
      assert.equal((await get(id)).priority, 0)
      assert.equal((await api('POST', '/api/channel/tag/enabled', { tag: '' })).status, 400)
    })

    it('are not available to users', async () => {
      const { accessToken: token } = await gateway.createUser()
      for (const [method, path, body] of [
        ['POST', '/api/channel/tag/enabled', { tag: 't' }],
        ['POST', '/api/channel/tag/disabled', { tag: 't' }],
        ['PUT', '/api/channel/tag', { tag: 't' }],
        ['POST', '/api/channel/batch/tag', { ids: [1], tag: 't' }],
        ['GET', '/api/channel/tag/models?tag=t', undefined],
      ] as const)
        assert.equal((await api(method, path, body, { token })).status, 403, path)
    })
  })
}

describe('changes of several channels on PostgreSQL', () => {
  const gateway = suiteGateway({ engine: 'postgres' })
  const TAG = 'ordered'
  let low: number
  let high: number
  before(async () => {
    const make = async (name: string) => {
      const channel = { name, type: 1, key: 'k', models: 'm', tag: TAG }
      return (await gateway.api('POST', '/api/channel/', channel)).body.data.id as number
    }
    low = await make('low')
    high = await make('high')
    // Its row is now behind the other one in the table, where PostgreSQL would find it second.
    await gateway.db.updateTable('channels').set({ remark: 'moved' }).where('id', '=', low).execute()
  })

  const waitsForLock = async () => {
    const { rows } = await sql`
      select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
    `.execute(gateway.db)
    return rows.length > 0
  }

  const changes = {
    'PUT /api/channel/batch': () => ({ ids: [high, low], fields: { priority: 1 } }),
    'POST /api/channel/status/batch': () => ({ ids: [high, low], status: 2 }),
    'POST /api/channel/batch/tag': () => ({ ids: [high, low], tag: TAG }),
    'PUT /api/channel/tag': () => ({ tag: TAG, weight: 1 }),
  } as const

  for (const [route, bodyOf] of Object.entries(changes))
    it(`lock them in the order of their ids, so that they cannot deadlock: ${route}`, async () => {
      const [method = '', path = ''] = route.split(' ')
      const answer = await gateway.db.transaction().execute(async trx => {
        await trx.updateTable('channels').set({ remark: route }).where('id', '=', low).execute()
        const change = gateway.api(method, path, bodyOf())
        while (!(await waitsForLock())) await wait(10)
        await sql`select from channels where id = ${high} for no key update nowait`.execute(trx)
        return { change }
      })
      assert.equal((await answer.change).status, 200)
    })
})
