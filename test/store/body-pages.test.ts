import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { BodyPageRow } from '../../src/store/engine/schema.ts'
import { bodyBytes, findBody, insertPages } from '../../src/store/usage/bodies.ts'
import { createRetention } from '../../src/store/usage/retention.ts'
import { requestIdOf } from '../support/callers.ts'
import { ENGINES, suiteGateway } from '../support/gateway.ts'
import { pageOf, rowOf } from '../support/kept-bodies.ts'

const DAY_S = 86_400
const MIB = 1_048_576
const nowS = Math.floor(Date.now() / 1000)

for (const engine of ENGINES)
  describe(`pages of bodies on ${engine} (docs/operating/bodies.md: Storage)`, () => {
    const gateway = suiteGateway({ engine })
    let requests = 0
    let pauses = 0
    const newId = () => requestIdOf(++requests)
    const someone = () => gateway.createUser()
    const read = (requestId: string, token?: string) =>
      gateway.api(
        'GET',
        `/api/log/request/${requestId}/body`,
        undefined,
        token === undefined ? {} : { token },
      )
    const readTexts = async (requestId: string) => {
      const { status, body } = await read(requestId)
      assert.equal(status, 200, requestId)
      const { request, answer } = body.data
      return [request.text, answer.text]
    }

    /** A stored page with the bodies of some requests, 1,000 bytes each. */
    async function newPage(
      user_id: number,
      count: number,
      age = 0,
    ): Promise<BodyPageRow & { ids: string[] }> {
      const newChat = () => {
        const request_id = newId()
        return { request_id, answer: `"${request_id}${'x'.repeat(1000)}"` }
      }
      const chats: Parameters<typeof pageOf>[2] = [newChat(), ...Array.from({ length: count - 1 }, newChat)]
      const page = pageOf(gateway.bodySeal, { user_id, created_time: nowS - age }, chats)
      await insertPages(gateway.store, [page])
      return { ...page, ids: chats.map(({ request_id }) => request_id) }
    }

    async function newRow(user_id: number, age = 0): Promise<string> {
      const request_id = newId()
      const chat = { request_id, request: '"old request"', answer: '"old answer"' }
      const row = rowOf(gateway.bodySeal, { user_id, created_time: nowS - age }, chat)
      await gateway.db.insertInto('bodies').values(row).execute()
      return request_id
    }

    /** The ids of everything that is stored. */
    async function stored() {
      const { db } = gateway
      const pages = await db.selectFrom('body_pages').select('id').execute()
      const places = await db.selectFrom('body_places').select('request_id').execute()
      const rows = await db.selectFrom('bodies').select('request_id').execute()
      return {
        pages: pages.map(({ id }) => id).toSorted(),
        requests: [
          ...pages.map(({ id }) => id),
          ...[...places, ...rows].map(({ request_id }) => request_id),
        ].toSorted(),
      }
    }

    async function empty(): Promise<void> {
      for (const table of ['bodies', 'body_pages', 'body_places'] as const)
        await gateway.db.deleteFrom(table).execute()
    }

    async function sweep(): Promise<number> {
      const retention = createRetention({
        db: gateway.db,
        engine,
        sessionLastsS: DAY_S,
        now: () => nowS,
        isLeader: () => true,
        async pause() {
          pauses += 1
        },
        onFailure: error => assert.fail(error),
      })
      try {
        return (await retention.sweep()).bodies
      } finally {
        await retention.close()
      }
    }

    it('have the bodies of several requests, each of which is read by itself', async () => {
      const { id } = await someone()
      const bytesOf = (text: string) => Buffer.from(text).toString('latin1')
      const chats: Parameters<typeof pageOf>[2] = [
        { request_id: newId(), request: '{"first":1}', answer: '' },
        { request_id: newId(), request: bytesOf('"naïve 你好 👋"'), answer: bytesOf('"Grüße"') },
        { request_id: newId(), request: '', answer: 'x'.repeat(200_000) },
        { request_id: newId() },
      ]
      await insertPages(gateway.store, [pageOf(gateway.bodySeal, { user_id: id, created_time: nowS }, chats)])
      const texts = await Promise.all(chats.map(({ request_id }) => readTexts(request_id)))
      assert.deepEqual(texts, [
        ['{"first":1}', ''],
        ['"naïve 你好 👋"', '"Grüße"'],
        ['', 'x'.repeat(200_000)],
        ['{}', '{}'],
      ])
    })

    it('are refused if their bytes were changed', async () => {
      const { id: user } = await someone()
      const page = await newPage(user, 2)
      const content = Buffer.from(page.content)
      content[100] = (content[100] as number) ^ 1
      await gateway.db.updateTable('body_pages').set({ content }).where('id', '=', page.id).execute()
      for (const requestId of page.ids) assert.equal((await read(requestId)).status, 500)
    })

    it('are refused if they were exchanged, or given to another user', async () => {
      const [owner, other] = [await someone(), await someone()]
      const [one, two] = [await newPage(owner.id, 2), await newPage(owner.id, 2)]
      const change = (page: BodyPageRow, fields: Partial<BodyPageRow>) =>
        gateway.db.updateTable('body_pages').set(fields).where('id', '=', page.id).execute()
      await change(one, { content: two.content })
      await change(two, { content: one.content })
      for (const requestId of [...one.ids, ...two.ids]) assert.equal((await read(requestId)).status, 500)
      const third = await newPage(owner.id, 1)
      await change(third, { user_id: other.id })
      assert.equal((await read(third.ids[0] as string, other.accessToken)).status, 500)
      assert.equal((await read(third.ids[0] as string, owner.accessToken)).status, 404)
    })

    it('are refused for a request whose place names another page', async () => {
      const { id: user } = await someone()
      const [one, two] = [await newPage(user, 2), await newPage(user, 2)]
      const [first = '', second = ''] = one.ids
      await gateway.db
        .updateTable('body_places')
        .set({ page_id: two.id })
        .where('request_id', '=', second)
        .execute()
      assert.equal((await read(second)).status, 500)
      assert.equal((await read(first)).status, 200)
      await gateway.db.insertInto('body_places').values({ request_id: first, page_id: two.id }).execute()
      assert.equal((await read(first)).status, 500)
    })

    it('keep the first bodies of a request', async () => {
      await empty()
      const { id: user } = await someone()
      const first = await newPage(user, 2)
      const [, requestId = ''] = first.ids
      const before = await readTexts(requestId)
      const second = pageOf(gateway.bodySeal, { user_id: user, created_time: nowS - 8 * DAY_S }, [
        { request_id: newId() },
        { request_id: requestId, answer: '"second"' },
      ])
      await insertPages(gateway.store, [second])
      assert.deepEqual(await readTexts(requestId), before)
      assert.equal(await sweep(), 1)
      assert.deepEqual(await stored(), { pages: [first.id], requests: first.ids })
      assert.deepEqual(await readTexts(requestId), before)
    })

    it('are not stored without the places of their requests', async () => {
      await empty()
      const { id: user } = await someone()
      const page = await newPage(user, 2)
      const next = pageOf(gateway.bodySeal, { user_id: user, created_time: nowS }, [
        { request_id: newId() },
        { request_id: newId() },
      ])
      await assert.rejects(insertPages(gateway.store, [next, page]))
      await assert.rejects(insertPages(gateway.store, [{ ...next, other_requests: 'not JSON' }]))
      assert.deepEqual(await stored(), { pages: [page.id], requests: page.ids })
    })

    it('expire as a whole, with the places of their requests', async () => {
      await empty()
      const { id: user } = await someone()
      const expired = [await newPage(user, 3, 8 * DAY_S), await newPage(user, 2, 9 * DAY_S)]
      const rest = await newPage(user, 2, 6 * DAY_S)
      const [oldRow, newRowId] = [await newRow(user, 8 * DAY_S), await newRow(user, DAY_S)]
      assert.equal(await sweep(), 6)
      assert.deepEqual(await stored(), { pages: [rest.id], requests: [...rest.ids, newRowId].toSorted() })
      for (const requestId of [...expired.flatMap(({ ids }) => ids), oldRow])
        assert.equal(await findBody(gateway.db, requestId), undefined)
      assert.equal((await read(newRowId)).status, 200)
    })

    it('are removed above the budget together with rows of older versions, the oldest first', async () => {
      await empty()
      const { id: user } = await someone()
      await gateway.api('PUT', '/api/setting/', { body_budget_mb: 1, body_retention_days: 0 })
      const oldest = await newPage(user, 300, 50)
      const row = await newRow(user, 40)
      const second = await newPage(user, 300, 30)
      const latestRow = await newRow(user, 20)
      const third = await newPage(user, 300, 10)
      const latest = await newPage(user, 300)
      const all = await bodyBytes(gateway.db)
      assert.ok(all > MIB && all - oldest.size - second.size < MIB, String(all))
      assert.equal(await sweep(), 300 + 1 + 300)
      assert.deepEqual(await stored(), {
        pages: [third.id, latest.id].toSorted(),
        requests: [...third.ids, ...latest.ids, latestRow].toSorted(),
      })
      assert.equal(await findBody(gateway.db, row), undefined)
      assert.equal(await sweep(), 0)
      await gateway.api('PUT', '/api/setting/', { body_budget_mb: null, body_retention_days: null })
    })

    it('of 30 MiB that expired together are removed in several transactions', async () => {
      await empty()
      const { id: user } = await someone()
      const answer = 'x'.repeat(MIB)
      const ids = Array.from({ length: 30 }, newId)
      for (const request_id of ids) {
        const owner = { user_id: user, created_time: nowS - 8 * DAY_S }
        await insertPages(gateway.store, [pageOf(gateway.bodySeal, owner, [{ request_id, answer }])])
      }
      pauses = 0
      assert.equal(await sweep(), 30)
      assert.ok(pauses >= 3, String(pauses))
      assert.deepEqual(await stored(), { pages: [], requests: [] })
    })

    it('are erased with the account of their user, and those of others are not', async () => {
      await empty()
      const [user, other] = [await someone(), await someone()]
      for (let turn = 0; turn < 3; turn++) await newPage(user.id, 5)
      await newRow(user.id)
      const rest = await newPage(other.id, 2)
      const row = await newRow(other.id)
      await gateway.api('DELETE', `/api/user/${user.id}`)
      const expected = { pages: [rest.id], requests: [...rest.ids, row].toSorted() }
      assert.deepEqual(await stored(), expected)
      // Bodies that were waiting when the account was deleted.
      const late = await newPage(user.id, 4)
      const lateRow = await newRow(user.id)
      for (const requestId of [...late.ids, lateRow])
        assert.equal(await findBody(gateway.db, requestId), undefined)
      assert.equal(await sweep(), 5)
      assert.deepEqual(await stored(), expected)
    })

    it('leave the rows of older versions readable', async () => {
      const owner = await someone()
      const requestId = await newRow(owner.id)
      assert.deepEqual(await readTexts(requestId), ['"old request"', '"old answer"'])
      const { body } = await read(requestId, owner.accessToken)
      assert.deepEqual([body.data.user_id, body.data.token_id, body.data.status], [owner.id, 0, 200])
      const second = await newRow(owner.id)
      const { content } = await gateway.db
        .selectFrom('bodies')
        .select('content')
        .where('request_id', '=', second)
        .executeTakeFirstOrThrow()
      await gateway.db.updateTable('bodies').set({ content }).where('request_id', '=', requestId).execute()
      assert.equal((await read(requestId)).status, 500)
    })
  })
