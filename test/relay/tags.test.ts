import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { oneEngine } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { startRecorder } from '../support/recorder.ts'
import { suiteRelay } from '../support/relay.ts'

const MESSAGES = [{ role: 'user', content: 'Hello' }]

for (const engine of oneEngine('sqlite'))
  describe(`the tags of a request, on ${engine} (docs/reference/relay-api.md: Tags)`, () => {
    const relay = suiteRelay(engine)
    let model: string
    let provider: Awaited<ReturnType<typeof startRecorder>>
    before(async () => {
      provider = await startRecorder()
      model = (await relay.serve('sim-words-1', {}, { per_call: 0.01 })).model
    })
    after(() => provider.close())

    const send = (key: string, tags: string | undefined, more: Readonly<Record<string, unknown>> = {}) =>
      relay.chat(
        key,
        { model, messages: MESSAGES, ...more },
        tags === undefined ? {} : { 'x-sluice-tags': tags },
      )
    const get = (path: string, token?: string) =>
      relay.must(relay.gateway.api('GET', path, undefined, token === undefined ? {} : { token }))
    const span = () =>
      `from=${Math.floor(Date.now() / 1000) - 3_600}&to=${Math.floor(Date.now() / 1000) + 60}`
    const rowsWith = async (tag: string, token?: string): Promise<{ other: string; request_id: string }[]> =>
      (await get(`/api/log/walk?tag=${encodeURIComponent(tag)}`, token)).rows

    it('come from the header, the metadata and the user, in this order', async () => {
      const { id, key } = await relay.newToken({ unlimited_quota: true })
      const body = { user: 'u-1', metadata: { team: 'search', project: 'other', depth: 3 } }
      assert.equal((await send(key, 'project = atlas,città=Zürich', body)).status, 200)
      const { other } = await relay.rowOf(id)
      assert.deepEqual(other.tags, { user: 'u-1', team: 'search', project: 'atlas', città: 'Zürich' })
      assert.equal((await rowsWith('città=Zürich')).length, 1)
      assert.equal((await rowsWith('project=other')).length, 0)
      const { items } = await get(`/api/log/?tag=${encodeURIComponent('user=u-1')}`)
      assert.equal(items.length, 1)
    })

    it('filter the log and its sums, are added up by value and by name, and belong to their user', async () => {
      const { accessToken } = await relay.gateway.createUser({ quota: 50_000_000 })
      const { id, key } = await relay.newToken({ unlimited_quota: true }, accessToken)
      for (const tags of ['cost-center=a', 'cost-center=a, app=x', 'cost-center=b'])
        assert.equal((await send(key, tags)).status, 200)
      await relay.rowsOf(id, 3)
      assert.equal((await get('/api/log/totals?tag=cost-center=a')).cost, '0.02')
      const { rows, is_exact } = await get(`/api/usage/tags?name=cost-center&${span()}`, accessToken)
      assert.equal(is_exact, true)
      assert.deepEqual(
        rows.map(({ key: value, requests, cost }: Record<string, unknown>) => [value, requests, cost]),
        [
          ['a', 2, '0.02'],
          ['b', 1, '0.01'],
        ],
      )
      const names = await get(`/api/usage/tags?${span()}`, accessToken)
      assert.deepEqual(
        names.rows.map(({ key: name, requests }: Record<string, unknown>) => [name, requests]),
        [
          ['cost-center', 3],
          ['app', 1],
        ],
      )
      const other = await relay.gateway.createUser({ quota: 0 })
      assert.deepEqual((await get(`/api/usage/tags?${span()}`, other.accessToken)).rows, [])
      assert.deepEqual(await rowsWith('cost-center=a', other.accessToken), [])
    })

    it('are kept with a rejected request too', async () => {
      const { key } = await relay.newToken({})
      const reply = await relay.chat(
        key,
        { model: 'no-such-model', messages: MESSAGES },
        { 'x-sluice-tags': 'run=rejected-1' },
      )
      assert.equal(reply.status, 404)
      const [row] = await until('the row', async () => {
        const rows = await rowsWith('run=rejected-1')
        return rows.length > 0 ? rows : undefined
      })
      assert.equal(row?.request_id, reply.headers.get('x-request-id'))
    })

    it('are refused if the header is wrong', async () => {
      const { key } = await relay.newToken({ unlimited_quota: true })
      for (const [tags, words] of [
        ['project', /project=atlas/],
        ['=x', /project=atlas/],
        ['a=1, a=2', /repeat/],
        [`${'n'.repeat(65)}=1`, /64 characters/],
        [`a=${'v'.repeat(65)}`, /64 characters/],
        [Array.from({ length: 11 }, (_, at) => `t${at}=1`).join(), /at most 10/],
      ] as const) {
        const { status, body } = await send(key, tags)
        assert.deepEqual(
          [status, body.error.code, body.error.param],
          [400, 'invalid_parameter', 'x-sluice-tags'],
        )
        assert.match(body.error.message, words)
      }
      assert.equal((await relay.gateway.api('GET', '/api/log/walk?tag=nothing')).status, 400)
    })

    it('of the header are never sent to a provider, even if its channel forwards all headers', async () => {
      const fields = { base_url: provider.url, header_override: { '*': '' } }
      const { model: forwarding } = await relay.serve('first', fields)
      const { key } = await relay.newToken({ unlimited_quota: true })
      provider.answers({
        status: 200,
        body: { id: 'c', object: 'chat.completion', choices: [{ index: 0, message: { content: 'Hi' } }] },
      })
      const headers = { 'x-sluice-tags': 'secret-project=atlas', 'x-other': 'passes' }
      await relay.chat(key, { model: forwarding, messages: MESSAGES }, headers)
      const providerRequest = provider.last()
      assert.equal(providerRequest.headers['x-other'], 'passes')
      assert.equal(providerRequest.headers['x-sluice-tags'], undefined)
    })

    it('are erased with the account', async () => {
      const { id: userId, accessToken } = await relay.gateway.createUser({ quota: 50_000_000 })
      const { id, key } = await relay.newToken({ unlimited_quota: true }, accessToken)
      assert.equal((await send(key, 'person=ann')).status, 200)
      await relay.rowOf(id)
      assert.equal((await rowsWith('person=ann')).length, 1)
      await relay.must(relay.gateway.api('DELETE', `/api/user/${userId}`))
      assert.equal((await rowsWith('person=ann')).length, 0)
      const { other } = await relay.rowOf(id)
      assert.deepEqual([other.tags, other.source], [undefined, 'provider'])
    })
  })
