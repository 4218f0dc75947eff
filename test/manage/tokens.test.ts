import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { oneEngine } from '../support/engines.ts'
import { type Gateway, type Reply, suiteGateway } from '../support/gateway.ts'

const NANOS = 2_000
const MAX_UNITS = 4_000_000_000_000
const inAnHour = () => Math.floor(Date.now() / 1000) + 3_600

for (const engine of oneEngine('sqlite')) {
  describe(`tokens on ${engine} (docs/reference/management-api.md: Tokens)`, () => {
    const gateway = suiteGateway({ engine })
    let alice: Awaited<ReturnType<Gateway['createUser']>>
    let bob: typeof alice

    before(async () => {
      alice = await gateway.createUser({ username: 'alice' })
      bob = await gateway.createUser({ username: 'bob' })
    })

    const as = (who: typeof alice) => (method: string, path: string, body?: unknown) =>
      gateway.api(method, path, body, { token: who.accessToken })
    const ask = (method: string, path: string, body?: unknown) => as(alice)(method, path, body)

    async function make(fields: Readonly<Record<string, unknown>> = {}) {
      const { status, body, text } = await ask('POST', '/api/token/', { name: 'a token', ...fields })
      assert.equal(status, 200, text)
      return body.data
    }
    const get = async (id: number) => (await ask('GET', `/api/token/${id}`)).body.data
    const total = async () => (await ask('GET', '/api/token/?page_size=1')).body.data.total as number

    function assertFault({ status, body }: Reply, path: string): void {
      assert.equal(status, 400)
      assert.equal(body.success, false)
      assert.equal(body.code, 'invalid_request')
      assert.ok(
        body.errors.some((error: { path: string }) => error.path.startsWith(path)),
        `${JSON.stringify(body)} does not name ${path}`,
      )
      assert.ok(body.message.length > path.length)
    }

    const entriesOf = (id: number) =>
      gateway.db.selectFrom('entries').selectAll().where('token_id', '=', id).orderBy('seq').execute()
    const account = (id: number) =>
      gateway.db
        .selectFrom('accounts')
        .selectAll()
        .where('kind', '=', 'token')
        .where('owner_id', '=', id)
        .executeTakeFirstOrThrow()
    const setAccount = (id: number, fields: { posted?: number; held?: number }) =>
      gateway.db
        .updateTable('accounts')
        .set(fields)
        .where('kind', '=', 'token')
        .where('owner_id', '=', id)
        .execute()

    describe('a new token', () => {
      it('has a value of sk- and 48 letters or digits, and is masked afterwards', async () => {
        const createdToken = await make()
        assert.match(createdToken.key, /^sk-[A-Za-z0-9]{48}$/)
        const masked = `${createdToken.key.slice(0, 7)}…${createdToken.key.slice(-4)}`
        assert.equal((await get(createdToken.id)).key, masked)
        const listed = (await ask('GET', '/api/token/')).body.data.items[0]
        assert.deepEqual([listed.id, listed.key], [createdToken.id, masked])
        const matchingToken = (await ask('GET', `/api/token/search?token=${createdToken.key}`)).body.data
          .items[0]
        assert.deepEqual([matchingToken.id, matchingToken.key], [createdToken.id, masked])
        const changed = await ask('PUT', '/api/token/', { id: createdToken.id, name: 'renamed' })
        assert.equal(changed.body.data.key, masked)
      })

      it('returns every documented field with its default', async () => {
        const { id, key, created_time, ...rest } = await make({ name: 'plain' })
        assert.ok(Number.isInteger(id) && key.length === 51)
        assert.ok(Math.abs(created_time - Date.now() / 1000) < 60)
        assert.deepEqual(rest, {
          user_id: alice.id,
          name: 'plain',
          status: 4,
          accessed_time: created_time,
          expired_time: -1,
          remain_quota: 0,
          used_quota: 0,
          held_quota: 0,
          unlimited_quota: false,
          model_limits_enabled: false,
          models: [],
          model_limits: '',
          allow_ips: [],
          group: 'default',
          limits: { rpm: null, tpm: null, concurrency: null },
          log_bodies: 'none',
        })
      })

      it('stores every field of the request', async () => {
        const fields = {
          name: 'full',
          remain_quota: 500_000,
          expired_time: inAnHour(),
          unlimited_quota: true,
          model_limits_enabled: true,
          models: ['gpt-4o', 'o3'],
          allow_ips: ['10.0.0.1', '192.168.0.0/16', '2001:db8::/32'],
          group: 'default',
          limits: { rpm: 60, tpm: 100_000, concurrency: 4 },
        }
        const { id } = await make(fields)
        const storedToken = await get(id)
        for (const [field, value] of Object.entries(fields))
          assert.deepEqual(storedToken[field], value, field)
        assert.equal(storedToken.model_limits, 'gpt-4o,o3')
        assert.equal(storedToken.status, 1)
      })

      it('accepts `models` or `model_limits`, each as an array or a comma-joined text', async () => {
        for (const field of ['models', 'model_limits']) {
          for (const value of [['gpt-4o', 'o3'], 'gpt-4o,o3', ' gpt-4o , o3,,gpt-4o', ['', 'gpt-4o,o3']]) {
            const createdToken = await make({ [field]: value })
            assert.deepEqual(createdToken.models, ['gpt-4o', 'o3'], `${field} ${JSON.stringify(value)}`)
            assert.equal(createdToken.model_limits, 'gpt-4o,o3')
          }
        }
        assert.deepEqual((await make({ models: [], model_limits: 'gpt-4o' })).models, ['gpt-4o'])
        assert.deepEqual((await make({ models: '' })).models, [])
      })

      it('never expires when `expired_time` is missing, 0, -1 or null', async () => {
        for (const fields of [{}, { expired_time: 0 }, { expired_time: -1 }, { expired_time: null }])
          assert.equal((await make(fields)).expired_time, -1)
      })

      it('treats null for every optional field as absent', async () => {
        const nothing = Object.fromEntries(
          [
            'remain_quota',
            'expired_time',
            'unlimited_quota',
            'model_limits_enabled',
            'models',
            'model_limits',
            'allow_ips',
            'group',
            'limits',
          ].map(field => [field, null]),
        )
        const {
          id: _id,
          key: _key,
          created_time: _c,
          accessed_time: _a,
          ...tokenWithNulls
        } = await make(nothing)
        const { id: _id2, key: _key2, created_time: _c2, accessed_time: _a2, ...plain } = await make()
        assert.deepEqual(tokenWithNulls, plain)
      })

      it('ignores fields that are unknown or read-only', async () => {
        const createdToken = await make({
          id: 999_999,
          user_id: bob.id,
          key: 'sk-mine',
          used_quota: 7,
          held_quota: 7,
          status: 2,
          created_time: 1,
          accessed_time: 1,
          shoe_size: 43,
        })
        assert.notEqual(createdToken.id, 999_999)
        assert.equal(createdToken.user_id, alice.id)
        assert.match(createdToken.key, /^sk-[A-Za-z0-9]{48}$/)
        assert.deepEqual([createdToken.used_quota, createdToken.held_quota], [0, 0])
        assert.ok(createdToken.created_time > 1)
        assert.equal('shoe_size' in createdToken, false)
      })

      it('has a name of 1 to 50 characters after trimming, counted in code points', async () => {
        assert.equal((await make({ name: '  spaced out\t' })).name, 'spaced out')
        assert.equal((await make({ name: '🚰'.repeat(50) })).name, '🚰'.repeat(50))
        for (const name of [
          '',
          '   ',
          '🚰'.repeat(51),
          'x'.repeat(51),
          'a\nb',
          'a\u0000b',
          5,
          null,
          undefined,
        ])
          assertFault(await ask('POST', '/api/token/', { name }), 'name')
      })

      it('accepts addresses and CIDRs as an array or as text with commas or line breaks, and returns an array', async () => {
        const expected = ['10.0.0.1', '192.168.0.0/16', '::1']
        for (const allow_ips of [
          expected,
          '10.0.0.1,192.168.0.0/16,::1',
          '10.0.0.1\n192.168.0.0/16\r\n ::1\n',
        ])
          assert.deepEqual((await make({ allow_ips })).allow_ips, expected)
        assert.deepEqual((await make({ allow_ips: '' })).allow_ips, [])
        for (const allow_ips of ['localhost', '10.0.0.0/33', ['1.2.3.4.5'], '10', [5]])
          assertFault(await ask('POST', '/api/token/', { name: 'x', allow_ips }), 'allow_ips')
      })

      it('keeps the group of the request, and `default` if there is none', async () => {
        assert.equal((await make({ group: 'vip' })).group, 'vip')
        assert.equal((await make({ group: '' })).group, 'default')
      })

      it('has limits that are positive integers or null, always returned completely', async () => {
        assert.deepEqual((await make({ limits: { rpm: 5 } })).limits, {
          rpm: 5,
          tpm: null,
          concurrency: null,
        })
        for (const value of [0, -1, 1.5, '5'])
          assertFault(await ask('POST', '/api/token/', { name: 'x', limits: { rpm: value } }), 'limits.rpm')
      })

      it('is refused for one field that is negative, past, too large or of a wrong type', async () => {
        const count = await total()
        const wrong: [string, unknown][] = [
          ['remain_quota', -1],
          ['remain_quota', 1.5],
          ['remain_quota', '10'],
          ['remain_quota', MAX_UNITS + 1],
          ['remain_quota', 1e300],
          ['expired_time', 1],
          ['expired_time', -2],
          ['expired_time', Math.floor(Date.now() / 1000) - 1],
          ['expired_time', 'tomorrow'],
          ['unlimited_quota', 'true'],
          ['unlimited_quota', 1],
          ['model_limits_enabled', 0],
          ['models', 5],
          ['models', [5]],
          ['models', { a: 1 }],
          ['models', ['x'.repeat(256)]],
          ['models', Array.from({ length: 2_001 }, (_, i) => `m${i}`)],
          ['group', 5],
          ['group', 'x'.repeat(65)],
          ['limits', 'none'],
        ]
        for (const [field, value] of wrong)
          assertFault(await ask('POST', '/api/token/', { name: 'x', [field]: value }), field)
        assert.equal(await total(), count)
      })
    })

    describe('the list', () => {
      it('contains only the caller’s own tokens, newest first', async () => {
        const first = await make()
        const second = await make()
        const theirs = (await as(bob)('POST', '/api/token/', { name: 'bob’s' })).body.data
        const { items } = (await ask('GET', '/api/token/?page_size=500')).body.data
        const ids = items.map((item: { id: number }) => item.id)
        assert.deepEqual(ids.slice(0, 2), [second.id, first.id])
        assert.ok(!ids.includes(theirs.id))
        assert.ok(items.every((item: { user_id: number }) => item.user_id === alice.id))
      })

      it('is the same page for clients that count from 0 and use `size`', async () => {
        const { id } = await make()
        for (const query of ['p=0&size=100', 'p=1&page_size=100', 'p=1&ps=100'])
          assert.equal((await ask('GET', `/api/token/?${query}`)).body.data.items[0].id, id)
      })

      it('is searched by part of the name, regardless of case and width', async () => {
        const { id } = await make({ name: 'Größe Ｍ 100% off_line' })
        for (const keyword of ['größe', 'GRÖSSE', 'm 100', '100%', 'off_line', '%'.repeat(40)]) {
          const { items } = (await ask('GET', `/api/token/search?keyword=${encodeURIComponent(keyword)}`))
            .body.data
          assert.equal(items[0]?.id, id, keyword)
        }
        for (const keyword of ['gr_ße', 'offxline', "' or '1'='1", '\\', 'nothing like it']) {
          const { data } = (await ask('GET', `/api/token/search?keyword=${encodeURIComponent(keyword)}`)).body
          assert.deepEqual(data.items, [], keyword)
          assert.equal(data.total, 0)
        }
        assert.equal((await as(bob)('GET', '/api/token/search?keyword=off_line')).body.data.total, 0)
      })

      it('is searched by a complete value, with or without sk-, and never by a part of it', async () => {
        const { id, key } = await make()
        for (const value of [key, key.slice(3)])
          assert.deepEqual(
            (await ask('GET', `/api/token/search?token=${value}`)).body.data.items.map(
              (item: { id: number }) => item.id,
            ),
            [id],
          )
        for (const value of [key.slice(0, 43), key.slice(0, -1), `${key.slice(0, 43)}00000000`])
          assert.equal((await ask('GET', `/api/token/search?token=${value}`)).body.data.total, 0)
        assert.equal((await as(bob)('GET', `/api/token/search?token=${key}`)).body.data.total, 0)
      })

      it('is searched by the masked value: its start and its end', async () => {
        const { id, key } = await make()
        const [head, tail] = [key.slice(0, 7), key.slice(-4)]
        const total = async (token: string, person = ask) => {
          const query = new URLSearchParams({ token })
          return (await person('GET', `/api/token/search?${query}`)).body.data.items.some(
            (item: { id: number }) => item.id === id,
          )
        }
        for (const maskedKey of [`${head}…${tail}`, `${head}...${tail}`, `${head}…`])
          assert.equal(await total(maskedKey), true, maskedKey)
        for (const maskedKey of [`${head}…0000`, `%…${tail}`, `${head}…${tail}`.replace('sk-', 'sk_')])
          assert.equal(await total(maskedKey), false, maskedKey)
        assert.equal(await total(`${head}…${tail}`, as(bob)), false)
      })
    })

    describe('another user’s token, and one that does not exist', () => {
      it('is 404 for reading, changing, deleting and revealing, and stays unchanged', async () => {
        const theirs = (await as(bob)('POST', '/api/token/', { name: 'bob’s' })).body.data
        for (const id of [theirs.id, 123_456_789]) {
          for (const { status, body } of [
            await ask('GET', `/api/token/${id}`),
            await ask('PUT', '/api/token/', { id, name: 'mine' }),
            await ask('DELETE', `/api/token/${id}`),
            await ask('POST', `/api/token/${id}/key`),
          ]) {
            assert.equal(status, 404)
            assert.equal(body.code, 'not_found')
          }
        }
        assert.equal((await ask('POST', '/api/token/batch', { ids: [theirs.id] })).body.data, 0)
        assert.deepEqual(
          (await ask('POST', '/api/token/batch/keys', { ids: [theirs.id] })).body.data.keys,
          {},
        )
        assert.equal((await as(bob)('GET', `/api/token/${theirs.id}`)).body.data.name, 'bob’s')
      })

      it('is hidden from administrators too', async () => {
        const { id } = await make()
        assert.equal((await gateway.api('GET', `/api/token/${id}`)).status, 404)
      })

      it('is 400 if its id is not an integer', async () => {
        for (const id of ['x', '1.5', '0', '-1', '1e3', '99999999999999999'])
          assertFault(await ask('GET', `/api/token/${id}`), 'id')
      })
    })

    describe('a change', () => {
      it('updates the given fields and keeps the rest', async () => {
        const createdToken = await make({ remain_quota: 10, models: ['a'], limits: { rpm: 5, tpm: 7 } })
        const { key: _key, ...previous } = await get(createdToken.id)
        const { body } = await ask('PUT', '/api/token/', {
          id: createdToken.id,
          name: 'new',
          limits: { tpm: null },
        })
        const { key: _masked, ...changed } = body.data
        assert.deepEqual(changed, {
          ...previous,
          name: 'new',
          limits: { rpm: 5, tpm: null, concurrency: null },
        })
      })

      it('accepts the returned object unchanged, and changes nothing', async () => {
        const { id } = await make({ remain_quota: 10, models: ['a', 'b'], expired_time: inAnHour() })
        // A fraction of a unit is used up, which the API rounds away.
        await setAccount(id, { posted: 1 })
        const storedToken = await get(id)
        const entries = (await entriesOf(id)).length
        const { status, body } = await ask('PUT', '/api/token/', storedToken)
        assert.equal(status, 200)
        assert.deepEqual(body.data, storedToken)
        assert.equal((await entriesOf(id)).length, entries)
        const { key } = (await ask('POST', `/api/token/${id}/key`)).body.data
        assert.notEqual(key, storedToken.key)
      })

      it('uses whichever of `models` and `model_limits` differs in an object that is sent back', async () => {
        const { id } = await make({ models: ['a'] })
        const put = async (fields: object) =>
          (await ask('PUT', '/api/token/', { ...(await get(id)), ...fields })).body.data.models
        assert.deepEqual(await put({ model_limits: 'b,c' }), ['b', 'c'])
        assert.deepEqual(await put({ models: ['d'] }), ['d'])
        assert.deepEqual(await put({ models: [] }), [])
      })

      it('of `status` alone disables and enables, with or without ?status_only=true', async () => {
        const { id } = await make({ unlimited_quota: true })
        for (const path of ['/api/token/', '/api/token/?status_only=true', '/api/token?status_only=1']) {
          for (const status of [2, 1])
            assert.equal((await ask('PUT', path, { id, status })).body.data.status, status)
        }
      })

      it('with ?status_only=true changes nothing else, and with =false it does', async () => {
        const { id } = await make({ name: 'before' })
        const fields = { id, name: 'after', status: 2 }
        const only = (await ask('PUT', '/api/token/?status_only=true', fields)).body.data
        assert.deepEqual([only.name, only.status], ['before', 2])
        assert.equal((await ask('PUT', '/api/token/?status_only=false', fields)).body.data.name, 'after')
      })

      it('cannot set the status to expired or exhausted: a 3 or 4 is ignored, anything else is 400', async () => {
        const { id } = await make({ unlimited_quota: true })
        for (const status of [3, 4])
          assert.equal((await ask('PUT', '/api/token/', { id, status })).body.data.status, 1)
        for (const status of [0, 5, '2'])
          assertFault(await ask('PUT', '/api/token/', { id, status }), 'status')
      })

      it('removes the expiry with 0 or -1 and refuses a time that has passed', async () => {
        const { id } = await make({ expired_time: inAnHour() })
        assert.equal((await ask('PUT', '/api/token/', { id, expired_time: 0 })).body.data.expired_time, -1)
        const past = Math.floor(Date.now() / 1000) - 10
        assertFault(await ask('PUT', '/api/token/', { id, expired_time: past }), 'expired_time')
      })

      it('that is refused has changed nothing, not even its valid fields', async () => {
        const { id } = await make({ name: 'as it was', remain_quota: 5 })
        const before = await get(id)
        await ask('PUT', '/api/token/', { id, name: 'other', remain_quota: 6, expired_time: 1 })
        await ask('PUT', '/api/token/', { id, name: 'other', remain_quota: 6, allow_ips: 'nowhere' })
        assert.deepEqual(await get(id), before)
      })

      it('needs the id', async () => {
        for (const id of [undefined, null, '1', 0, 1.5])
          assertFault(await ask('PUT', '/api/token/', { id, name: 'x' }), 'id')
      })
    })

    describe('the status', () => {
      const expire = (id: number) =>
        gateway.db.updateTable('tokens').set({ expired_time: 1_000 }).where('id', '=', id).execute()

      it('is 2 when disabled, else 3 when expired, else 4 when nothing remains, else 1', async () => {
        const { id } = await make({ remain_quota: 1 })
        const status = async () => (await get(id)).status
        assert.equal(await status(), 1)
        await setAccount(id, { posted: NANOS })
        assert.equal(await status(), 4)
        await expire(id)
        assert.equal(await status(), 3)
        await ask('PUT', '/api/token/', { id, status: 2 })
        assert.equal(await status(), 2)
      })

      it('is 4 only when less than a nanodollar remains', async () => {
        const { id } = await make({ remain_quota: 1 })
        await setAccount(id, { posted: NANOS - 1 })
        const storedToken = await get(id)
        assert.deepEqual([storedToken.status, storedToken.remain_quota], [1, 0])
      })

      it('is never 4 for an unlimited token', async () => {
        assert.equal((await make({ unlimited_quota: true })).status, 1)
      })

      it('lets an expired token be renamed without changing its expiry, and be renewed', async () => {
        const { id } = await make({ unlimited_quota: true })
        await expire(id)
        const sentBack = await ask('PUT', '/api/token/', { ...(await get(id)), name: 'old' })
        assert.deepEqual([sentBack.status, sentBack.body.data.status], [200, 3])
        assert.equal((await ask('PUT', '/api/token/', { id, expired_time: -1 })).body.data.status, 1)
      })
    })

    describe('the quota, a limit and not money', () => {
      it('is granted by an entry that contains the actor, the reason and the amount', async () => {
        const { id } = await make({ remain_quota: 10 })
        const [entry, ...others] = await entriesOf(id)
        assert.deepEqual(others, [])
        assert.deepEqual(
          [entry?.kind, entry?.user_id, entry?.amount, entry?.actor, entry?.reason],
          ['limit', alice.id, 10 * NANOS, `user:${alice.id}`, 'token created'],
        )
        assert.equal((await entriesOf((await make()).id)).length, 0)
      })

      it('is set by PUT to the new remainder, regardless of usage', async () => {
        const { id } = await make({ remain_quota: 10 })
        await setAccount(id, { posted: 3 * NANOS })
        const used = await get(id)
        assert.deepEqual([used.remain_quota, used.used_quota], [7, 3])
        const { data } = (await ask('PUT', '/api/token/', { id, remain_quota: 20 })).body
        assert.deepEqual([data.remain_quota, data.used_quota], [20, 3])
        assert.equal((await entriesOf(id)).at(-1)?.amount, 13 * NANOS)
        await ask('PUT', '/api/token/', { id, remain_quota: 1 })
        const last = (await entriesOf(id)).at(-1)
        assert.deepEqual([last?.amount, last?.reason], [-19 * NANOS, 'token updated'])
      })

      it('rounds the remainder down and the usage up, so that they add up to the granted quota', async () => {
        const { id } = await make({ remain_quota: 10 })
        for (const posted of [0, 1, NANOS - 1, NANOS, NANOS + 1, 10 * NANOS - 1, 10 * NANOS]) {
          await setAccount(id, { posted })
          const { remain_quota, used_quota } = await get(id)
          assert.equal(remain_quota, Math.floor((10 * NANOS - posted) / NANOS))
          assert.equal(used_quota, Math.ceil(posted / NANOS))
          assert.equal(remain_quota + used_quota, 10)
        }
      })

      it('returns held quota separately, without deducting it from the remainder', async () => {
        const { id } = await make({ remain_quota: 10 })
        await setAccount(id, { held: 4 * NANOS })
        const { remain_quota, held_quota } = await get(id)
        assert.deepEqual([remain_quota, held_quota], [10, 4])
      })

      it('is at most 4,000,000,000,000 units', async () => {
        const { id } = await make({ remain_quota: MAX_UNITS })
        assert.equal((await get(id)).remain_quota, MAX_UNITS)
        assertFault(await ask('PUT', '/api/token/', { id, remain_quota: MAX_UNITS + 1 }), 'remain_quota')
        await ask('PUT', '/api/token/', { id, remain_quota: 0 })
        const { data } = (await ask('PUT', '/api/token/', { id, remain_quota: MAX_UNITS })).body
        assert.equal(data.remain_quota, MAX_UNITS)
      })

      it('is kept while the token is unlimited, and applies again once it is limited', async () => {
        const { id } = await make({ remain_quota: 10 })
        const put = async (unlimited_quota: boolean) =>
          (await ask('PUT', '/api/token/', { id, unlimited_quota })).body.data
        const unlimited = await put(true)
        assert.deepEqual([unlimited.unlimited_quota, unlimited.remain_quota], [true, 10])
        const limited = await put(false)
        assert.deepEqual([limited.unlimited_quota, limited.remain_quota], [false, 10])
        assert.equal((await entriesOf(id)).length, 1)
      })

      it('is 0, by an entry, when an unlimited token that used more is limited again', async () => {
        const { id } = await make({ remain_quota: 10, unlimited_quota: true })
        await setAccount(id, { posted: 25 * NANOS })
        assert.equal((await get(id)).remain_quota, 0)
        const { data } = (await ask('PUT', '/api/token/', { ...(await get(id)), unlimited_quota: false }))
          .body
        assert.deepEqual([data.remain_quota, data.used_quota, data.status], [0, 25, 4])
        assert.equal((await entriesOf(id)).at(-1)?.amount, 15 * NANOS)
        assert.equal((await account(id)).credited, 25 * NANOS)
      })

      it('is one of the requested values with concurrent changes, and its entries add up to it', async () => {
        const { id } = await make({ remain_quota: 5 })
        const figures = Array.from({ length: 12 }, (_, i) => (i + 1) * 100)
        await Promise.all(figures.map(remain_quota => ask('PUT', '/api/token/', { id, remain_quota })))
        const { remain_quota } = await get(id)
        assert.ok(figures.includes(remain_quota), `${remain_quota} was asked for by nobody`)
        const sum = (await entriesOf(id)).reduce((total, { amount }) => total + amount, 0)
        assert.equal(sum, remain_quota * NANOS)
      })
    })

    describe('a token that is deleted', () => {
      it('is deleted permanently before the response, with its key', async () => {
        const { id, key } = await make({ unlimited_quota: true })
        const use = () => gateway.api('GET', '/api/usage/token/', undefined, { token: key })
        assert.equal((await use()).status, 200)
        const { status, body } = await ask('DELETE', `/api/token/${id}`)
        assert.deepEqual([status, body], [200, { success: true, message: '' }])
        assert.equal((await use()).status, 401)
        assert.equal((await ask('GET', `/api/token/${id}`)).status, 404)
        assert.equal((await ask('DELETE', `/api/token/${id}`)).status, 404)
        assert.equal((await ask('GET', `/api/token/search?token=${key}`)).body.data.total, 0)
      })

      it('leaves its account and its entries in the ledger', async () => {
        const { id } = await make({ remain_quota: 10 })
        await ask('DELETE', `/api/token/${id}`)
        assert.equal((await account(id)).credited, 10 * NANOS)
        assert.equal((await entriesOf(id)).length, 1)
      })

      it('never has its id reused', async () => {
        const { id } = await make()
        await ask('DELETE', `/api/token/${id}`)
        assert.ok((await make()).id > id)
      })

      it('may be one of several: the response is their number', async () => {
        const [first, second] = [await make(), await make()]
        const { body } = await ask('POST', '/api/token/batch', { ids: [first.id, second.id, 123_456_789] })
        assert.equal(body.data, 2)
        assert.equal((await ask('GET', `/api/token/${first.id}`)).status, 404)
        for (const ids of [[], ['1'], [0], undefined])
          assertFault(await ask('POST', '/api/token/batch', { ids }), 'ids')
      })
    })

    describe('revealing', () => {
      it('returns the complete value by POST, and is audited', async () => {
        const { id, key } = await make()
        assert.deepEqual((await ask('POST', `/api/token/${id}/key`)).body.data, { key })
        const { data } = (await gateway.api('GET', `/api/audit/?action=token.reveal&target=token:${id}`)).body
        assert.equal(data.total, 1)
        assert.equal(data.items[0].actor_name, 'alice')
      })

      it('is not available by GET, which browsers and proxies repeat and cache', async () => {
        const { id } = await make()
        assert.equal((await ask('GET', `/api/token/${id}/key`)).status, 405)
      })

      it('returns several at once, by id', async () => {
        const [first, second] = [await make(), await make()]
        const { data } = (await ask('POST', '/api/token/batch/keys', { ids: [first.id, second.id] })).body
        assert.deepEqual(data.keys, { [first.id]: first.key, [second.id]: second.key })
      })
    })
  })
}
