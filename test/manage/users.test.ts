import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { oneEngine } from '../support/engines.ts'
import { type Gateway, type Reply, ROOT_PASSWORD, suiteGateway } from '../support/gateway.ts'

const NANOS = 2_000
const MAX_UNITS = 4_000_000_000_000
const ROOT_ID = 1

function assertFault({ status, body }: Reply, path: string): void {
  assert.equal(status, 400)
  assert.equal(body.code, 'invalid_request')
  assert.ok(
    body.errors.some((error: { path: string }) => error.path.startsWith(path)),
    `${JSON.stringify(body)} does not name ${path}`,
  )
}

function assertRefused({ status, body }: Reply, expected: number, code: string): void {
  assert.deepEqual([status, body.success, body.code], [expected, false, code], JSON.stringify(body))
}

for (const engine of oneEngine('postgres')) {
  describe(`users on ${engine} (docs/reference/management-api.md: Users)`, () => {
    const gateway = suiteGateway({ engine })
    type User = Awaited<ReturnType<Gateway['createUser']>>
    let admin: User
    let alice: User

    before(async () => {
      admin = await gateway.createUser({ username: 'admin', role: 10 })
      alice = await gateway.createUser({ username: 'alice' })
    })

    const as = (who: User, method: string, path: string, body?: unknown) =>
      gateway.api(method, path, body, { token: who.accessToken })
    const login = (username: string, password: string) =>
      gateway.api('POST', '/api/user/login', { username, password }, { token: null })
    const readUser = async (id: number) => (await gateway.api('GET', `/api/user/${id}`)).body.data

    describe('the caller’s own account', () => {
      it('is returned with every field of the contract and no secret', async () => {
        const { status, body } = await as(alice, 'GET', '/api/user/self')
        assert.equal(status, 200)
        assert.equal(body.success, true)
        const { created_time, ...rest } = body.data
        assert.ok(Math.abs(created_time - Date.now() / 1000) < 60)
        assert.deepEqual(rest, {
          id: alice.id,
          username: 'alice',
          display_name: 'alice',
          role: 1,
          status: 1,
          email: '',
          group: 'default',
          quota: 0,
          unlimited_quota: false,
          used_quota: 0,
          held_quota: 0,
          request_count: 0,
          last_login_time: 0,
          limits: { rpm: null, tpm: null, concurrency: null },
          log_bodies: 'none',
        })
      })

      it('is unlimited for root from the start, and has no quota for other users', async () => {
        const root = (await gateway.api('GET', '/api/user/self')).body.data
        assert.deepEqual([root.username, root.role, root.unlimited_quota], ['root', 100, true])
        const { quota, unlimited_quota } = await readUser(alice.id)
        assert.deepEqual([quota, unlimited_quota], [0, false])
      })

      it('accepts new names, trimmed, and ignores absent, null or empty ones', async () => {
        const user = await gateway.createUser()
        const put = (body: object) => as(user, 'PUT', '/api/user/self', body)
        const both = await put({ username: ' carla ', display_name: ' Carla C. ' })
        assert.deepEqual([both.body.data.username, both.body.data.display_name], ['carla', 'Carla C.'])
        for (const nothing of [
          {},
          { username: '', display_name: '' },
          { username: null, display_name: null },
        ]) {
          const { data } = (await put(nothing)).body
          assert.deepEqual([data.username, data.display_name], ['carla', 'Carla C.'])
        }
        assert.equal((await login('carla', user.password)).status, 200)
      })

      it('ignores fields that a user may not set: role, quota, status, group, limits, id', async () => {
        const user = await gateway.createUser()
        const before = (await as(user, 'GET', '/api/user/self')).body.data
        const { status } = await as(user, 'PUT', '/api/user/self', {
          id: ROOT_ID,
          role: 100,
          status: 2,
          quota: 5,
          unlimited_quota: true,
          used_quota: 9,
          group: 'vip',
          limits: { rpm: 1 },
          email: 'me@example.com',
          password_hash: 'x',
        })
        assert.equal(status, 200)
        assert.deepEqual((await as(user, 'GET', '/api/user/self')).body.data, before)
      })

      it('changes its password with the current one, and the old one is no longer valid', async () => {
        const user = await gateway.createUser()
        const { status } = await as(user, 'PUT', '/api/user/self', {
          password: 'a new password',
          original_password: user.password,
        })
        assert.equal(status, 200)
        assert.equal((await login(user.username, 'a new password')).status, 200)
        assertRefused(await login(user.username, user.password), 401, 'wrong_credentials')
      })

      it('is 403 wrong_password if the current one is wrong or missing, and nothing changes', async () => {
        const user = await gateway.createUser()
        for (const original_password of ['not it at all', '', null, undefined])
          assertRefused(
            await as(user, 'PUT', '/api/user/self', {
              username: 'thief',
              password: 'a new password',
              original_password,
            }),
            403,
            'wrong_password',
          )
        assert.equal((await as(user, 'GET', '/api/user/self')).body.data.username, user.username)
        assert.equal((await login(user.username, user.password)).status, 200)
      })

      it('throttles guesses of the current password with a credential of the account', async () => {
        const user = await gateway.createUser()
        const change = (original_password: string) =>
          as(user, 'PUT', '/api/user/self', { password: 'a new password', original_password })
        for (let guess = 0; guess < 5; guess++)
          assertRefused(await change(`guess ${guess}`), 403, 'wrong_password')
        const reply = await change('guess 6')
        assertRefused(reply, 429, 'rate_limited')
        assert.match(reply.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
      })

      it('is deleted with all its credentials, and is 404 from then on', async () => {
        const user = await gateway.createUser({ quota: 7 })
        const token = (await as(user, 'POST', '/api/token/', { name: 'x', unlimited_quota: true })).body.data
        const use = () => gateway.api('GET', '/api/usage/token/', undefined, { token: token.key })
        assert.equal((await use()).status, 200)
        const { status, body } = await as(user, 'DELETE', '/api/user/self')
        assert.deepEqual([status, body], [200, { success: true, message: '' }])
        assert.equal((await use()).status, 401)
        assert.equal((await as(user, 'GET', '/api/user/self')).status, 401)
        assert.equal((await gateway.api('GET', `/api/user/${user.id}`)).status, 404)
        assertRefused(await login(user.username, user.password), 401, 'wrong_credentials')
      })

      it('keeps its id and its ledger, with its personal fields erased and its name available again', async () => {
        const user = await gateway.createUser({ username: 'leaver', quota: 7 })
        await gateway.api('PUT', '/api/user/', { id: user.id, email: 'leaver@example.com' })
        await as(user, 'DELETE', '/api/user/self')
        const row = await gateway.db
          .selectFrom('users')
          .selectAll()
          .where('id', '=', user.id)
          .executeTakeFirstOrThrow()
        assert.ok(!JSON.stringify(row).includes('leaver'))
        assert.equal(row.password_hash, '')
        assert.equal((await entriesOf(user.id)).length, 1)
        const again = await gateway.createUser({ username: 'leaver' })
        assert.ok(again.id > user.id)
      })

      it('of the last root cannot be deleted', async () => {
        assertRefused(await gateway.api('DELETE', '/api/user/self'), 409, 'conflict')
        assert.equal((await gateway.api('GET', '/api/user/self')).status, 200)
      })
    })

    describe('a username', () => {
      it('has 1 to 64 characters, counted in code points, and no spaces', async () => {
        const long = `${'🚰'.repeat(63)}x`
        assert.equal((await as(alice, 'PUT', '/api/user/self', { username: long })).status, 200)
        assert.equal((await as(alice, 'PUT', '/api/user/self', { username: 'alice' })).status, 200)
        for (const username of ['🚰'.repeat(65), 'two words', 'a\u00a0b', 'a\tb', 'a\u0000b', 'a\ud800', 5])
          assertFault(await as(alice, 'PUT', '/api/user/self', { username }), 'username')
        // These look like the name of another user, though they differ.
        for (const username of ['al\u200bice', '\u202eecila', 'alice\u00ad', 'al\u2060ice', 'alice\u{e0041}'])
          assertFault(await as(alice, 'PUT', '/api/user/self', { username }), 'username')
        for (const username of ['', '  ', null, undefined])
          assertFault(
            await gateway.api('POST', '/api/user/', { username, password: 'long enough' }),
            'username',
          )
      })

      it('is unique regardless of case, width and ligatures', async () => {
        await gateway.createUser({ username: 'Straße-ﬁ' })
        for (const username of ['Straße-ﬁ', 'STRASSE-FI', 'strasse-fi', 'Ｓtraße-fi']) {
          assertRefused(
            await gateway.api('POST', '/api/user/', { username, password: 'long enough' }),
            409,
            'conflict',
          )
          assertRefused(await as(alice, 'PUT', '/api/user/self', { username }), 409, 'conflict')
          assertRefused(await gateway.api('PUT', '/api/user/', { id: alice.id, username }), 409, 'conflict')
        }
      })

      it('may be changed to another case by its owner', async () => {
        assert.equal(
          (await as(alice, 'PUT', '/api/user/self', { username: 'ALICE' })).body.data.username,
          'ALICE',
        )
        await as(alice, 'PUT', '/api/user/self', { username: 'alice' })
      })

      it('is given to only one of several concurrent requests', async () => {
        const replies = await Promise.all(
          Array.from({ length: 5 }, () =>
            gateway.api('POST', '/api/user/', { username: 'wanted', password: 'long enough' }),
          ),
        )
        assert.deepEqual(replies.map(({ status }) => status).sort(), [200, 409, 409, 409, 409])
      })
    })

    describe('a password', () => {
      it('has 8 to 128 characters, counted in code points, and spaces count', async () => {
        for (const password of ['1234567', '🔑'.repeat(7), 'x'.repeat(129), '', null, undefined, 12345678])
          assertFault(await gateway.api('POST', '/api/user/', { username: 'nobody', password }), 'password')
        for (const [username, password] of [
          ['keys8', '🔑'.repeat(8)],
          ['keys128', '🔑'.repeat(128)],
          ['spaces', '        '],
        ] as const) {
          assert.equal((await gateway.api('POST', '/api/user/', { username, password })).status, 200)
          assert.equal((await login(username, password)).status, 200)
        }
      })
    })

    describe('the list, for administrators', () => {
      it('is newest first, without deleted users', async () => {
        const [first, second, third] = [
          await gateway.createUser(),
          await gateway.createUser(),
          await gateway.createUser(),
        ]
        await gateway.api('DELETE', `/api/user/${second.id}`)
        const { items } = (await as(admin, 'GET', '/api/user/?page_size=500')).body.data
        const ids = items.map((item: { id: number }) => item.id)
        assert.deepEqual(ids.slice(0, 2), [third.id, first.id])
        assert.ok(!ids.includes(second.id))
        assert.equal(ids.at(-1), ROOT_ID)
      })

      it('is searched by id and by a part of the names or the address, on both paths', async () => {
        const { body } = await gateway.api('POST', '/api/user/', {
          username: 'zoe_100%',
          password: 'long enough',
          display_name: 'Zoë Größe',
          email: 'zoe@example.org',
        })
        const { id } = body.data
        for (const path of ['/api/user/', '/api/user/search']) {
          for (const keyword of [String(id), 'ZOE_100%', 'GRÖSSE', 'example.org']) {
            const { items } = (await as(admin, 'GET', `${path}?keyword=${encodeURIComponent(keyword)}`)).body
              .data
            assert.ok(
              items.some((item: { id: number }) => item.id === id),
              `${path} ${keyword}`,
            )
          }
          const nobody = await as(admin, 'GET', `${path}?keyword=${encodeURIComponent('zoeX100')}`)
          assert.deepEqual(nobody.body.data.items, [])
        }
      })

      it('is filtered by role, status and group; an empty filter is none', async () => {
        const { id } = await gateway.createUser()
        await gateway.api('PUT', '/api/user/', { id, status: 2, group: 'vip' })
        const idsOf = async (query: string) =>
          (await as(admin, 'GET', `/api/user/?page_size=500&${query}`)).body.data.items.map(
            (item: { id: number }) => item.id,
          )
        assert.deepEqual(await idsOf('role=100'), [ROOT_ID])
        assert.deepEqual(await idsOf('status=2'), [id])
        assert.deepEqual(await idsOf('group=vip'), [id])
        assert.deepEqual(await idsOf('role=1&status=2&group=default'), [])
        assert.deepEqual(await idsOf('role=&status=&group=&keyword='), await idsOf(''))
      })

      it('is filtered by the remaining quota, which is never low if it is unlimited', async () => {
        const [poor, rich, boundless] = [
          await gateway.createUser({ quota: 9 }),
          await gateway.createUser({ quota: 10 }),
          await gateway.createUser(),
        ]
        await gateway.api('PUT', '/api/user/', { id: boundless.id, unlimited_quota: true })
        const findUsers = async (query: string) => {
          const { body } = await as(admin, 'GET', `/api/user/?page_size=500&${query}`)
          const ids: number[] = body.data.items.map((item: { id: number }) => item.id)
          return [poor, rich, boundless].filter(({ id }) => ids.includes(id))
        }
        assert.deepEqual(await findUsers('quota_below=10'), [poor])
        assert.deepEqual(await findUsers('quota_below=11'), [poor, rich])
        assert.deepEqual(await findUsers('quota_below=0'), [])
        assert.deepEqual(await findUsers('quota_below='), [poor, rich, boundless])
        for (const wrong of ['-1', '4000000000001', '1.5'])
          assertFault(await as(admin, 'GET', `/api/user/?quota_below=${wrong}`), 'quota_below')
      })

      it('and one user of it are 403 for a User', async () => {
        for (const [method, path] of [
          ['GET', '/api/user/'],
          ['GET', '/api/user/search'],
          ['GET', `/api/user/${ROOT_ID}`],
          ['GET', `/api/user/${alice.id}`],
          ['POST', '/api/user/'],
          ['PUT', '/api/user/'],
          ['DELETE', `/api/user/${admin.id}`],
          ['POST', '/api/user/manage'],
        ] as const)
          assertRefused(await as(alice, method, path), 403, 'forbidden')
      })

      it('returns one user by id, and 404 if there is none', async () => {
        assert.equal((await as(admin, 'GET', `/api/user/${alice.id}`)).body.data.username, 'alice')
        assertRefused(await as(admin, 'GET', '/api/user/123456789'), 404, 'not_found')
      })
    })

    describe('a user created by an administrator', () => {
      it('has the fields of the request', async () => {
        const fields = {
          username: 'made',
          display_name: 'Made Up',
          email: 'made@example.com',
          role: 1,
          quota: 500,
          unlimited_quota: true,
          group: 'vip',
          limits: { rpm: 6, tpm: null, concurrency: 2 },
        }
        const { body } = await as(admin, 'POST', '/api/user/', { ...fields, password: 'long enough' })
        for (const [field, value] of Object.entries(fields)) assert.deepEqual(body.data[field], value, field)
        assert.deepEqual(await readUser(body.data.id), body.data)
      })

      it('needs a name and a password only; null is absent', async () => {
        const { body } = await as(admin, 'POST', '/api/user/', {
          username: 'bare',
          password: 'long enough',
          display_name: null,
          email: null,
          role: null,
          quota: null,
          unlimited_quota: null,
          group: null,
          limits: null,
        })
        const { role, quota, unlimited_quota, group, display_name } = body.data
        assert.deepEqual(
          [role, quota, unlimited_quota, group, display_name],
          [1, 0, false, 'default', 'bare'],
        )
      })

      it('has a role below that of its creator', async () => {
        const make = (who: User | undefined, role: number) => {
          const body = { username: `role-${role}-${who?.id ?? 'root'}`, password: 'long enough', role }
          return who ? as(who, 'POST', '/api/user/', body) : gateway.api('POST', '/api/user/', body)
        }
        assert.equal((await make(undefined, 10)).body.data.role, 10)
        assertRefused(await make(undefined, 100), 403, 'forbidden')
        assertRefused(await make(admin, 10), 403, 'forbidden')
        assertRefused(await make(admin, 100), 403, 'forbidden')
        assertFault(await make(undefined, 5), 'role')
      })

      it('that is refused is not created', async () => {
        for (const wrong of [
          { quota: -1 },
          { quota: MAX_UNITS + 1 },
          { quota: '5' },
          { unlimited_quota: 'yes' },
          { limits: { rpm: 0 } },
          { display_name: 'x'.repeat(65) },
          { email: 'x'.repeat(255) },
        ])
          assertFault(
            await gateway.api('POST', '/api/user/', { username: 'ghost', password: 'long enough', ...wrong }),
            Object.keys(wrong)[0] as string,
          )
        assert.equal((await gateway.api('GET', '/api/user/?keyword=ghost')).body.data.total, 0)
      })
    })

    describe('a user changed by an administrator', () => {
      it('keeps fields that are absent', async () => {
        const { id } = await gateway.createUser({ quota: 9 })
        const before = await readUser(id)
        const { body } = await as(admin, 'PUT', '/api/user/', { id, email: 'new@example.com' })
        assert.deepEqual(body.data, { ...before, email: 'new@example.com' })
      })

      it('may be sent back completely, and nothing changes', async () => {
        const { id } = await gateway.createUser({ quota: 9 })
        // A fraction of a unit is used up, which the API rounds away.
        await withAccount(id, { posted: 1 }, async () => {
          const before = await readUser(id)
          const { body } = await as(admin, 'PUT', '/api/user/', before)
          assert.deepEqual(body.data, before)
          assert.equal((await entriesOf(id)).length, 1)
        })
      })

      it('has limits that only an administrator sets, one by one', async () => {
        const { id } = await gateway.createUser()
        const put = async (limits: object) =>
          (await as(admin, 'PUT', '/api/user/', { id, limits })).body.data.limits
        assert.deepEqual(await put({ rpm: 60, tpm: 1_000 }), { rpm: 60, tpm: 1_000, concurrency: null })
        assert.deepEqual(await put({ rpm: null, concurrency: 2 }), { rpm: null, tpm: 1_000, concurrency: 2 })
        for (const rpm of [0, -5, 1.5, '60'])
          assertFault(await as(admin, 'PUT', '/api/user/', { id, limits: { rpm } }), 'limits.rpm')
      })

      it('with a new password loses all sessions', async () => {
        const user = await gateway.createUser()
        const cookie = cookieOf(await login(user.username, user.password))
        assert.equal((await bySession(cookie)).status, 200)
        await as(admin, 'PUT', '/api/user/', { id: user.id, password: 'given by admin' })
        assert.equal((await bySession(cookie)).status, 401)
        assert.equal((await login(user.username, 'given by admin')).status, 200)
      })

      it('and disabled loses every session, also when it is enabled again', async () => {
        const user = await gateway.createUser()
        const cookie = cookieOf(await login(user.username, user.password))
        for (const status of [2, 1]) {
          const { data } = (await as(admin, 'PUT', '/api/user/', { id: user.id, status })).body
          assert.equal(data.status, status)
          assert.equal((await bySession(cookie)).status, 401)
        }
      })

      it('is 404 if it does not exist, and 400 without an id', async () => {
        assertRefused(await as(admin, 'PUT', '/api/user/', { id: 123_456_789 }), 404, 'not_found')
        assertFault(await as(admin, 'PUT', '/api/user/', { username: 'x' }), 'id')
        assertFault(await as(admin, 'PUT', '/api/user/', { id: alice.id, status: 3 }), 'status')
      })
    })

    describe('a user with a role at or above the caller’s', () => {
      it('is not changed by any call: 403', async () => {
        const peer = await gateway.createUser({ role: 10 })
        const cases: [User | undefined, number][] = [
          [admin, peer.id],
          [admin, admin.id],
          [admin, ROOT_ID],
          [undefined, ROOT_ID],
        ]
        for (const [who, id] of cases) {
          const before = await readUser(id)
          const ask = (method: string, path: string, body?: unknown) =>
            who ? as(who, method, path, body) : gateway.api(method, path, body)
          for (const reply of [
            await ask('PUT', '/api/user/', { id, display_name: 'touched' }),
            await ask('PUT', '/api/user/', { id, password: 'taken over' }),
            await ask('DELETE', `/api/user/${id}`),
            await ask('POST', '/api/user/manage', { id, action: 'disable' }),
            await ask('POST', '/api/user/manage', { id, action: 'demote' }),
            await ask('POST', '/api/user/manage', { id, action: 'delete' }),
            await ask('POST', '/api/user/manage', { id, action: 'add_quota', value: 5 }),
          ])
            assertRefused(reply, 403, 'forbidden')
          assert.deepEqual(await readUser(id), before)
        }
      })

      it('cannot be created: a new role must be below the caller’s', async () => {
        const { id } = await gateway.createUser()
        assertRefused(await as(admin, 'PUT', '/api/user/', { id, role: 10 }), 403, 'forbidden')
        assertRefused(await gateway.api('PUT', '/api/user/', { id, role: 100 }), 403, 'forbidden')
        assertRefused(
          await as(admin, 'POST', '/api/user/manage', { id, action: 'promote' }),
          403,
          'forbidden',
        )
        assert.equal((await readUser(id)).role, 1)
      })
    })

    describe('POST /api/user/manage', () => {
      const manage = (body: object) => gateway.api('POST', '/api/user/manage', body)

      it('disables: every credential stops working immediately, and enables: the permanent ones work again', async () => {
        const user = await gateway.createUser()
        const cookie = cookieOf(await login(user.username, user.password))
        const { key } = (await as(user, 'POST', '/api/token/', { name: 'x', unlimited_quota: true })).body
          .data
        const use = () => gateway.api('GET', '/api/usage/token/', undefined, { token: key })
        assert.equal((await manage({ id: user.id, action: 'disable' })).body.data.status, 2)
        assert.equal((await as(user, 'GET', '/api/user/self')).status, 401)
        assert.equal((await bySession(cookie)).status, 401)
        assert.equal((await use()).status, 401)
        assertRefused(await login(user.username, user.password), 401, 'wrong_credentials')
        assert.equal((await manage({ id: user.id, action: 'enable' })).body.data.status, 1)
        assert.equal((await as(user, 'GET', '/api/user/self')).status, 200)
        assert.equal((await use()).status, 200)
        assert.equal((await bySession(cookie)).status, 401)
      })

      it('promotes and demotes, with effect for the next call', async () => {
        const user = await gateway.createUser()
        assert.equal((await as(user, 'GET', '/api/user/')).status, 403)
        assert.equal((await manage({ id: user.id, action: 'promote' })).body.data.role, 10)
        assert.equal((await as(user, 'GET', '/api/user/')).status, 200)
        assertRefused(await manage({ id: user.id, action: 'promote' }), 409, 'conflict')
        assert.equal((await manage({ id: user.id, action: 'demote' })).body.data.role, 1)
        assert.equal((await as(user, 'GET', '/api/user/')).status, 403)
        assertRefused(await manage({ id: user.id, action: 'demote' }), 409, 'conflict')
      })

      it('deletes like DELETE does', async () => {
        const [first, second] = [await gateway.createUser(), await gateway.createUser()]
        assert.equal((await manage({ id: first.id, action: 'delete' })).body.data, null)
        assert.equal((await gateway.api('DELETE', `/api/user/${second.id}`)).status, 200)
        for (const user of [first, second]) {
          assert.equal((await gateway.api('GET', `/api/user/${user.id}`)).status, 404)
          assert.equal((await as(user, 'GET', '/api/user/self')).status, 401)
          assertRefused(await manage({ id: user.id, action: 'enable' }), 404, 'not_found')
        }
      })

      it('is 404 for an unknown user and 400 for an unknown action or mode', async () => {
        assertRefused(await manage({ id: 123_456_789, action: 'enable' }), 404, 'not_found')
        assertFault(await manage({ id: alice.id, action: 'dance' }), 'action')
        assertFault(await manage({ id: alice.id, action: 'add_quota', value: 1, mode: 'multiply' }), 'mode')
        assertFault(await manage({ action: 'enable' }), 'id')
      })
    })

    describe('the quota, which is money', () => {
      const move = (id: number, mode: string | undefined, value: unknown, reason?: string) =>
        as(admin, 'POST', '/api/user/manage', { id, action: 'add_quota', mode, value, reason })

      it('changes by entries that contain the actor, the reason and the amount', async () => {
        const { id } = await gateway.createUser({ quota: 10 })
        await move(id, 'add', 5, 'March top-up')
        await move(id, undefined, 1)
        await move(id, 'subtract', 4)
        await move(id, 'override', 100)
        assert.equal((await readUser(id)).quota, 100)
        const entries = (await entriesOf(id)).map(({ kind, amount, actor, reason, token_id }) => ({
          kind,
          amount,
          actor,
          reason,
          token_id,
        }))
        const byAdmin = { kind: 'grant', actor: `user:${admin.id}`, token_id: null }
        assert.deepEqual(entries, [
          { ...byAdmin, actor: `user:${ROOT_ID}`, amount: 10 * NANOS, reason: 'user created' },
          { ...byAdmin, amount: 5 * NANOS, reason: 'March top-up' },
          { ...byAdmin, amount: 1 * NANOS, reason: 'quota add' },
          { ...byAdmin, amount: -4 * NANOS, reason: 'quota subtract' },
          { ...byAdmin, amount: 88 * NANOS, reason: 'quota override' },
        ])
      })

      it('is in the owner’s log with the change', async () => {
        const { id } = await gateway.createUser()
        await move(id, 'add', 5, 'thanks')
        await move(id, 'subtract', 2)
        const rows = await gateway.db
          .selectFrom('logs')
          .select(['type', 'cost', 'content'])
          .where('user_id', '=', id)
          .orderBy('id')
          .execute()
        assert.deepEqual(rows.slice(-2), [
          { type: 1, cost: 5 * NANOS, content: 'thanks' },
          { type: 1, cost: -2 * NANOS, content: 'quota subtract' },
        ])
      })

      it('writes no entry if nothing changes', async () => {
        const { id } = await gateway.createUser({ quota: 10 })
        for (const reply of [
          await move(id, 'add', 0),
          await move(id, 'subtract', 0),
          await move(id, 'override', 10),
          await gateway.api('PUT', '/api/user/', { id, quota: 10 }),
        ])
          assert.equal(reply.body.data.quota, 10)
        assert.equal((await entriesOf(id)).length, 1)
      })

      it('is set by PUT as by override', async () => {
        const { id } = await gateway.createUser({ quota: 10 })
        assert.equal((await as(admin, 'PUT', '/api/user/', { id, quota: 3 })).body.data.quota, 3)
        assert.equal((await entriesOf(id)).at(-1)?.amount, -7 * NANOS)
      })

      it('can be reduced by the remainder minus holds: more is 409 and names both figures', async () => {
        const { id } = await gateway.createUser({ quota: 100 })
        await withAccount(id, { held: 40 * NANOS }, async () => {
          const { quota, held_quota } = await readUser(id)
          assert.deepEqual([quota, held_quota], [100, 40])
          for (const reply of [
            await move(id, 'subtract', 61),
            await move(id, 'override', 39),
            await gateway.api('PUT', '/api/user/', { id, quota: 39 }),
          ]) {
            assertRefused(reply, 409, 'conflict')
            assert.match(reply.body.message, /\b100\b.*\b40\b/)
          }
          assert.equal((await readUser(id)).quota, 100)
          assert.equal((await entriesOf(id)).length, 1)
          assert.equal((await move(id, 'subtract', 60)).body.data.quota, 40)
          assert.equal((await move(id, 'override', 40)).body.data.quota, 40)
        })
      })

      it('is 0 to 4,000,000,000,000 units; more is 400, also if a sum would exceed it', async () => {
        const { id } = await gateway.createUser({ quota: MAX_UNITS - 1 })
        assertFault(await move(id, 'add', 2), 'value')
        assertFault(await move(id, 'add', MAX_UNITS), 'value')
        assert.equal((await move(id, 'add', 1)).body.data.quota, MAX_UNITS)
        assertFault(await move(id, 'add', 1), 'value')
        for (const value of [MAX_UNITS + 1, -1, 1.5, '5', null, undefined])
          assertFault(await move(id, 'override', value), 'value')
        assertFault(await gateway.api('PUT', '/api/user/', { id, quota: MAX_UNITS + 1 }), 'quota')
        assert.equal((await readUser(id)).quota, MAX_UNITS)
        assert.equal((await move(id, 'override', 0)).body.data.quota, 0)
      })

      it('is rounded down and usage is rounded up, so that they add up to the granted quota', async () => {
        const { id } = await gateway.createUser({ quota: 10 })
        for (const posted of [1, NANOS - 1, NANOS, NANOS + 1, 10 * NANOS])
          await withAccount(id, { posted }, async () => {
            const { quota, used_quota } = await readUser(id)
            assert.equal(quota, Math.floor((10 * NANOS - posted) / NANOS))
            assert.equal(used_quota, Math.ceil(posted / NANOS))
          })
      })

      it('is kept while the user is unlimited and applies again afterwards', async () => {
        const { id } = await gateway.createUser({ quota: 10 })
        const put = async (unlimited_quota: boolean) =>
          (await as(admin, 'PUT', '/api/user/', { id, unlimited_quota })).body.data
        const unlimited = await put(true)
        assert.deepEqual([unlimited.unlimited_quota, unlimited.quota], [true, 10])
        const limited = await put(false)
        assert.deepEqual([limited.unlimited_quota, limited.quota], [false, 10])
        assert.equal((await entriesOf(id)).length, 1)
      })

      it('has nothing available, by an entry, when an unlimited user who spent more is limited', async () => {
        const { id } = await gateway.createUser({ quota: 10 })
        await gateway.api('PUT', '/api/user/', { id, unlimited_quota: true })
        await withAccount(id, { posted: 25 * NANOS, held: 2 * NANOS }, async () => {
          const { data } = (await as(admin, 'PUT', '/api/user/', { id, unlimited_quota: false })).body
          assert.deepEqual([data.quota, data.used_quota, data.held_quota], [2, 25, 2])
          const entry = (await entriesOf(id)).at(-1)
          assert.deepEqual([entry?.amount, entry?.actor], [17 * NANOS, `user:${admin.id}`])
          assertRefused(await move(id, 'subtract', 1), 409, 'conflict')
        })
      })

      it('gets the whole of an addition, also if requests that ran while it became limited cost more', async () => {
        const { id } = await gateway.createUser({ quota: 10 })
        await withAccount(id, { posted: 25 * NANOS }, async () => {
          assert.equal((await readUser(id)).quota, 0)
          assert.equal((await move(id, 'add', 5)).body.data.quota, 5)
          const entries = (await entriesOf(id)).slice(1)
          assert.deepEqual(
            entries.map(({ amount, reason }) => [amount, reason]),
            [
              [15 * NANOS, 'limited again'],
              [5 * NANOS, 'quota add'],
            ],
          )
        })
      })

      it('is not set below the held amount, even for an unlimited user who spent more', async () => {
        const { id } = await gateway.createUser({ quota: 10 })
        await gateway.api('PUT', '/api/user/', { id, unlimited_quota: true })
        await withAccount(id, { posted: 25 * NANOS, held: 2 * NANOS }, async () => {
          assertRefused(await move(id, 'override', 1), 409, 'conflict')
          assert.equal((await move(id, 'override', 2)).body.data.quota, 2)
        })
      })

      it('loses nothing with concurrent additions', async () => {
        const { id } = await gateway.createUser()
        await Promise.all(Array.from({ length: 20 }, () => move(id, 'add', 3)))
        assert.equal((await readUser(id)).quota, 60)
        assert.equal((await entriesOf(id)).length, 20)
      })

      it('never goes below zero with concurrent reductions', async () => {
        const { id } = await gateway.createUser({ quota: 100 })
        const replies = await Promise.all(Array.from({ length: 10 }, () => move(id, 'subtract', 20)))
        assert.equal(replies.filter(({ status }) => status === 200).length, 5)
        assert.equal(replies.filter(({ status }) => status === 409).length, 5)
        assert.equal((await readUser(id)).quota, 0)
      })

      it('is one of the requested values with concurrent overrides', async () => {
        const { id } = await gateway.createUser({ quota: 5 })
        const figures = Array.from({ length: 12 }, (_, i) => (i + 1) * 100)
        await Promise.all(figures.map(value => move(id, 'override', value)))
        const { quota } = await readUser(id)
        assert.ok(figures.includes(quota), `${quota} was asked for by nobody`)
      })

      it('is the sum of its entries for every user, which verify confirms', async () => {
        const { ok, lines } = await gateway.operations.verify({})
        assert.ok(ok, lines.join('\n'))
      })
    })

    it('keeps root’s password of the first start', async () => {
      assert.equal((await login('root', ROOT_PASSWORD)).status, 200)
    })

    const entriesOf = (userId: number) =>
      gateway.db
        .selectFrom('entries')
        .selectAll()
        .where('user_id', '=', userId)
        .where('kind', '=', 'grant')
        .orderBy('seq')
        .execute()

    /** Sets what the relay would have recorded, for as long as `work` runs. */
    async function withAccount(
      id: number,
      fields: { posted?: number; held?: number },
      work: () => Promise<void>,
    ): Promise<void> {
      const set = (values: typeof fields) =>
        gateway.db
          .updateTable('accounts')
          .set(values)
          .where('kind', '=', 'user')
          .where('owner_id', '=', id)
          .execute()
      await set(fields)
      await work()
      await set({ posted: 0, held: 0 })
    }

    const cookieOf = ({ headers }: Reply) => (headers.get('set-cookie') ?? '').split(';')[0] as string
    const bySession = (cookie: string) =>
      gateway.api('GET', '/api/user/self', undefined, { token: null, headers: { cookie } })
  })
}
