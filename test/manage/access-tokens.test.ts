import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { type Gateway, oneEngine, type Reply, suiteGateway } from '../support/gateway.ts'

const PATH = '/api/user/access_token/'
const seconds = () => Math.floor(Date.now() / 1000)

for (const engine of oneEngine('sqlite')) {
  describe(`system access tokens on ${engine} (docs/reference/management-api.md: System access tokens)`, () => {
    const gateway = suiteGateway({ engine })
    type User = Awaited<ReturnType<Gateway['createUser']>>
    let alice: User
    let bob: User

    before(async () => {
      alice = await gateway.createUser({ username: 'alice' })
      bob = await gateway.createUser({ username: 'bob' })
    })

    const ask = (method: string, path: string, body?: unknown, who: User = alice) =>
      gateway.api(method, path, body, { token: who.accessToken })
    const make = async (fields: object = {}) =>
      (await ask('POST', PATH, { name: 'a token', ...fields })).body.data
    const list = async (who?: User) =>
      (await ask('GET', `${PATH}?page_size=500`, undefined, who)).body.data.items
    const self = (authorization: string | undefined, headers: Record<string, string> = {}) =>
      gateway.api('GET', '/api/user/self', undefined, {
        token: null,
        headers: { ...(authorization === undefined ? {} : { authorization }), ...headers },
      })
    const edit = (id: number, fields: { expired_time?: number; last_used_time?: number }) =>
      gateway.db.updateTable('access_tokens').set(fields).where('id', '=', id).execute()

    function assertUnauthorized({ status, body }: Reply): void {
      assert.deepEqual([status, body.success, body.code], [401, false, 'unauthorized'])
      assert.match(body.message, /Authorization/)
      assert.match(body.message, /New-Api-User/)
    }

    it('are created with a name, and the response contains their value', async () => {
      const { status, body } = await ask('POST', PATH, { name: ' laptop ' })
      assert.equal(status, 200)
      const { id, token, created_time, ...rest } = body.data
      assert.ok(Number.isInteger(id))
      assert.match(token, /^sat-[A-Za-z0-9]{48}$/)
      assert.ok(Math.abs(created_time - seconds()) < 60)
      assert.deepEqual(rest, { name: 'laptop', expired_time: -1 })
      assert.equal((await self(`Bearer ${token}`)).body.data.username, 'alice')
    })

    it('are shown once: later lists contain a mask, and the store a digest', async () => {
      const { id, token } = await make()
      const listed = (await list()).find((item: { id: number }) => item.id === id)
      assert.equal(listed.token, `${token.slice(0, 7)}…${token.slice(-4)}`)
      assert.deepEqual(Object.keys(listed).sort(), [
        'created_time',
        'expired_time',
        'id',
        'last_used_time',
        'name',
        'token',
      ])
      const rows = await gateway.db.selectFrom('access_tokens').selectAll().execute()
      assert.ok(!JSON.stringify(rows).includes(token))
      const audit = await gateway.db.selectFrom('audit').selectAll().execute()
      assert.ok(!JSON.stringify(audit).includes(token))
    })

    it('can be several, even with the same name, each independent', async () => {
      const [first, second] = [await make({ name: 'twin' }), await make({ name: 'twin' })]
      assert.notEqual(first.token, second.token)
      await ask('DELETE', `${PATH}${first.id}`)
      assertUnauthorized(await self(`Bearer ${first.token}`))
      assert.equal((await self(`Bearer ${second.token}`)).status, 200)
    })

    it('are listed by page, newest first, only the caller’s own', async () => {
      const [first, second] = [await make(), await make()]
      const { data } = (await ask('GET', `${PATH}?page_size=2`)).body
      assert.deepEqual(
        data.items.map((item: { id: number }) => item.id),
        [second.id, first.id],
      )
      assert.deepEqual([data.page, data.page_size], [1, 2])
      assert.ok(data.total > 2)
      const next = (await ask('GET', `${PATH}?page_size=2&p=2`)).body.data
      assert.ok(next.items[0].id < first.id)
      assert.ok((await list(bob)).every((item: { id: number }) => item.id !== first.id))
    })

    it('expire at their expiry time to the second, and never without one', async () => {
      const expired_time = seconds() + 3_600
      const { id, token, ...rest } = await make({ expired_time })
      assert.equal(rest.expired_time, expired_time)
      assert.equal((await self(`Bearer ${token}`)).status, 200)
      await edit(id, { expired_time: seconds() - 1 })
      const reply = await self(`Bearer ${token}`)
      assertUnauthorized(reply)
      assert.match(reply.body.message, /expired/)
      for (const fields of [{}, { expired_time: 0 }, { expired_time: -1 }, { expired_time: null }])
        assert.equal((await make(fields)).expired_time, -1)
    })

    it('are refused without a name of 1 to 50 characters, or with an expiry that has passed', async () => {
      const count = (await list()).length
      for (const [field, body] of [
        ['name', {}],
        ['name', { name: '  ' }],
        ['name', { name: 'x'.repeat(51) }],
        ['name', { name: 'a\nb' }],
        ['expired_time', { name: 'x', expired_time: seconds() - 1 }],
        ['expired_time', { name: 'x', expired_time: -2 }],
        ['expired_time', { name: 'x', expired_time: '2030' }],
      ] as const) {
        const reply = await ask('POST', PATH, body)
        assert.deepEqual([reply.status, reply.body.code], [400, 'invalid_request'])
        assert.equal(reply.body.errors[0].path, field)
      }
      assert.equal((await list()).length, count)
      assert.equal((await make({ name: '🔑'.repeat(50) })).name, '🔑'.repeat(50))
    })

    it('show when they were last used', async () => {
      const { id, token } = await make()
      const lastUsed = async () =>
        (await list()).find((item: { id: number }) => item.id === id).last_used_time as number
      assert.equal(await lastUsed(), 0)
      await self(`Bearer ${token}`)
      assert.ok(Math.abs((await lastUsed()) - seconds()) < 60)
      await edit(id, { last_used_time: seconds() - 3_600 })
      await self(`Bearer ${token}`)
      assert.ok(Math.abs((await lastUsed()) - seconds()) < 60)
    })

    it('are revoked immediately, by their owner only', async () => {
      const { id, token } = await make()
      for (const wrong of [
        await ask('DELETE', `${PATH}${id}`, undefined, bob),
        await ask('DELETE', `${PATH}123456789`),
      ])
        assert.deepEqual([wrong.status, wrong.body.code], [404, 'not_found'])
      assert.equal((await self(`Bearer ${token}`)).status, 200)
      assert.equal((await ask('DELETE', `${PATH}${id}`)).status, 200)
      assertUnauthorized(await self(`Bearer ${token}`))
      assert.equal((await ask('DELETE', `${PATH}${id}`)).status, 404)
    })

    it('are accepted in three forms: Bearer, bare, and Bearer with New-Api-User', async () => {
      const { token } = await make()
      const forms: [string, Record<string, string>][] = [
        [`Bearer ${token}`, {}],
        [token, {}],
        [`Bearer ${token}`, { 'new-api-user': String(alice.id) }],
        [`bearer  ${token}`, {}],
        [`Bearer ${token}`, { 'new-api-user': '999', 'veloera-user': 'x', 'user-id': '' }],
      ]
      for (const [authorization, headers] of forms) {
        const { status, body } = await self(authorization, headers)
        assert.equal(status, 200, authorization)
        assert.equal(typeof body.data.quota, 'number')
        assert.equal(typeof body.data.used_quota, 'number')
      }
    })

    it('have the full current role of their user', async () => {
      const user = await gateway.createUser()
      const users = () => ask('GET', '/api/user/', undefined, user)
      assert.equal((await users()).status, 403)
      await gateway.api('POST', '/api/user/manage', { id: user.id, action: 'promote' })
      assert.equal((await users()).status, 200)
    })

    describe('GET /api/user/token', () => {
      it('returns the bare value of the token named `default`, and rotates it the next time', async () => {
        const user = await gateway.createUser()
        const rotate = () => ask('GET', '/api/user/token', undefined, user)
        const { body } = await rotate()
        assert.equal(typeof body.data, 'string')
        assert.equal((await self(`Bearer ${body.data}`)).body.data.id, user.id)
        const again = (await rotate()).body.data
        assert.notEqual(again, body.data)
        assertUnauthorized(await self(`Bearer ${body.data}`))
        assert.equal((await self(`Bearer ${again}`)).status, 200)
        const defaultTokens = (await list(user)).filter((item: { name: string }) => item.name === 'default')
        assert.equal(defaultTokens.length, 1)
        assert.equal(defaultTokens[0].expired_time, -1)
      })

      it('does not change the others, including the one that authenticates the call', async () => {
        const { token } = await make({ name: 'other' })
        await ask('GET', '/api/user/token')
        assert.equal((await self(`Bearer ${token}`)).status, 200)
        assert.equal((await ask('GET', '/api/user/self')).status, 200)
      })
    })

    describe('401', () => {
      it('is the response to a missing, unknown or malformed credential, and names the header to send', async () => {
        for (const authorization of [
          undefined,
          '',
          'Bearer',
          'Bearer ',
          'Bearer sat-unknown',
          'sat-unknown',
          'Basic cm9vdDpyb290',
          `Bearer ${"' OR '1'='1".repeat(3)}`,
          `Bearer ${'x'.repeat(10_000)}`,
          `Bearer sat-${'A'.repeat(48)}`,
        ])
          assertUnauthorized(await self(authorization))
      })

      it('is the response to every sk- token, by its shape alone', async () => {
        const { key } = (await ask('POST', '/api/token/', { name: 'x', unlimited_quota: true })).body.data
        for (const authorization of [`Bearer ${key}`, key, 'Bearer sk-', `Bearer sk-${'A'.repeat(48)}`]) {
          const reply = await self(authorization)
          assertUnauthorized(reply)
          assert.match(reply.body.message, /sk-/)
        }
      })

      it('is the response to a token that differs in its last character', async () => {
        const { token } = await make()
        const last = token.endsWith('A') ? 'B' : 'A'
        assertUnauthorized(await self(`Bearer ${token.slice(0, -1)}${last}`))
        assertUnauthorized(await self(`Bearer ${token.slice(0, -1)}`))
        assertUnauthorized(await self(`Bearer ${token}A`))
      })

      it('is sent before the body is validated, and before the id is looked up', async () => {
        assertUnauthorized(await gateway.api('POST', '/api/token/', undefined, { token: null, raw: '{' }))
        assertUnauthorized(await gateway.api('GET', '/api/token/not-a-number', undefined, { token: null }))
      })
    })
  })
}
