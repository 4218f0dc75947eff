import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { oneEngine } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { startRecorder } from '../support/recorder.ts'
import { suiteRelay } from '../support/relay.ts'

const MESSAGES = [{ role: 'user', content: 'Hello' }]
/** More than the 60 of a minute that get a row each; a run that crosses a minute has at most two windows. */
const MANY = 150
const ROWS_OF_WINDOW = 60

type Row = Record<string, unknown> & { requests: number; type: number; other: string }

for (const engine of oneEngine('postgres'))
  describe(`a request that the gateway rejects, on ${engine} (docs/reference/errors.md: Rejected requests)`, () => {
    const relay = suiteRelay(engine)
    const get = (path: string, token?: string) =>
      relay.must(relay.gateway.api('GET', path, undefined, token === undefined ? {} : { token }))
    const rowsOf = async (tokenId: number, query = ''): Promise<Row[]> =>
      (await get(`/api/log/walk?token_id=${tokenId}&limit=500${query}`)).rows
    /** Waits until the rows of a token stand for so many requests. */
    const untilRequests = (tokenId: number, count: number) =>
      until(`${count} requests`, async () => {
        const rows = await rowsOf(tokenId)
        return rows.reduce((sum, { requests }) => sum + requests, 0) >= count ? rows : undefined
      })
    const countsOf = async (tokenId: number, by: string) => {
      const { values, is_exact } = await get(`/api/log/facets?token_id=${tokenId}&by=${by}`)
      assert.equal(is_exact, true)
      return Object.fromEntries(values.map(({ key, count }: { key: string; count: number }) => [key, count]))
    }

    it('has a row with its code, and is found by its request id', async () => {
      const { accessToken } = await relay.gateway.createUser({ quota: 1_000_000 })
      const { id, key } = await relay.newToken({}, accessToken)
      const reply = await relay.chat(key, { model: 'no-such-model', messages: MESSAGES })
      assert.equal(reply.status, 404, reply.text)
      const [row] = await untilRequests(id, 1)
      assert.ok(row)
      assert.deepEqual(
        [row.type, row.channel, row.model_name, row.quota, row.requests, row.content],
        [5, 0, '', 0, 1, 'No enabled channel serves the model "no-such-model".'],
      )
      assert.deepEqual(JSON.parse(row.other), {
        rejected: true,
        error_code: 'model_not_found',
        status: 404,
        requested_model: 'no-such-model',
      })
      const requestId = reply.headers.get('x-request-id')
      for (const reader of [undefined, accessToken]) {
        const { rows } = await get(`/api/log/request/${requestId}`, reader)
        assert.deepEqual([rows.length, rows[0].request_id], [1, requestId])
      }
      const { items } = await get(`/api/log/?request_id=${requestId}`)
      assert.equal(items[0].id, row.id)
    })

    it('has the model if the gateway serves it, also after the quota was held', async () => {
      const { model, channels } = await relay.serve(['only'])
      await relay.must(relay.gateway.api('PUT', '/api/channel/', { id: channels[0], limits: { rpm: 1 } }))
      const { id, key } = await relay.newToken({ unlimited_quota: true })
      const statuses = []
      for (let i = 0; i < 2; i++) statuses.push((await relay.chat(key, { model, messages: MESSAGES })).status)
      assert.deepEqual(statuses, [200, 503])
      const rows = await untilRequests(id, 2)
      assert.ok(rows.every(({ model_name }) => model_name === model))
      const rejected = rows.find(({ type }) => type === 5)
      assert.equal(JSON.parse(rejected?.other ?? '{}').error_code, 'no_channel_available')
      assert.deepEqual(await countsOf(id, 'status'), { ok: 1, rejected: 1, failed: 0 })
      assert.equal((await rowsOf(id, '&status=rejected')).length, 1)
      assert.equal((await rowsOf(id, '&status=failed')).length, 0)
    })

    it('is counted exactly beyond the rows that are kept', async () => {
      const { id, key } = await relay.newToken({})
      const replies = await Promise.all(
        Array.from({ length: MANY }, () => relay.chat(key, { model: 'no-such-model', messages: MESSAGES })),
      )
      assert.ok(replies.every(({ status }) => status === 404))
      const rows = await untilRequests(id, MANY)
      assert.equal(
        rows.reduce((sum, { requests }) => sum + requests, 0),
        MANY,
      )
      const shared = rows.filter(({ requests }) => requests > 1)
      assert.ok(shared.length === 1 || shared.length === 2, `${shared.length} rows for further requests`)
      assert.ok(rows.length - shared.length <= 2 * ROWS_OF_WINDOW)
      const { count, failures } = await get(`/api/log/totals?token_id=${id}`)
      assert.deepEqual([count, failures], [MANY, MANY])
      assert.deepEqual(await countsOf(id, 'error'), { model_not_found: MANY })
      const { sums } = await relay.gateway.db
        .selectFrom('rollups')
        .select(({ fn }) => fn.sum<number>('requests').as('sums'))
        .where('token_id', '=', id)
        .executeTakeFirstOrThrow()
      assert.equal(Number(sums), MANY)
    })

    it('is counted by code if its credential is unknown, in no sum of requests', async () => {
      const before = (await get('/api/log/totals')).count
      const wrong = 'sk-000000000000000000000000000000000000000000000000'
      for (let i = 0; i < 3; i++)
        assert.equal((await relay.chat(wrong, { model: 'any', messages: MESSAGES })).status, 401)
      const countUnknown = async () => {
        const { items } = await get('/api/log/?type=4')
        const unknown = items.filter(({ other }: Row) => JSON.parse(other).error_code === 'invalid_api_key')
        return unknown.reduce((sum: number, { requests }: Row) => sum + requests, 0)
      }
      await until('the count of unknown credentials', async () => (await countUnknown()) >= 3 || undefined)
      assert.equal(await countUnknown(), 3)
      assert.equal((await get('/api/log/totals')).count, before)
    })

    it('of a disabled token is a request of that token', async () => {
      const { id, key } = await relay.newToken({})
      await relay.must(relay.gateway.api('PUT', '/api/token/', { id, status: 2 }))
      assert.equal((await relay.chat(key, { model: 'any', messages: MESSAGES })).status, 401)
      const [row] = await untilRequests(id, 1)
      assert.equal(JSON.parse(row?.other ?? '{}').error_code, 'invalid_api_key')
    })

    it('is stored with a replacement for characters that PostgreSQL does not store', async () => {
      const { id, key } = await relay.newToken({})
      const reply = await relay.gateway.api('GET', '/v1/models/%00', undefined, { token: key })
      assert.equal(reply.status, 404, reply.text)
      const [row] = await untilRequests(id, 1)
      assert.match(String(row?.content), /The model "\ufffd" does not exist/)
    })

    it('does not stop the ledger if a provider reports such characters', async () => {
      const provider = await startRecorder()
      try {
        const message = `NUL \0, half a pair \ud83d, and a backslash \\u0000`
        provider.answers({ status: 400, headers: {}, body: { error: { message, code: 'odd\0' } } })
        const { model } = await relay.serve(['odd'], { base_url: provider.url })
        const { id, key } = await relay.newToken({ unlimited_quota: true })
        assert.equal((await relay.chat(key, { model, messages: MESSAGES })).status, 400)
        const [row] = await untilRequests(id, 1)
        assert.match(String(row?.content), /NUL \ufffd, half a pair \ufffd, and a backslash \\u0000/)
        assert.deepEqual(await countsOf(id, 'error'), { upstream_400: 1 })
      } finally {
        await provider.close()
      }
    })

    it('is no row of its own if it was settled', async () => {
      const { model } = await relay.serve(['failing'], { base_url: 'http://127.0.0.1:9' })
      const { id, key } = await relay.newToken({ unlimited_quota: true })
      assert.equal((await relay.chat(key, { model, messages: MESSAGES })).status, 502)
      const rows = await untilRequests(id, 1)
      assert.deepEqual(
        rows.map(row => [row.type, row.channel !== 0]),
        [[5, true]],
      )
      assert.deepEqual(await countsOf(id, 'status'), { failed: 1, ok: 0 })
    })
  })
