import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { MAX_CHAIN, refuseAlias } from '../../src/domain/alias.ts'
import { listEnabledAliases } from '../../src/store/records/aliases.ts'
import { ENGINES, type Gateway, suiteGateway } from '../support/gateway.ts'

for (const engine of ENGINES) {
  describe(`aliases on ${engine} (docs/reference/routing.md: Aliases)`, () => {
    const gateway = suiteGateway({ engine })
    let api: Gateway['api']
    before(async () => {
      api = gateway.api
    })

    const create = (fields: object) => api('POST', '/api/alias/', fields)
    const make = async (fields: object) => {
      const { status, body, text } = await create(fields)
      assert.equal(status, 200, text)
      return body.data
    }
    const get = async (id: number) => (await api('GET', `/api/alias/${id}`)).body.data
    const makeChannel = async () =>
      (await api('POST', '/api/channel/', { name: 'c', type: 1, key: 'alias-key', models: 'm' })).body.data
        .id as number

    it('are created, read, changed and deleted', async () => {
      const alias = await make({ name: 'fast', target: 'gpt-4o-mini' })
      const { id, created_time, ...rest } = alias
      assert.ok(id > 0 && created_time > 1_700_000_000)
      assert.deepEqual(rest, { name: 'fast', target: 'gpt-4o-mini', channel_ids: null, status: 1 })
      assert.deepEqual(await get(id), alias)
      const { body } = await api('PUT', '/api/alias/', { id, target: 'gpt-4.1-nano', status: 2 })
      assert.deepEqual(body.data, { ...alias, target: 'gpt-4.1-nano', status: 2 })
      assert.deepEqual((await api('PUT', '/api/alias/', body.data)).body.data, body.data)
      assert.equal((await api('DELETE', `/api/alias/${id}`)).status, 200)
      assert.equal((await api('GET', `/api/alias/${id}`)).status, 404)
      assert.equal((await api('DELETE', `/api/alias/${id}`)).status, 404)
      assert.equal((await api('PUT', '/api/alias/', { id, status: 1 })).status, 404)
    })

    it('are listed by page, newest first, and found by a part of name or target', async () => {
      for (const name of ['list-one', 'list-two', 'LIST-three'])
        await make({ name, target: `${name}-target` })
      const names = async (query: string) =>
        (await api('GET', `/api/alias/?${query}`)).body.data.items.map(
          (alias: { name: string }) => alias.name,
        )
      assert.deepEqual(await names('keyword=list-'), ['LIST-three', 'list-two', 'list-one'])
      assert.deepEqual(await names('keyword=TWO-TARGET'), ['list-two'])
      assert.deepEqual(await names('keyword=%25'), [])
      const { body } = await api('GET', '/api/alias/?keyword=list-&p=2&page_size=2')
      assert.equal(body.data.total, 3)
      assert.equal(body.data.page, 2)
      assert.equal(body.data.items[0].name, 'list-one')
    })

    it('have unique, case-sensitive names', async () => {
      await make({ name: 'named', target: 'x' })
      const conflict = await create({ name: ' named ', target: 'y' })
      assert.equal(conflict.status, 409)
      assert.equal(conflict.body.code, 'conflict')
      const other = await make({ name: 'Named', target: 'x' })
      assert.equal((await api('PUT', '/api/alias/', { id: other.id, name: 'named' })).status, 409)
      assert.equal((await get(other.id)).name, 'Named')
    })

    it('need a name and a target, which need not exist', async () => {
      for (const [fields, path] of [
        [{ target: 'x' }, 'name'],
        [{ name: 'x' }, 'target'],
        [{ name: '', target: 'x' }, 'name'],
        [{ name: 'x', target: ' ' }, 'target'],
        [{ name: 'x'.repeat(256), target: 'x' }, 'name'],
        [{ name: 'x,y', target: 'y' }, 'name'],
        [{ name: 'x', target: 'y', status: 3 }, 'status'],
        [{ name: 'x', target: 'y', channel_ids: 'all' }, 'channel_ids'],
        [{ name: 'x', target: 'y', channel_ids: [0] }, 'channel_ids.0'],
      ] as const) {
        const reply = await create(fields)
        assert.equal(reply.status, 400, JSON.stringify(fields))
        assert.equal(reply.body.errors[0].path, path)
      }
      await make({ name: 'to-nowhere', target: 'no-such-model' })
    })

    it('never point to themselves or form a cycle', async () => {
      const conflict = async (reply: Promise<{ status: number; body: { code: string } }>) => {
        const { status, body } = await reply
        assert.equal(status, 409)
        assert.equal(body.code, 'conflict')
      }
      await conflict(create({ name: 'self', target: 'self' }))
      const a = await make({ name: 'circle-a', target: 'circle-b' })
      await make({ name: 'circle-b', target: 'circle-c' })
      await conflict(create({ name: 'circle-c', target: 'circle-a' }))
      const c = await make({ name: 'circle-c', target: 'end', status: 2 })
      await conflict(api('PUT', '/api/alias/', { id: c.id, target: 'circle-a' }))
      await conflict(api('PUT', '/api/alias/', { id: c.id, name: 'circle-d', target: 'circle-d' }))
      await conflict(api('PUT', '/api/alias/', { id: a.id, name: 'end' }))
      assert.equal((await get(c.id)).target, 'end')
    })

    it('form chains of at most five, extended at either end or in the middle', async () => {
      const chain = [1, 2, 3, 4, 5]
      for (const place of chain) await make({ name: `chain-${place}`, target: `chain-${place + 1}` })
      assert.equal((await create({ name: 'chain-0', target: 'chain-1' })).status, 409)
      assert.equal((await create({ name: 'chain-6', target: 'chain-7' })).status, 409)
      const side = await make({ name: 'side-a', target: 'chain-2' })
      assert.equal((await create({ name: 'side-b', target: 'side-a' })).status, 409)
      await make({ name: 'tail-1', target: 'tail-2' })
      const longer = await api('PUT', '/api/alias/', { id: side.id, target: 'tail-1' })
      assert.equal(longer.status, 200)
      const { body } = await api('GET', '/api/alias/?keyword=chain-5')
      const last = body.data.items[0]
      assert.equal((await api('PUT', '/api/alias/', { id: last.id, target: 'tail-1' })).status, 409)
      assert.equal((await get(last.id)).target, 'chain-6')
    })

    it('cannot form a cycle by two concurrent changes', async () => {
      for (const round of [1, 2, 3, 4]) {
        const [leftName, right] = [`left-${round}`, `right-${round}`]
        const replies = await Promise.all([
          create({ name: leftName, target: right }),
          create({ name: right, target: leftName }),
        ])
        assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 409])
      }
    })

    it('may be limited to channels, which must exist when they are set', async () => {
      const [one, two] = [await makeChannel(), await makeChannel()]
      const alias = await make({ name: 'bound', target: 'm', channel_ids: [one, two, one] })
      assert.deepEqual(alias.channel_ids, [one, two])
      const unknown = await create({ name: 'unbound', target: 'm', channel_ids: [one, 999_999] })
      assert.equal(unknown.status, 400)
      assert.equal(unknown.body.errors[0].path, 'channel_ids')
      const changed = await api('PUT', '/api/alias/', { id: alias.id, channel_ids: [999_999] })
      assert.equal(changed.status, 400)
      assert.deepEqual((await get(alias.id)).channel_ids, [one, two])
    })

    it('keep the id of a deleted channel, so that they never allow more channels by themselves', async () => {
      const [gone, stays] = [await makeChannel(), await makeChannel()]
      const alias = await make({ name: 'narrow', target: 'm', channel_ids: [gone] })
      await api('DELETE', `/api/channel/${gone}`)
      assert.deepEqual((await get(alias.id)).channel_ids, [gone])
      const sentBack = await api('PUT', '/api/alias/', { ...alias, target: 'other' })
      assert.equal(sentBack.status, 200)
      assert.deepEqual(sentBack.body.data.channel_ids, [gone])
      const { body } = await api('PUT', '/api/alias/', { id: alias.id, channel_ids: [gone, stays] })
      assert.deepEqual(body.data.channel_ids, [gone, stays])
    })

    it('allow any channel with null or an empty list', async () => {
      const channel = await makeChannel()
      const alias = await make({ name: 'open', target: 'm', channel_ids: [channel] })
      const reply = await api('PUT', '/api/alias/', { id: alias.id, status: 1 })
      assert.deepEqual(reply.body.data.channel_ids, [channel])
      const opened = await api('PUT', '/api/alias/', { id: alias.id, channel_ids: null })
      assert.equal(opened.body.data.channel_ids, null)
      assert.deepEqual((await make({ name: 'open-too', target: 'm', channel_ids: [] })).channel_ids, [])
    })

    it('are used by the relay while they are enabled', async () => {
      const channel = await makeChannel()
      const bound = await make({ name: 'relay-bound', target: 'm', channel_ids: [channel] })
      await make({ name: 'relay-off', target: 'm', status: 2 })
      const find = async (name: string) =>
        (await listEnabledAliases(gateway.db)).find(alias => alias.name === name)
      assert.deepEqual(await find('relay-bound'), { name: 'relay-bound', target: 'm', channelIds: [channel] })
      assert.equal(await find('relay-off'), undefined)
      await api('PUT', '/api/alias/', { id: bound.id, status: 2 })
      assert.equal(await find('relay-bound'), undefined)
    })

    it('are audited', async () => {
      const alias = await make({ name: 'audited', target: 'a' })
      await api('PUT', '/api/alias/', { id: alias.id, target: 'b' })
      await api('DELETE', `/api/alias/${alias.id}`)
      const { body } = await api('GET', `/api/audit/?target=alias:${alias.id}`)
      assert.deepEqual(
        body.data.items.map((item: { action: string }) => item.action),
        ['alias.delete', 'alias.update', 'alias.create'],
      )
      assert.equal(body.data.items[1].before.target, 'a')
      assert.equal(body.data.items[1].after.target, 'b')
    })

    it('are available to Admin and Root', async () => {
      const user = await gateway.createUser()
      const admin = await gateway.createUser({ role: 10 })
      for (const [method, path, body] of [
        ['GET', '/api/alias/', undefined],
        ['POST', '/api/alias/', { name: 'by-admin', target: 'x' }],
      ] as const) {
        assert.equal((await api(method, path, body, { token: user.accessToken })).status, 403)
        assert.equal((await api(method, path, body, { token: null })).status, 401)
        assert.equal((await api(method, path, body, { token: admin.accessToken })).status, 200)
      }
      for (const [method, path, body] of [
        ['GET', '/api/alias/1', undefined],
        ['PUT', '/api/alias/', { id: 1 }],
        ['DELETE', '/api/alias/1', undefined],
      ] as const)
        assert.equal((await api(method, path, body, { token: user.accessToken })).status, 403, path)
    })
  })
}

describe('a chain of aliases', () => {
  it('is measured from its first alias to its final target', () => {
    const chain = new Map([
      ['a', 'b'],
      ['b', 'c'],
      ['c', 'd'],
      ['z', 'b'],
    ])
    assert.equal(MAX_CHAIN, 5)
    assert.equal(refuseAlias(chain, 'd', 'e'), undefined)
    chain.set('d', 'e')
    assert.equal(refuseAlias(chain, 'e', 'f'), undefined)
    chain.set('e', 'f')
    assert.match(refuseAlias(chain, 'f', 'g') ?? '', /6 aliases/)
    assert.match(refuseAlias(chain, 'y', 'a') ?? '', /6 aliases/)
    assert.equal(refuseAlias(chain, 'y', 'b'), undefined)
    assert.match(refuseAlias(chain, 'f', 'a') ?? '', /loop/)
    assert.match(refuseAlias(chain, 'q', 'q') ?? '', /itself/)
  })
})
