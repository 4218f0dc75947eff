import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Gateway, oneEngine, type Reply, suiteGateway } from '../../support/gateway.ts'

const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin' }

for (const engine of oneEngine('postgres'))
  describe(`an account whose credentials were stolen, on ${engine}`, () => {
    const gateway = suiteGateway({ engine })

    type User = Awaited<ReturnType<Gateway['createUser']>>
    const NEW_PASSWORD = 'a new password'

    async function signIn({ username, password }: Pick<User, 'username' | 'password'>): Promise<string> {
      const reply = await gateway.api('POST', '/api/user/login', { username, password }, { token: null })
      assert.equal(reply.status, 200, reply.text)
      return reply.headers.get('set-cookie')?.split(';')[0] as string
    }
    const bySession = (cookie: string, method: string, path: string, body?: unknown) =>
      gateway.api(method, path, body, { token: null, headers: { cookie, ...SAME_ORIGIN } })
    const byToken = (token: string, method: string, path: string, body?: unknown) =>
      gateway.api(method, path, body, { token })
    const isAlive = async (token: string) => (await byToken(token, 'GET', '/api/user/self')).status === 200

    const auditOf = (userId: number) =>
      gateway.db.selectFrom('audit').selectAll().where('target', '=', `user:${userId}`).execute()

    /** Moves the sign-in of the newest session this many seconds into the past. */
    async function age(seconds: number): Promise<void> {
      const { id } = await gateway.db
        .selectFrom('sessions')
        .select('id')
        .orderBy('id', 'desc')
        .executeTakeFirstOrThrow()
      const created_time = Math.floor(Date.now() / 1000) - seconds
      await gateway.db.updateTable('sessions').set({ created_time }).where('id', '=', id).execute()
    }

    describe('when its password is changed', () => {
      const change = (user: User, more: object): Promise<Reply> =>
        byToken(user.accessToken, 'PUT', '/api/user/self', {
          password: NEW_PASSWORD,
          original_password: user.password,
          ...more,
        })

      it('loses every access token if that is requested, and its sessions in any case', async () => {
        const user = await gateway.createUser()
        const other = await byToken(user.accessToken, 'POST', '/api/user/access_token/', { name: 'stolen' })
        const cookie = await signIn(user)
        const reply = await change(user, { revoke_access_tokens: true })
        assert.equal(reply.status, 200, reply.text)
        assert.equal(await isAlive(user.accessToken), false)
        assert.equal(await isAlive(other.body.data.token), false)
        assert.equal((await bySession(cookie, 'GET', '/api/user/self')).status, 401)
        const revoked = (await auditOf(user.id)).find(({ action }) => action === 'access_token.revoke_all')
        assert.equal(revoked?.after, JSON.stringify({ count: 2 }))
        assert.ok(await signIn({ ...user, password: NEW_PASSWORD }))
      })

      it('keeps its access tokens otherwise', async () => {
        for (const more of [{}, { revoke_access_tokens: false }, { revoke_access_tokens: null }]) {
          const user = await gateway.createUser()
          assert.equal((await change(user, more)).status, 200)
          assert.equal(await isAlive(user.accessToken), true)
        }
      })

      it('loses nothing if the old password is wrong', async () => {
        const user = await gateway.createUser()
        const reply = await change(user, { original_password: 'wrong', revoke_access_tokens: true })
        assert.equal(reply.body.code, 'wrong_password')
        assert.equal(await isAlive(user.accessToken), true)
      })

      it('by an Admin loses the same', async () => {
        const user = await gateway.createUser()
        const cookie = await signIn(user)
        const body = { id: user.id, password: NEW_PASSWORD, revoke_access_tokens: true }
        assert.equal((await gateway.api('PUT', '/api/user/', body)).status, 200)
        assert.equal(await isAlive(user.accessToken), false)
        assert.equal((await bySession(cookie, 'GET', '/api/user/self')).status, 401)
      })

      it('by the operator loses the same, or keeps its access tokens', async () => {
        const { operations } = gateway
        for (const revokeAccessTokens of [false, true]) {
          const user = await gateway.createUser()
          const cookie = await signIn(user)
          await operations.resetPassword({
            username: user.username,
            password: NEW_PASSWORD,
            revokeAccessTokens,
          })
          assert.equal(await isAlive(user.accessToken), !revokeAccessTokens)
          assert.equal((await bySession(cookie, 'GET', '/api/user/self')).status, 401)
        }
      })

      it('without a new password revokes nothing: 400 names the field', async () => {
        const user = await gateway.createUser()
        for (const reply of [
          await byToken(user.accessToken, 'PUT', '/api/user/self', { revoke_access_tokens: true }),
          await gateway.api('PUT', '/api/user/', { id: user.id, revoke_access_tokens: true }),
        ])
          assert.deepEqual([reply.status, reply.body.errors[0].path], [400, 'revoke_access_tokens'])
        assert.equal(await isAlive(user.accessToken), true)
      })

      it('has no session afterwards from a concurrent sign-in with the old one', async () => {
        for (let round = 0; round < 5; round++) {
          const user = await gateway.createUser()
          const body = { username: user.username, password: user.password }
          const [signedIn] = await Promise.all([
            gateway.api('POST', '/api/user/login', body, { token: null }),
            gateway.api('PUT', '/api/user/', { id: user.id, password: NEW_PASSWORD }),
          ])
          const cookie = signedIn.headers.get('set-cookie')?.split(';')[0]
          if (cookie !== undefined)
            assert.equal((await bySession(cookie, 'GET', '/api/user/self')).status, 401)
        }
      })
    })

    describe('when its password is guessed', () => {
      it('cannot be renamed again and again, which would allow more guesses each time', async () => {
        const user = await gateway.createUser()
        const change = (fields: object) => byToken(user.accessToken, 'PUT', '/api/user/self', fields)
        const guess = () => change({ password: NEW_PASSWORD, original_password: 'wrong' })
        const statuses: number[] = []
        let guesses = 0
        while (statuses.length < 20 && !statuses.includes(429)) {
          while ((await guess()).status === 403) guesses++
          statuses.push((await change({ username: `${user.username}-${guesses}` })).status)
        }
        assert.equal(statuses.at(-1), 429, `${guesses} guesses`)
        const { body } = await byToken(user.accessToken, 'GET', '/api/user/self')
        // A client may send the whole object back.
        assert.equal((await change({ ...body.data, display_name: 'Other' })).status, 200)
      })
    })

    describe('is not deleted by a browser that was left open', () => {
      it('without a sign-in of the last ten minutes', async () => {
        const user = await gateway.createUser()
        const cookie = await signIn(user)
        await age(601)
        const reply = await bySession(cookie, 'DELETE', '/api/user/self')
        assert.deepEqual(
          [reply.status, reply.body.success, reply.body.code],
          [403, false, 'fresh_sign_in_required'],
        )
        assert.equal((await bySession(cookie, 'GET', '/api/user/self')).status, 200)
        assert.equal(await isAlive(user.accessToken), true)
      })

      it('but can be deleted by one that has just signed in again', async () => {
        const user = await gateway.createUser()
        await signIn(user)
        await age(3_600)
        const fresh = await signIn(user)
        assert.equal((await bySession(fresh, 'DELETE', '/api/user/self')).status, 200)
        assert.equal(await isAlive(user.accessToken), false)
      })

      it('until the sign-in is ten minutes old', async () => {
        const user = await gateway.createUser()
        const cookie = await signIn(user)
        await age(570)
        assert.equal((await bySession(cookie, 'DELETE', '/api/user/self')).status, 200)
      })
    })

    it('is deleted by its access token, and the audit log names the token', async () => {
      const user = await gateway.createUser()
      const { body } = await byToken(user.accessToken, 'GET', '/api/user/access_token/')
      assert.equal((await byToken(user.accessToken, 'DELETE', '/api/user/self')).status, 200)
      const record = (await auditOf(user.id)).find(({ action }) => action === 'user.delete')
      assert.deepEqual([record?.actor_id, record?.via], [user.id, `access_token:${body.data.items[0].id}`])
    })
  })
