import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import { Refusal } from '../../src/domain/errors.ts'
import { ALL_CONFIRMED } from '../../src/domain/node.ts'
import { createKeyring } from '../../src/identity/keyring.ts'
import type { Route } from '../../src/manage/contract/route.ts'
import type { Changing } from '../../src/manage/server/call.ts'
import { createChange } from '../../src/manage/server/change.ts'
import { insertLog } from '../../src/store/usage/logs.ts'
import { ENGINES, type Gateway, type Reply, suiteGateway } from '../support/gateway.ts'

type Work = (changing: Changing) => Promise<unknown>

const DAY_S = 24 * 3_600
const seconds = () => Math.floor(Date.now() / 1000)

for (const engine of ENGINES) {
  describe(`repeating a write with an Idempotency-Key on ${engine} (docs/reference/management-api.md: Idempotency on writes)`, () => {
    const gateway = suiteGateway({ engine })
    type User = Awaited<ReturnType<Gateway['createUser']>>
    let alice: User
    let keys = 0

    before(async () => {
      alice = await gateway.createUser({ username: 'alice' })
    })

    const newKey = () => `key-${++keys}`
    const ask = (key: string, method: string, path: string, body?: unknown, token?: string) =>
      gateway.api(method, path, body, {
        headers: { 'idempotency-key': key },
        ...(token === undefined ? {} : { token }),
      })
    const make = (key: string, body: object = { name: 'x' }, token?: string) =>
      ask(key, 'POST', '/api/token/', body, token)
    const tokens = async () => (await gateway.api('GET', '/api/token/?page_size=1')).body.data.total as number
    const saved = (key: string) =>
      gateway.db.selectFrom('idempotency').selectAll().where('key', '=', key).execute()

    function assertConflict(reply: Reply | undefined): void {
      assert.ok(reply, 'nothing was answered')
      const { status, body } = reply
      assert.deepEqual([status, body.success, body.code], [409, false, 'idempotency_conflict'])
    }

    describe('the same body', () => {
      it('gets the saved response, with the key that is shown once, and is executed once', async () => {
        const key = newKey()
        const count = await tokens()
        const first = await make(key)
        const second = await make(key)
        assert.equal(first.status, 200)
        assert.match(first.body.data.key, /^sk-/)
        assert.deepEqual([second.status, second.body], [200, first.body])
        assert.equal(await tokens(), count + 1)
      })

      it('gets the saved response of every shape: an object, a number, null, nothing', async () => {
        const user = await gateway.createUser()
        const victim = await gateway.createUser()
        const token = (await gateway.api('POST', '/api/token/', { name: 'x' })).body.data
        const calls: [string, string, unknown][] = [
          ['POST', '/api/user/access_token/', { name: 'once' }],
          ['POST', '/api/token/batch', { ids: [token.id] }],
          ['POST', '/api/user/manage', { id: victim.id, action: 'delete' }],
          ['DELETE', `/api/user/${user.id}`, undefined],
        ]
        for (const [method, path, body] of calls) {
          const key = newKey()
          const first = await ask(key, method, path, body)
          const second = await ask(key, method, path, body)
          assert.equal(first.status, 200, `${path} ${first.text}`)
          assert.deepEqual([second.status, second.body], [200, first.body], path)
        }
      })

      it('moves money once and writes one audit record', async () => {
        const key = newKey()
        const body = { id: alice.id, action: 'add_quota', value: 5 }
        const { quota } = (await gateway.api('GET', `/api/user/${alice.id}`)).body.data
        const records = async () =>
          (await gateway.api('GET', '/api/audit/?action=user.add_quota')).body.data.total
        const before = await records()
        for (let i = 0; i < 3; i++)
          assert.equal((await ask(key, 'POST', '/api/user/manage', body)).body.data.quota, quota + 5)
        assert.equal(await records(), before + 1)
        assert.equal((await gateway.api('GET', `/api/user/${alice.id}`)).body.data.quota, quota + 5)
      })

      it('gets the original response, even if the object has changed since', async () => {
        const key = newKey()
        const { id } = (await make(key, { name: 'short-lived' })).body.data
        await gateway.api('DELETE', `/api/token/${id}`)
        assert.equal((await make(key, { name: 'short-lived' })).body.data.id, id)
      })

      it('is saved for 24 hours and then executed again', async () => {
        const key = newKey()
        const { id } = (await make(key)).body.data
        const savedAgo = (ago: number) =>
          gateway.db
            .updateTable('idempotency')
            .set({ created_time: seconds() - ago })
            .where('key', '=', key)
            .execute()
        await savedAgo(DAY_S - 60)
        assert.equal((await make(key)).body.data.id, id)
        await savedAgo(DAY_S + 60)
        const anew = (await make(key)).body.data
        assert.notEqual(anew.id, id)
        assert.equal((await make(key)).body.data.id, anew.id)
      })

      it('is saved encrypted: a secret in it cannot be read from the store', async () => {
        const key = newKey()
        const secret = (await make(key)).body.data.key as string
        const rows = JSON.stringify(await saved(key))
        assert.ok(!rows.includes(secret) && !rows.includes(secret.slice(3)))
        assert.match(rows, /"v1\./)
      })
    })

    it('with another body is 409 idempotency_conflict, and nothing is executed', async () => {
      const key = newKey()
      await make(key, { name: 'one' })
      const count = await tokens()
      assertConflict(await make(key, { name: 'two' }))
      assertConflict(await make(key, { name: 'one', remain_quota: 1 }))
      assert.equal(await tokens(), count)
      assert.equal((await make(key, { name: 'one' })).status, 200)
    })

    it('is 409 while the first is in progress, and gets its response once it has ended', async () => {
      const key = newKey()
      const count = await tokens()
      const { release, blocked } = blockWrites()
      await blocked.started
      const both = [make(key), make(key)]
      const first = await Promise.race([...both, setTimeout(20_000, undefined, { ref: false })])
      release()
      assertConflict(first)
      await blocked.ended
      assert.deepEqual((await Promise.all(both)).map(({ status }) => status).sort(), [200, 409])
      assert.equal(await tokens(), count + 1)
      assert.equal((await make(key)).status, 200)
    })

    it('belongs to its user', async () => {
      const key = newKey()
      const mine = (await make(key)).body.data
      const theirs = await make(key, { name: 'x' }, alice.accessToken)
      assert.equal(theirs.status, 200)
      assert.deepEqual([mine.user_id, theirs.body.data.user_id], [1, alice.id])
      assert.notEqual(mine.key, theirs.body.data.key)
    })

    it('belongs to its path, with or without a trailing slash', async () => {
      const key = newKey()
      const { id } = (await make(key)).body.data
      const other = await ask(key, 'POST', '/api/user/access_token/', { name: 'x' })
      assert.match(other.body.data.token, /^sat-/)
      assert.equal((await ask(key, 'POST', '/api/token', { name: 'x' })).body.data.id, id)
      const [first, second] = [(await make(newKey())).body.data, (await make(newKey())).body.data]
      for (const { id, key: value } of [first, second])
        assert.equal((await ask(key, 'POST', `/api/token/${id}/key`)).body.data.key, value)
    })

    it('saves no refusal: after a 4xx the same key may be used for the corrected request', async () => {
      const key = newKey()
      assert.equal((await make(key, { name: '' })).status, 400)
      assert.equal((await make(key, { name: 'x', allow_ips: 'nowhere' })).status, 400)
      assert.equal((await ask(key, 'POST', '/api/token/123456789/key')).status, 404)
      assert.deepEqual(await saved(key), [])
      assert.equal((await make(key, { name: 'x' })).status, 200)

      const other = newKey()
      const user = { username: 'contested', password: 'long enough' }
      const { id } = (await gateway.api('POST', '/api/user/', user)).body.data
      assert.equal((await ask(other, 'POST', '/api/user/', user)).status, 409)
      await gateway.api('DELETE', `/api/user/${id}`)
      assert.equal((await ask(other, 'POST', '/api/user/', user)).status, 200)
    })

    it('is not a credential: a caller without permission gets no stored response', async () => {
      const user = await gateway.createUser()
      const key = newKey()
      assert.equal((await make(key, { name: 'x' }, user.accessToken)).status, 200)
      await gateway.api('POST', '/api/user/manage', { id: user.id, action: 'disable' })
      assert.equal((await make(key, { name: 'x' }, user.accessToken)).status, 401)
    })

    it('is 1 to 255 printable characters without spaces, else 400', async () => {
      for (const key of ['', 'two words', 'ü', 'x'.repeat(256)]) {
        const { status, body } = await make(key)
        assert.deepEqual([status, body.errors?.[0]?.path], [400, 'Idempotency-Key'], key)
      }
      assert.equal((await make('x'.repeat(255))).status, 200)
    })

    it('is ignored on a read', async () => {
      const key = newKey()
      const first = (await ask(key, 'GET', '/api/token/')).body.data.total
      await gateway.api('POST', '/api/token/', { name: 'x' })
      assert.equal((await ask(key, 'GET', '/api/token/')).body.data.total, first + 1)
    })

    it('without it, every request is executed', async () => {
      const [first, second] = await Promise.all(
        [1, 2].map(() => gateway.api('POST', '/api/token/', { name: 'x' })),
      )
      assert.notEqual(first?.body.data.id, second?.body.data.id)
    })

    it('saves its response in the transaction of the change: both are stored, or neither', async () => {
      const key = newKey()
      const count = await tokens()
      const { seq } = await auditHead()
      // The audit record, written last, fails: the change and the saved response must be rolled back too.
      await setAuditHead(0)
      assert.equal((await make(key)).status, 500)
      await setAuditHead(seq)
      assert.deepEqual(await saved(key), [])
      assert.equal(await tokens(), count)
      assert.equal((await make(key)).status, 200)
      assert.equal((await saved(key)).length, 1)
    })

    it('is stored in the database, so that only one of two processes executes the request', async () => {
      const node = () =>
        createChange({
          db: gateway.db,
          now: seconds,
          keyring: createKeyring(['a secret that only this test knows of']),
          announce: async () => ALL_CONFIRMED,
        })
      const request = {
        id: 'req_test',
        url: '/api/test',
        headers: { 'idempotency-key': newKey() },
        bodyDigest: 'digest',
        caller: { address: '', isTls: false, actor: { id: 1, username: 'root', via: 'access_token' } },
      } as unknown as FastifyRequest
      const route: Route = { method: 'POST', path: '/api/test', access: 'user', summary: '' }
      const rows = () =>
        gateway.db.selectFrom('logs').select('content').where('content', 'like', 'by the %').execute()
      const work = (who: string) => (change: (work: Work) => Promise<unknown>) =>
        change(async ({ trx }) => {
          await insertLog(trx, { created_time: 0, type: 4, user_id: 1, content: `by the ${who}` })
          return who
        })

      const slower = node().runOncePerKey(request, route, async change => {
        assert.equal(await node().runOncePerKey(request, route, work('faster')), 'faster')
        return work('slower')(change)
      })
      await assert.rejects(slower, error => error instanceof Refusal && error.code === 'idempotency_conflict')
      assert.deepEqual(await rows(), [{ content: 'by the faster' }])
      assert.equal(await node().runOncePerKey(request, route, work('late')), 'faster')
    })

    const auditHead = () =>
      gateway.db.selectFrom('chains').selectAll().where('name', '=', 'audit').executeTakeFirstOrThrow()
    const setAuditHead = (seq: number) =>
      gateway.db.updateTable('chains').set({ seq }).where('name', '=', 'audit').execute()

    /** Locks what every write needs, so that a write stays in progress for as long as the test needs. */
    function blockWrites() {
      const started = Promise.withResolvers<void>()
      const released = Promise.withResolvers<void>()
      const ended = gateway.db.transaction().execute(async trx => {
        const { seq } = await trx
          .selectFrom('chains')
          .selectAll()
          .where('name', '=', 'audit')
          .executeTakeFirstOrThrow()
        await trx.updateTable('chains').set({ seq }).where('name', '=', 'audit').execute()
        started.resolve()
        await released.promise
      })
      return { release: released.resolve, blocked: { started: started.promise, ended } }
    }
  })
}
