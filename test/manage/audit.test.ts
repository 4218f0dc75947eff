import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { ENGINES, type Gateway, ROOT_PASSWORD, suiteGateway } from '../support/gateway.ts'

type AuditEntry = {
  seq: number
  time: number
  actor_id: number
  actor_name: string
  via: string
  address: string
  request_id: string
  action: string
  target: string
  before: Record<string, unknown> | null
  after: Record<string, unknown> | null
  hash: string
}

for (const engine of ENGINES) {
  describe(`the audit log on ${engine}`, () => {
    const gateway = suiteGateway({ engine, env: { SLUICE_TRUSTED_PROXIES: '127.0.0.1' } })
    type User = Awaited<ReturnType<Gateway['createUser']>>
    let admin: User
    let alice: User

    before(async () => {
      admin = await gateway.createUser({ username: 'admin', role: 10 })
      alice = await gateway.createUser({ username: 'alice' })
    })

    const as = (who: User, method: string, path: string, body?: unknown) =>
      gateway.api(method, path, body, {
        token: who.accessToken,
        headers: { 'x-forwarded-for': '203.0.113.7' },
      })
    const audit = async (query = ''): Promise<AuditEntry[]> =>
      (await gateway.api('GET', `/api/audit/?page_size=500&${query}`)).body.data.items
    const latest = async () => (await audit())[0] as AuditEntry

    describe('a record', () => {
      it('contains the actor, time, credential, address, request and change', async () => {
        const reply = await as(alice, 'POST', '/api/token/', { name: 'audited' })
        const { seq, hash, before, after, time, via, ...rest } = await latest()
        assert.ok(seq > 1)
        assert.match(hash, /^[0-9a-f]{64}$/)
        assert.ok(Math.abs(time - Date.now() / 1000) < 60)
        assert.match(via, /^access_token:\d+$/)
        assert.deepEqual(rest, {
          actor_id: alice.id,
          actor_name: 'alice',
          address: '203.0.113.7',
          request_id: reply.headers.get('x-request-id'),
          action: 'token.create',
          target: `token:${reply.body.data.id}`,
        })
        assert.equal(before, null)
        assert.equal(after?.name, 'audited')
      })

      it('contains a change before and after', async () => {
        const { id } = (await as(alice, 'POST', '/api/token/', { name: 'old', remain_quota: 5 })).body.data
        await as(alice, 'PUT', '/api/token/', { id, name: 'new', remain_quota: 9 })
        const changed = await latest()
        assert.deepEqual([changed.before?.name, changed.before?.remain_quota], ['old', 5])
        assert.deepEqual([changed.after?.name, changed.after?.remain_quota], ['new', 9])
        await as(alice, 'DELETE', `/api/token/${id}`)
        const deleted = await latest()
        assert.deepEqual([deleted.action, deleted.before?.name, deleted.after], ['token.delete', 'new', null])
      })

      it('is written for every kind of change, with its own action name', async () => {
        const from = (await latest()).seq
        const user = await gateway.createUser()
        const { id } = user
        const login = await gateway.api(
          'POST',
          '/api/user/login',
          { username: user.username, password: user.password },
          { token: null },
        )
        const cookie = (login.headers.get('set-cookie') ?? '').split(';')[0] as string
        await gateway.api('POST', '/api/user/logout', undefined, { token: null, headers: { cookie } })
        await as(user, 'PUT', '/api/user/self', { display_name: 'new' })
        await as(user, 'PUT', '/api/user/self', {
          password: 'new password',
          original_password: user.password,
        })
        await gateway.api('PUT', '/api/user/', { id, email: 'a@example.com' })
        await gateway.api('PUT', '/api/user/', { id, password: 'newer password' })
        for (const action of ['disable', 'enable', 'promote', 'demote'])
          await gateway.api('POST', '/api/user/manage', { id, action })
        await gateway.api('POST', '/api/user/manage', { id, action: 'add_quota', value: 5 })
        const accessToken = (await as(user, 'POST', '/api/user/access_token/', { name: 'x' })).body.data
        await as(user, 'DELETE', `/api/user/access_token/${accessToken.id}`)
        await as(user, 'GET', '/api/user/token')
        const token = (await as(user, 'POST', '/api/token/', { name: 'x' })).body.data
        await as(user, 'POST', `/api/token/${token.id}/key`)
        await as(user, 'POST', '/api/token/batch', { ids: [token.id] })
        await as(user, 'POST', '/api/user/sessions/revoke-others')
        await gateway.api('PUT', '/api/setting/', { attempts: 4 })
        await as(user, 'DELETE', '/api/user/self')
        const actions = (await audit()).filter(({ seq }) => seq > from).map(({ action }) => action)
        assert.deepEqual(actions.reverse(), [
          'user.create',
          'access_token.create',
          'user.login',
          'user.logout',
          'user.update',
          'user.password',
          'user.update',
          'user.password',
          'user.disable',
          'user.enable',
          'user.promote',
          'user.demote',
          'user.add_quota',
          'access_token.create',
          'access_token.delete',
          'access_token.rotate',
          'token.create',
          'token.reveal',
          'token.delete',
          'session.end_others',
          'setting.update',
          'user.delete',
        ])
      })

      it('names the user who signs in or out, without a credential', async () => {
        await gateway.api(
          'POST',
          '/api/user/login',
          { username: 'alice', password: alice.password },
          { token: null },
        )
        const { action, actor_id, actor_name, via } = await latest()
        assert.deepEqual([action, actor_id, actor_name, via], ['user.login', alice.id, 'alice', 'password'])
      })

      it('is not written for reads, nor for refused calls', async () => {
        const { seq } = await latest()
        await as(alice, 'GET', '/api/token/')
        await as(alice, 'GET', '/api/user/')
        await as(alice, 'POST', '/api/token/', { name: '' })
        await as(alice, 'PUT', '/api/token/', { id: 123_456_789, name: 'x' })
        await as(admin, 'POST', '/api/user/manage', { id: 1, action: 'disable' })
        assert.equal((await latest()).seq, seq)
      })

      it('contains no password, key, token or digest of one', async () => {
        const secrets: string[] = [ROOT_PASSWORD, admin.accessToken, alice.accessToken]
        const token = (await as(alice, 'POST', '/api/token/', { name: 'secret' })).body.data
        secrets.push(token.key)
        await as(alice, 'POST', `/api/token/${token.id}/key`)
        secrets.push((await as(alice, 'GET', '/api/user/token')).body.data)
        secrets.push((await as(alice, 'POST', '/api/user/access_token/', { name: 'x' })).body.data.token)
        await as(alice, 'PUT', '/api/user/self', {
          password: 'brand new secret',
          original_password: alice.password,
        })
        secrets.push('brand new secret', alice.password)
        const rows = JSON.stringify(await gateway.db.selectFrom('audit').selectAll().execute())
        for (const secret of secrets) assert.ok(!rows.includes(secret), 'a secret is in the audit log')
        const digests = await gateway.db.selectFrom('tokens').select(['key_digest', 'key_sealed']).execute()
        for (const { key_digest, key_sealed } of digests)
          assert.ok(!rows.includes(key_digest) && !rows.includes(key_sealed))
        assert.ok(!rows.includes('$argon2'))
      })

      it('is written in the same transaction as its change', async () => {
        const { id } = (await as(alice, 'POST', '/api/token/', { name: 'kept' })).body.data
        // If the record cannot be written, the change is rolled back as well.
        await gateway.db.updateTable('chains').set({ seq: 0 }).where('name', '=', 'audit').execute()
        const { seq } = await latest()
        assert.equal((await as(alice, 'PUT', '/api/token/', { id, name: 'lost' })).status, 500)
        await gateway.db.updateTable('chains').set({ seq }).where('name', '=', 'audit').execute()
        assert.equal((await as(alice, 'GET', `/api/token/${id}`)).body.data.name, 'kept')
        assert.equal((await as(alice, 'PUT', '/api/token/', { id, name: 'found' })).status, 200)
      })
    })

    describe('reading it', () => {
      it('is for administrators', async () => {
        assert.equal((await as(admin, 'GET', '/api/audit/')).status, 200)
        assert.equal((await as(alice, 'GET', '/api/audit/')).status, 403)
        assert.equal((await gateway.api('GET', '/api/audit/', undefined, { token: null })).status, 401)
      })

      it('is by page, newest first, with filters for actor, action and target', async () => {
        const { id } = (await as(alice, 'POST', '/api/token/', { name: 'x' })).body.data
        const all = await audit()
        assert.deepEqual(
          all.map(({ seq }) => seq),
          all.map(({ seq }) => seq).sort((a, b) => b - a),
        )
        const { data } = (await gateway.api('GET', '/api/audit/?p=2&page_size=3')).body
        assert.deepEqual(
          data.items.map(({ seq }: AuditEntry) => seq),
          all.slice(3, 6).map(({ seq }) => seq),
        )
        assert.equal(data.total, all.length)
        assert.ok((await audit(`actor_id=${alice.id}`)).every(({ actor_id }) => actor_id === alice.id))
        assert.ok((await audit('action=token.create')).every(({ action }) => action === 'token.create'))
        const [only, ...others] = await audit(`target=token:${id}&action=token.create&actor_id=${alice.id}`)
        assert.equal(only?.target, `token:${id}`)
        assert.deepEqual(others, [])
        assert.deepEqual(await audit('action=never.done'), [])
        const newest = all[0]?.time ?? 0
        assert.equal((await audit(`start_timestamp=1&end_timestamp=${newest}`)).length, all.length)
        assert.deepEqual(await audit(`start_timestamp=${newest + 1}`), [])
        assert.deepEqual(await audit('end_timestamp=1'), [])
        assert.equal((await audit('action=&actor_id=')).length, all.length)
      })

      it('is the only operation on it', async () => {
        for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
          assert.equal((await gateway.api(method, '/api/audit/')).status, 405)
      })
    })

    describe('its chain', () => {
      const verify = async () => {
        const { ok, lines } = await gateway.operations.verify({ auditOnly: true })
        return { ok, line: lines.find(line => line.startsWith('audit:')) ?? '' }
      }
      const row = (seq: number) =>
        gateway.db.selectFrom('audit').selectAll().where('seq', '=', seq).executeTakeFirstOrThrow()
      const head = () =>
        gateway.db.selectFrom('chains').selectAll().where('name', '=', 'audit').executeTakeFirstOrThrow()

      it('is unbroken after everything above', async () => {
        const { ok, line } = await verify()
        assert.ok(ok, line)
        assert.equal(line, `audit: ${(await head()).seq} records, unbroken`)
      })

      it('reveals a change of any field of a record', async () => {
        const original = await row(5)
        for (const change of [
          { actor_name: 'somebody else' },
          { actor_id: 99 },
          { time: original.time + 1 },
          { address: '198.51.100.1' },
          { action: 'user.enable' },
          { target: 'user:99' },
          { via: 'command:x' },
          { request_id: 'req_x' },
          { before: '{}' },
          { after: '{"quota":5}' },
          { hash: '0'.repeat(64) },
        ]) {
          await gateway.db.updateTable('audit').set(change).where('seq', '=', 5).execute()
          const { ok, line } = await verify()
          assert.deepEqual([ok, line], [false, 'audit: BROKEN after 4 records: record 5 was changed'])
          await gateway.db.updateTable('audit').set(original).where('seq', '=', 5).execute()
        }
        assert.ok((await verify()).ok)
      })

      it('reveals a record that was removed', async () => {
        const original = await row(6)
        await gateway.db.deleteFrom('audit').where('seq', '=', 6).execute()
        assert.match((await verify()).line, /BROKEN after 5 records: record 6 is missing/)
        await gateway.db.insertInto('audit').values(original).execute()
        assert.ok((await verify()).ok)
      })

      it('reveals a removed record even if the later ones were renumbered to close the gap', async () => {
        const last = (await head()).seq
        const removed = await row(last - 1)
        const moved = await row(last)
        await gateway.db
          .deleteFrom('audit')
          .where('seq', '>=', last - 1)
          .execute()
        await gateway.db
          .insertInto('audit')
          .values({ ...moved, seq: last - 1 })
          .execute()
        assert.match((await verify()).line, new RegExp(`record ${last - 1} was changed`))
        await gateway.db
          .deleteFrom('audit')
          .where('seq', '=', last - 1)
          .execute()
        await gateway.db.insertInto('audit').values([removed, moved]).execute()
        assert.ok((await verify()).ok)
      })

      it('reveals two records that were swapped', async () => {
        const [third, fourth] = [await row(3), await row(4)]
        const put = async (first: typeof third, second: typeof third) => {
          await gateway.db.deleteFrom('audit').where('seq', 'in', [3, 4]).execute()
          await gateway.db
            .insertInto('audit')
            .values([
              { ...first, seq: 3 },
              { ...second, seq: 4 },
            ])
            .execute()
        }
        await put(fourth, third)
        assert.match((await verify()).line, /BROKEN after 2 records: record 3 was changed/)
        await put(third, fourth)
        assert.ok((await verify()).ok)
      })

      it('reveals that its end was cut off', async () => {
        const { seq } = await head()
        const originals = [await row(seq - 1), await row(seq)]
        await gateway.db
          .deleteFrom('audit')
          .where('seq', '>', seq - 2)
          .execute()
        assert.match((await verify()).line, new RegExp(`records after ${seq - 2} are missing`))
        await gateway.db.insertInto('audit').values(originals).execute()
        assert.ok((await verify()).ok)
      })

      it('reveals a record that was added after its end', async () => {
        const last = await row((await head()).seq)
        await gateway.db
          .insertInto('audit')
          .values({ ...last, seq: last.seq + 1 })
          .execute()
        assert.equal((await verify()).ok, false)
        await gateway.db
          .deleteFrom('audit')
          .where('seq', '=', last.seq + 1)
          .execute()
        assert.ok((await verify()).ok)
      })

      it('stays one chain with many concurrent writes', async () => {
        const { seq } = await head()
        await Promise.all(
          Array.from({ length: 20 }, (_, i) => as(alice, 'POST', '/api/token/', { name: `at once ${i}` })),
        )
        assert.equal((await head()).seq, seq + 20)
        assert.ok((await verify()).ok)
      })
    })

    describe('the ledger’s chain', () => {
      const verify = () => gateway.operations.verify({})

      before(async () => {
        await gateway.api('POST', '/api/user/manage', { id: alice.id, action: 'add_quota', value: 100 })
        await gateway.api('POST', '/api/user/manage', {
          id: alice.id,
          action: 'add_quota',
          value: 30,
          mode: 'subtract',
        })
        await as(alice, 'POST', '/api/token/', { name: 'x', remain_quota: 50 })
      })

      it('is unbroken, and every balance is the sum of its entries', async () => {
        const { ok, lines } = await verify()
        assert.ok(ok, lines.join('\n'))
        assert.ok(lines.some(line => /^store: \d+ records, unbroken$/.test(line)))
        assert.ok(lines.some(line => /^balances: \d+ accounts match their entries$/.test(line)))
      })

      it('reveals a balance that was changed without an entry', async () => {
        for (const change of [{ credited: 999_999_999 }, { posted: 1 }]) {
          const account = () =>
            gateway.db
              .selectFrom('accounts')
              .selectAll()
              .where('kind', '=', 'user')
              .where('owner_id', '=', alice.id)
          const { credited, posted } = await account().executeTakeFirstOrThrow()
          const set = (fields: { credited?: number; posted?: number }) =>
            gateway.db
              .updateTable('accounts')
              .set(fields)
              .where('kind', '=', 'user')
              .where('owner_id', '=', alice.id)
              .execute()
          await set(change)
          const { ok, lines } = await verify()
          assert.equal(ok, false)
          assert.ok(lines.some(line => /^balances: 1 of \d+ accounts do not match their entries$/.test(line)))
          assert.ok(
            lines.some(line => line.startsWith(`user:${alice.id}:`)),
            lines.join('\n'),
          )
          await set({ credited, posted })
        }
        assert.ok((await verify()).ok)
      })

      it('reveals an entry that was changed, even if the balance was changed with it', async () => {
        const entry = await gateway.db
          .selectFrom('entries')
          .selectAll()
          .where('user_id', '=', alice.id)
          .where('kind', '=', 'grant')
          .orderBy('seq')
          .limit(1)
          .executeTakeFirstOrThrow()
        const setEntry = (fields: { amount?: number; actor?: string; reason?: string }) =>
          gateway.db
            .updateTable('entries')
            .set(fields)
            .where('chain', '=', entry.chain)
            .where('seq', '=', entry.seq)
            .execute()
        const moveBalance = (by: number) =>
          gateway.db
            .updateTable('accounts')
            .set(account => ({ credited: account('credited', '+', by) }))
            .where('kind', '=', 'user')
            .where('owner_id', '=', alice.id)
            .execute()
        await setEntry({ amount: entry.amount + 2_000 })
        await moveBalance(2_000)
        const { ok, lines } = await verify()
        assert.equal(ok, false)
        assert.ok(lines.some(line => line.includes(`record ${entry.seq} was changed`)))
        await setEntry({ amount: entry.amount })
        await moveBalance(-2_000)
        for (const field of ['actor', 'reason'] as const) {
          await setEntry({ [field]: 'somebody else' })
          assert.equal((await verify()).ok, false)
          await setEntry({ [field]: entry[field] })
        }
        assert.ok((await verify()).ok)
      })

      it('reveals an entry that was removed', async () => {
        const last = await gateway.db
          .selectFrom('entries')
          .selectAll()
          .where('chain', '=', 'store')
          .orderBy('seq', 'desc')
          .limit(1)
          .executeTakeFirstOrThrow()
        await gateway.db
          .deleteFrom('entries')
          .where('chain', '=', 'store')
          .where('seq', '=', last.seq)
          .execute()
        const { ok, lines } = await verify()
        assert.equal(ok, false)
        assert.ok(lines.some(line => line.includes(`records after ${last.seq - 1} are missing`)))
        await gateway.db.insertInto('entries').values(last).execute()
        assert.ok((await verify()).ok)
      })
    })
  })
}
