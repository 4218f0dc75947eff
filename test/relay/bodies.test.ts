import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { createRetention } from '../../src/store/usage/retention.ts'
import { oneEngine } from '../support/engines.ts'
import { until } from '../support/process.ts'
import { suiteRelay } from '../support/relay.ts'
import { allRows } from '../support/tables.ts'

const HOUR_S = 3_600
const nowS = () => Math.floor(Date.now() / 1000)

for (const engine of oneEngine('postgres'))
  describe(`bodies on ${engine} (docs/operating/bodies.md: Which bodies are kept)`, () => {
    const relay = suiteRelay(engine)
    let model: string
    before(async () => {
      model = (await relay.serve('sim-words-1')).model
    })

    const messages = (content: string) => [{ role: 'user', content }]
    const idOf = ({ headers }: { headers: Headers }) => headers.get('x-request-id') ?? ''
    const read = (requestId: string, token?: string) =>
      relay.gateway.api(
        'GET',
        `/api/log/request/${requestId}/body`,
        undefined,
        token === undefined ? {} : { token },
      )
    const readStoredIds = async () =>
      [
        ...(await relay.gateway.db.selectFrom('body_pages').select('id').execute()),
        ...(await relay.gateway.db.selectFrom('body_places').select('request_id as id').execute()),
      ].map(({ id }) => id)
    const untilKept = (...ids: readonly string[]) =>
      until('the bodies', async () => new Set(await readStoredIds()).isSupersetOf(new Set(ids)) || undefined)
    const pageOf = async (requestId: string) =>
      (
        await relay.gateway.db
          .selectFrom('body_places')
          .select('page_id')
          .where('request_id', '=', requestId)
          .executeTakeFirst()
      )?.page_id ?? requestId
    const set = (settings: Readonly<Record<string, unknown>>) =>
      relay.must(relay.gateway.api('PUT', '/api/setting/', settings))
    const retention = () =>
      createRetention({
        db: relay.gateway.db,
        engine,
        sessionLastsS: HOUR_S,
        now: nowS,
        isLeader: () => true,
        pause: async () => {},
        onFailure: error => assert.fail(error),
      })
    const someone = () => relay.gateway.createUser({ quota: 50_000_000 })
    const ask = (key: string, content: string, more: Readonly<Record<string, unknown>> = {}) =>
      relay.chat(key, { model, messages: messages(content), ...more })

    it('are kept of no request by default', async () => {
      const { key } = await relay.newToken()
      const { key: last } = await relay.newToken({ log_bodies: 'all' })
      const reply = await ask(key, 'not kept')
      const marker = idOf(await ask(last, 'kept'))
      await untilKept(marker)
      assert.equal((await readStoredIds()).includes(idOf(reply)), false)
      assert.equal((await read(idOf(reply))).status, 404)
    })

    it('of a token with the mode all are as they were received and sent, whole and streamed', async () => {
      const { accessToken } = await someone()
      const { key, id } = await relay.newToken({ log_bodies: 'all' }, accessToken)
      const whole = await ask(key, 'What is kept?')
      const body = await relay.must(read(idOf(whole), accessToken))
      assert.deepEqual(
        [body.path, body.model, body.status, body.token_id],
        ['/v1/chat/completions', model, 200, id],
      )
      assert.deepEqual(JSON.parse(body.request.text), { model, messages: messages('What is kept?') })
      assert.equal(body.answer.text, whole.text)
      assert.deepEqual([body.answer.is_truncated, body.answer.is_masked], [false, false])
      const streamed = await ask(key, 'And of a stream?', { stream: true })
      const stream = await relay.must(read(idOf(streamed), accessToken))
      assert.equal(stream.answer.text, streamed.text)
      assert.match(stream.answer.content_type, /^text\/event-stream/)
    })

    it('of a token with the mode errors are those of failed and rejected requests', async () => {
      const { key } = await relay.newToken({ log_bodies: 'errors' })
      const ok = await ask(key, 'fine')
      const rejected = await ask(key, 'rejected', { model: 'no-such-model' })
      assert.equal(rejected.status, 404)
      const body = await relay.must(read(idOf(rejected)))
      assert.deepEqual([body.status, body.answer.text], [404, rejected.text])
      assert.match(body.request.text, /rejected/)
      assert.equal((await readStoredIds()).includes(idOf(ok)), false)
    })

    it('are those of the stronger mode of token and user', async () => {
      const { accessToken } = await someone()
      await relay.must(
        relay.gateway.api('PUT', '/api/user/self', { log_bodies: 'all' }, { token: accessToken }),
      )
      const { key } = await relay.newToken({ log_bodies: 'errors' }, accessToken)
      const reply = await ask(key, 'kept by the user')
      assert.equal((await read(idOf(reply), accessToken)).status, 200)
    })

    it('of the mode sampled are a share of the successful requests', async () => {
      const { key } = await relay.newToken({ log_bodies: 'sampled' })
      await set({ body_sample: 1 })
      const all = await ask(key, 'sampled')
      assert.equal((await read(idOf(all))).status, 200)
      await set({ body_sample: 0 })
      const none = await ask(key, 'not sampled')
      assert.equal((await read(idOf(none))).status, 404)
      await set({ body_sample: null })
    })

    it('are kept only for the models of the setting', async () => {
      const { key } = await relay.newToken({ log_bodies: 'all' })
      await set({ log_bodies_models: 'another-model, a-third' })
      const other = await ask(key, 'another model')
      await set({ log_bodies_models: `another-model, ${model}` })
      const listed = await ask(key, 'this model')
      assert.equal((await read(idOf(listed))).status, 200)
      assert.equal((await readStoredIds()).includes(idOf(other)), false)
      await set({ log_bodies_models: null })
    })

    it('are masked, encrypted, and bound to their request', async () => {
      const { accessToken } = await someone()
      const { key } = await relay.newToken({ log_bodies: 'all' }, accessToken)
      await set({ body_mask_fields: 'passport' })
      const secret = 'sk-proj-canary0123456789abcdef'
      const reply = await ask(key, `key ${secret}\nmail ada@example.com card 4111 1111 1111 1111`, {
        metadata: { passport: 'C01X00T47' },
      })
      assert.equal(reply.status, 200, reply.text)
      const { request } = await relay.must(read(idOf(reply), accessToken))
      assert.equal(request.is_masked, true)
      const parsed = JSON.parse(request.text)
      assert.equal(parsed.messages[0].content, 'key [masked]\nmail [masked] card [masked]1111')
      assert.equal(parsed.metadata.passport, '[masked]')
      const rows = (await allRows(relay.gateway.db)).get('body_pages') ?? []
      assert.ok(rows.length > 0)
      for (const row of rows) assert.equal(Buffer.from(row.content as Uint8Array).includes('messages'), false)
      const second = await ask(key, 'second')
      await read(idOf(second), accessToken)
      const { db } = relay.gateway
      const { content } = await db
        .selectFrom('body_pages')
        .select('content')
        .where('id', '=', await pageOf(idOf(second)))
        .executeTakeFirstOrThrow()
      await db
        .updateTable('body_pages')
        .set({ content })
        .where('id', '=', await pageOf(idOf(reply)))
        .execute()
      assert.equal((await read(idOf(reply), accessToken)).status, 500)
      await set({ body_mask_fields: null })
    })

    it('are truncated at 256 KiB', async () => {
      const { key } = await relay.newToken({ log_bodies: 'all', unlimited_quota: true })
      const reply = await ask(key, 'long '.repeat(100_000))
      const { request } = await relay.must(read(idOf(reply)))
      assert.deepEqual([request.is_truncated, request.text.length], [true, 256 * 1024])
      assert.ok(request.size > 500_000)
    })

    it('of a form are the names and sizes of its parts', async () => {
      const { model: hearing } = await relay.serve('sim-words-1', {}, { per_call: 0.001 })
      const { key } = await relay.newToken({ log_bodies: 'all' })
      const form = new FormData()
      form.set('model', hearing)
      form.set('file', new Blob(['not audio, and not kept']), 'secret-name.wav')
      const response = await fetch(`${relay.gateway.url}/v1/audio/transcriptions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: form,
      })
      await response.text()
      const { request } = await relay.must(read(idOf(response)))
      assert.equal(request.text, null)
      assert.deepEqual(request.parts, [
        { name: 'model', is_file: false, size: hearing.length },
        { name: 'file', is_file: true, size: 23 },
      ])
    })

    it('are read by the owner and by Root only, and every reading is in the audit log', async () => {
      const [owner, other] = [await someone(), await someone()]
      const admin = await relay.gateway.createUser({ role: 10 })
      const { key } = await relay.newToken({ log_bodies: 'all' }, owner.accessToken)
      const requestId = idOf(await ask(key, 'confidential'))
      assert.equal((await read(requestId, owner.accessToken)).status, 200)
      assert.equal((await read(requestId)).status, 200)
      assert.equal((await read(requestId, other.accessToken)).status, 404)
      assert.equal((await read(requestId, admin.accessToken)).status, 403)
      const { items } = await relay.must(
        relay.gateway.api('GET', `/api/audit/?action=body.view&page_size=100`),
      )
      const views = items.filter(({ target }: { target: string }) => target === `request:${requestId}`)
      assert.deepEqual(
        views.map(({ actor_name }: { actor_name: string }) => actor_name),
        ['root', owner.username],
      )
    })

    it('of other users can be switched on by Root, and by no administrator', async () => {
      const { id, accessToken } = await someone()
      const admin = await relay.gateway.createUser({ role: 10 })
      const change = { id, log_bodies: 'all' }
      const refused = await relay.gateway.api('PUT', '/api/user/', change, { token: admin.accessToken })
      assert.deepEqual([refused.status, refused.body.errors[0].path], [403, 'log_bodies'])
      const same = { id, log_bodies: 'none', email: 'x@y.z' }
      assert.equal(
        (await relay.gateway.api('PUT', '/api/user/', same, { token: admin.accessToken })).status,
        200,
      )
      assert.equal((await relay.must(relay.gateway.api('PUT', '/api/user/', change))).log_bodies, 'all')
      const { key } = await relay.newToken({}, accessToken)
      assert.equal((await read(idOf(await ask(key, 'switched on by Root')))).status, 200)
      const wrong = await relay.gateway.api('PUT', '/api/user/', { id, log_bodies: 'some' })
      assert.deepEqual([wrong.status, wrong.body.errors[0].path], [400, 'log_bodies'])
    })

    it('are erased with the account, expire, and stay within their budget', async () => {
      const { id, accessToken } = await someone()
      const { key } = await relay.newToken({ log_bodies: 'all' }, accessToken)
      const { key: rootKey } = await relay.newToken({ log_bodies: 'all', unlimited_quota: true })
      const erased = idOf(await ask(key, 'erased'))
      await untilKept(erased)
      await relay.must(relay.gateway.api('DELETE', `/api/user/${id}`))
      assert.equal((await readStoredIds()).includes(erased), false)

      /** In a page without the others. */
      const askAlone = async (content: string) => {
        const requestId = idOf(await ask(rootKey, content))
        await untilKept(requestId)
        return requestId
      }
      const [old, large] = [await askAlone('old'), await askAlone('large '.repeat(40_000))]
      await askAlone('newest')
      const { db } = relay.gateway
      const age = async (requestId: string, seconds: number) =>
        db
          .updateTable('body_pages')
          .set({ created_time: nowS() - seconds })
          .where('id', '=', await pageOf(requestId))
          .execute()
      await age(old, 8 * 24 * HOUR_S)
      await age(large, 2 * HOUR_S)
      const job = retention()
      assert.equal((await job.sweep()).bodies, 1)
      assert.equal((await readStoredIds()).includes(old), false)
      // Four more bodies of 240 kB exceed a megabyte, so the oldest is removed.
      for (let turn = 0; turn < 4; turn++) await askAlone('large '.repeat(40_000))
      const last = await askAlone('last')
      await set({ body_budget_mb: 1 })
      assert.ok((await job.sweep()).bodies > 0)
      const remainingIds = await readStoredIds()
      assert.deepEqual([remainingIds.includes(large), remainingIds.includes(last)], [false, true])
      await set({ body_budget_mb: null })
      await job.close()
    })

    it('are counted when they are dropped', async () => {
      const metrics = await relay.gateway.api('GET', '/metrics')
      assert.match(metrics.text, /^sluice_bodies_dropped_total 0$/m)
    })
  })
