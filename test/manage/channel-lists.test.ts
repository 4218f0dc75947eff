import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { ENGINES, suiteGateway } from '../support/gateway.ts'

type ListedChannel = { id: number; name: string }
type Group = { tag: string | null; count: number; channels: ListedChannel[] }

for (const engine of ENGINES) {
  describe(`lists of channels on ${engine} (docs/reference/management-api.md: Channels)`, () => {
    const gateway = suiteGateway({ engine })
    const ids: Record<string, number> = {}

    before(async () => {
      const channels = [
        { name: 'alpha', type: 1, priority: 1, models: 'gpt-4o,shared', tag: 'west', group: 'default,vip' },
        { name: 'Beta', type: 14, priority: 9, models: 'claude-x', tag: 'west' },
        { name: 'gamma', type: 1, priority: 1, models: 'gpt-4o-mini', status: 2, key: 'gamma-exact-key' },
        { name: 'delta 100%', type: 8, priority: 5, models: 'SHARED', base_url: 'https://Delta.example/v1' },
        { name: 'epsilon', type: 43, priority: 5, models: 'deepseek', tag: 'east' },
      ]
      for (const channel of channels) {
        const { status, body, text } = await gateway.api('POST', '/api/channel/', {
          key: 'list-key',
          ...channel,
        })
        assert.equal(status, 200, text)
        ids[channel.name] = body.data.id
      }
      const change = gateway.db.updateTable('channels')
      await change.set({ status: 3 }).where('name', '=', 'epsilon').execute()
      await change.set({ response_time: 900, test_time: 5 }).where('name', '=', 'alpha').execute()
      await change.set({ response_time: 100, test_time: 9 }).where('name', '=', 'Beta').execute()
    })

    const ask = async (query: string, path = '/api/channel/') => {
      const { status, body, text } = await gateway.api('GET', `${path}?${query}`)
      assert.equal(status, 200, text)
      return body.data
    }
    const names = async (query: string, path?: string) =>
      ((await ask(query, path)).items as ListedChannel[]).map(channel => channel.name)
    const search = (query: string) => names(query, '/api/channel/search')

    it('are sorted by priority, then by id, both descending', async () => {
      assert.deepEqual(await names(''), ['Beta', 'epsilon', 'delta 100%', 'gamma', 'alpha'])
    })

    it('are sorted by id with id_sort, newest first', async () => {
      assert.deepEqual(await names('id_sort=true'), ['epsilon', 'delta 100%', 'gamma', 'Beta', 'alpha'])
      assert.deepEqual(await names('id_sort=True'), await names('id_sort=true'))
      assert.deepEqual(await names('id_sort=false'), await names(''))
    })

    it('are sorted by the parameters of existing clients', async () => {
      assert.deepEqual(await names('sort_by=name&sort_order=asc'), [
        'alpha',
        'Beta',
        'delta 100%',
        'epsilon',
        'gamma',
      ])
      assert.deepEqual((await names('sort_by=id&sort_order=asc'))[0], 'alpha')
      assert.deepEqual((await names('sort_by=priority&sort_order=asc')).at(-1), 'Beta')
      assert.deepEqual((await names('sort_by=response_time'))[0], 'alpha')
      assert.deepEqual((await names('sort_by=test_time&sort_order=desc'))[0], 'Beta')
      assert.deepEqual(await names('sort_by=balance'), await names(''))
    })

    it('are paged from 1, with the total and the counts by type', async () => {
      const first = await ask('p=1&page_size=2')
      assert.deepEqual(
        { page: first.page, page_size: first.page_size, total: first.total },
        { page: 1, page_size: 2, total: 5 },
      )
      assert.deepEqual(first.type_counts, { 1: 2, 8: 1, 14: 1, 43: 1 })
      assert.deepEqual(await names('p=2&page_size=2'), ['delta 100%', 'gamma'])
      assert.deepEqual(await names('p=3&page_size=2'), ['alpha'])
      assert.deepEqual(await names('p=9&page_size=2'), [])
    })

    it('are paged by the parameters of existing clients: p=0 is the first page, ps and size set the size', async () => {
      assert.deepEqual(await names('p=0&size=500'), await names(''))
      assert.equal((await ask('p=0&page_size=100')).page, 1)
      assert.equal((await ask('ps=3')).items.length, 3)
      assert.equal((await ask('page_size=100000')).page_size, 500)
      assert.equal((await gateway.api('GET', '/api/channel/?p=x')).status, 400)
    })

    it('are filtered by status as word or number; disabled includes manual and automatic', async () => {
      assert.deepEqual(await names('status=enabled'), ['Beta', 'delta 100%', 'alpha'])
      assert.deepEqual(await names('status=1'), ['Beta', 'delta 100%', 'alpha'])
      assert.deepEqual(await names('status=disabled'), ['epsilon', 'gamma'])
      assert.deepEqual(await names('status=0'), ['epsilon', 'gamma'])
      assert.deepEqual(await names('status=2'), ['gamma'])
      assert.deepEqual(await names('status=3'), ['epsilon'])
      for (const all of ['', 'all', '-1']) assert.equal((await names(`status=${all}`)).length, 5)
      const { status, body } = await gateway.api('GET', '/api/channel/?status=asleep')
      assert.equal(status, 400)
      assert.equal(body.errors[0].path, 'status')
    })

    it('are filtered by type, which the counts by type ignore', async () => {
      const page = await ask('type=1')
      assert.deepEqual(
        page.items.map((channel: ListedChannel) => channel.name),
        ['gamma', 'alpha'],
      )
      assert.equal(page.total, 2)
      assert.deepEqual(page.type_counts, { 1: 2, 8: 1, 14: 1, 43: 1 })
      assert.deepEqual((await ask('status=enabled&type=14')).type_counts, { 1: 1, 8: 1, 14: 1 })
      assert.equal((await names('type=')).length, 5)
      assert.equal((await gateway.api('GET', '/api/channel/?type=openai')).status, 400)
    })

    it('are filtered by group, complete names only', async () => {
      assert.deepEqual(await names('group=vip'), ['alpha'])
      assert.equal((await names('group=default')).length, 5)
      assert.deepEqual(await names('group=vi'), [])
      assert.deepEqual(await names('group=%25'), [])
    })

    it('are grouped by tag with tag_mode, untagged ones last, and paged by group', async () => {
      const page = await ask('tag_mode=true')
      const shape = (page.items as Group[]).map(({ tag, count, channels }) => ({
        tag,
        count,
        channels: channels.map(channel => channel.name),
      }))
      const untagged = { tag: null, count: 2, channels: ['delta 100%', 'gamma'] }
      assert.deepEqual(shape, [
        { tag: 'east', count: 1, channels: ['epsilon'] },
        { tag: 'west', count: 2, channels: ['Beta', 'alpha'] },
        untagged,
      ])
      assert.equal(page.total, 3)
      assert.deepEqual(page.type_counts, { 1: 2, 8: 1, 14: 1, 43: 1 })
      const second = await ask('tag_mode=true&p=2&page_size=2')
      assert.deepEqual(
        (second.items as Group[]).map(({ tag }) => tag),
        [null],
      )
      assert.equal(second.total, 3)
      const enabled = (await ask('tag_mode=true&status=enabled')).items as Group[]
      assert.deepEqual(
        enabled.map(({ tag }) => tag),
        ['west', null],
      )
      const sorted = (await ask('tag_mode=1&id_sort=1')).items as Group[]
      assert.deepEqual(
        sorted[1]?.channels.map(channel => channel.name),
        ['Beta', 'alpha'],
      )
      assert.deepEqual((await ask('tag_mode=true&p=9')).items, [])
      assert.deepEqual(await names('tag=west'), ['Beta', 'alpha'])
    })

    it('are searched by id, by a part of name or address in any case, and by a complete key', async () => {
      assert.deepEqual(await search(`keyword=${ids.gamma}`), ['gamma'])
      assert.deepEqual(await search('keyword=BET'), ['Beta'])
      assert.deepEqual(await search('keyword=delta.EXAMPLE'), ['delta 100%'])
      assert.deepEqual(await search('keyword=gamma-exact-key'), ['gamma'])
      assert.deepEqual(await search('keyword=gamma-exact'), [])
      assert.equal((await search('keyword=')).length, 5)
    })

    it('are searched by text in which % and _ are literal', async () => {
      assert.deepEqual(await search('keyword=100%25'), ['delta 100%'])
      assert.deepEqual(await search('keyword=%25'), ['delta 100%'])
      assert.deepEqual(await search('keyword=_'), [])
      assert.deepEqual(await search('model=%25'), [])
      assert.equal((await gateway.api('GET', `/api/channel/search?keyword=${'x'.repeat(300)}`)).status, 400)
    })

    it('are searched by a part of a model’s name, and filtered like lists', async () => {
      assert.deepEqual(await search('model=gpt-4o'), ['gamma', 'alpha'])
      assert.deepEqual(await search('model=shared'), ['delta 100%', 'alpha'])
      assert.deepEqual(await search('model=gpt-4o&status=enabled'), ['alpha'])
      assert.deepEqual(await search('keyword=a&type=14'), ['Beta'])
      assert.deepEqual(await search('keyword=a&group=vip'), ['alpha'])
      assert.deepEqual((await search('keyword=a&id_sort=true'))[0], 'delta 100%')
      const page = await ask('keyword=a&tag_mode=true', '/api/channel/search')
      assert.deepEqual(
        (page.items as Group[]).map(({ tag }) => tag),
        ['west', null],
      )
      assert.equal(page.page_size, 10)
    })

    it('are searched by a part that many models share', async () => {
      const models = Array.from({ length: 250 }, (_, index) => `numerous-${index}`)
      const reply = await gateway.api('POST', '/api/channel/', {
        name: 'wide',
        type: 1,
        key: 'wide-key',
        models,
      })
      assert.deepEqual(await search('model=NUMEROUS'), ['wide'])
      assert.deepEqual(await search('model=numerous-249'), ['wide'])
      await gateway.api('DELETE', `/api/channel/${reply.body.data.id}`)
      assert.deepEqual(await search('model=numerous'), [])
    })

    it('return an empty list for an empty page', async () => {
      const page = await ask('keyword=nothing-is-called-so', '/api/channel/search')
      assert.deepEqual(page, { page: 1, page_size: 10, total: 0, items: [], type_counts: {} })
    })

    it('show a hundred channels of a large tag with the total count', async () => {
      const key = Array.from({ length: 130 }, (_, index) => `tag-key-${index}`).join(',')
      const reply = await gateway.api('POST', '/api/channel/', {
        mode: 'batch',
        channel: { name: 'many', type: 1, key, models: 'm', tag: 'zone' },
      })
      const [, , zone] = (await ask('tag_mode=true')).items as Group[]
      assert.equal(zone?.tag, 'zone')
      assert.equal(zone?.count, 130)
      assert.equal(zone?.channels.length, 100)
      assert.equal((await ask('tag=zone&p=2&page_size=100')).items.length, 30)
      await gateway.api('POST', '/api/channel/batch', {
        ids: reply.body.data.map((channel: ListedChannel) => channel.id),
      })
    })
  })
}
