import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { createConfigHistory } from '../../src/manage/config/history.ts'
import { oneEngine } from '../support/engines.ts'
import { type Reply, suiteGateway } from '../support/gateway.ts'

const KEY = 'sk-provider-canary-4711'

for (const engine of oneEngine('postgres')) {
  describe(`revisions of the configuration on ${engine} (docs/reference/configuration-file.md: Revisions)`, () => {
    const gateway = suiteGateway({ engine })
    const must = async (reply: Promise<Reply>) => {
      const { status, body, text } = await reply
      assert.equal(status, 200, text)
      return body.data
    }
    const api = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
      must(gateway.api(method, path, body, { headers }))
    const revisions = async () => (await api('GET', '/api/config/revision/')).items
    const last = async () => (await revisions())[0]
    const now = async (): Promise<number> => (await last()).revision
    const show = (revision: number) => api('GET', `/api/config/revision/${revision}`)
    const rollback = (revision: number, body: object = {}) =>
      api('POST', `/api/config/revision/${revision}/rollback`, body)
    const channel = (fields: object) =>
      api('POST', '/api/channel/', { type: 1, key: KEY, models: ['gpt-4o'], ...fields })
    const getChannel = (id: number) => api('GET', `/api/channel/${id}`)

    it('begin with what is there', async () => {
      const [first] = (await revisions()).toReversed()
      assert.deepEqual([first.revision, first.via, first.author.username], [1, 'gateway', 'system'])
      assert.ok(first.change_count >= 13)
      assert.equal(first.changes[0].action, 'create')
    })

    it('have author, source, reason and diff of every change', async () => {
      const { id } = await channel({
        name: 'one',
        header_override: { authorization: 'Bearer canary-header' },
      })
      const created = await last()
      assert.deepEqual(created.changes, [{ target: `channel:${id}`, name: 'one', action: 'create' }])
      assert.deepEqual([created.author.username, created.via.split(':')[0]], ['root', 'access_token'])
      const reason = 'more traffic: 中文'
      const header = Buffer.from(reason, 'utf8').toString('latin1')
      await api('PUT', '/api/channel/', { id, priority: 7, weight: 2 }, { 'x-sluice-reason': header })
      const changed = await show(await now())
      assert.equal(changed.reason, reason)
      assert.deepEqual(changed.changes, [
        {
          target: `channel:${id}`,
          name: 'one',
          action: 'update',
          fields: [
            { path: 'priority', before: 0, after: 7 },
            { path: 'weight', before: 0, after: 2 },
          ],
        },
      ])
      const long = { headers: { 'x-sluice-reason': 'x'.repeat(201) } }
      const refused = await gateway.api('PUT', '/api/channel/', { id, priority: 8 }, long)
      assert.deepEqual([refused.status, refused.body.errors[0].path], [400, 'x-sluice-reason'])
      assert.equal((await getChannel(id)).priority, 7)
    })

    it('are written by every way of changing the configuration, and by nothing else', async () => {
      const { id } = await channel({ name: 'ways', tag: 'ways' })
      const user = await gateway.createUser()
      const token = await api('POST', '/api/token/', { name: 'limited', unlimited_quota: true })
      const alias = await api('POST', '/api/alias/', { name: 'ways', target: 'gpt-4o' })
      const rule = await api('POST', '/api/alert/rule/', { name: 'ways', kind: 'disk_low' })
      const ways: readonly (readonly [string, string, object])[] = [
        ['POST', `/api/channel/${id}/status`, { status: 2 }],
        ['POST', '/api/channel/tag/enabled', { tag: 'ways' }],
        ['PUT', '/api/channel/batch', { ids: [id], fields: { weight: 3 } }],
        ['PUT', '/api/alias/', { id: alias.id, target: 'other' }],
        ['POST', '/api/price/', { model: 'ways', input: 1 }],
        ['PUT', '/api/price/batch', { prices: [{ model: 'ways', input: 2 }] }],
        ['PUT', '/api/setting/', { attempts: 4 }],
        ['PUT', '/api/option/', { key: 'attempts', value: '6' }],
        ['PUT', '/api/alert/rule/', { id: rule.id, threshold: 9 }],
        ['PUT', '/api/user/', { id: user.id, limits: { rpm: 5 } }],
        ['PUT', '/api/token/', { id: token.id, limits: { tpm: 5 } }],
      ]
      for (const [method, path, body] of ways) {
        const before = await now()
        const reply = await gateway.api(method, path, body)
        if (reply.status === 405 || reply.status === 404) assert.fail(`${path}: ${reply.text}`)
        assert.equal(reply.status, 200, reply.text)
        assert.equal(await now(), before + 1, path)
      }
      const before = await now()
      await api('PUT', '/api/user/', { id: user.id, display_name: 'other' })
      await api('PUT', '/api/setting/', { attempts: 6 })
      await api('POST', '/api/token/', { name: 'plain' })
      assert.equal(await now(), before)
      const applied = await gateway.operations.applyConfig({
        document: { version: 1, aliases: [{ name: 'ways', target: 'applied' }] },
        is_dry_run: false,
        is_pruning: false,
        reason: 'from a file',
      })
      assert.equal(applied.revision, before + 1)
      const { via, reason } = await last()
      assert.deepEqual([via, reason], ['command:apply', 'from a file'])
    })

    it('contain no secret', async () => {
      await api('PUT', '/api/setting/', { smtp_url: 'smtps://me:canary-password@example.com:465' })
      const rows = await gateway.db.selectFrom('config_changes').selectAll().execute()
      assert.doesNotMatch(JSON.stringify(rows), /canary/)
      assert.doesNotMatch(
        JSON.stringify(await gateway.db.selectFrom('config_owned').selectAll().execute()),
        /canary/,
      )
    })

    it('are restored as a new revision', async () => {
      const { id } = await channel({
        name: 'back',
        header_override: { 'x-api-key': 'canary-header' },
        weight: 1,
      })
      const alias = await api('POST', '/api/alias/', { name: 'back', target: 'gpt-4o', channel_ids: [id] })
      await api('POST', '/api/price/', { model: 'back', input: 1, output: 2 })
      await api('PUT', '/api/setting/', { attempts: 4 })
      const rule = await api('POST', '/api/alert/rule/', { name: 'back', kind: 'disk_low', threshold: 100 })
      const user = await gateway.createUser({ quota: 77 })
      await api('PUT', '/api/user/', { id: user.id, limits: { rpm: 5 } })
      const good = await now()

      await api('PUT', '/api/channel/', { id, weight: 9, models: ['other'], limits: { rpm: 3 }, status: 2 })
      await api('PUT', '/api/channel/', {
        id,
        header_override: { 'x-api-key': 'canary-header-2', 'x-b': '1' },
      })
      await api('PUT', '/api/alias/', { id: alias.id, target: 'other', channel_ids: null })
      await api('POST', '/api/price/', { model: 'back', input: 3, output: 4 })
      const later = Math.floor(Date.now() / 1000) + 3_600
      await api('POST', '/api/price/', { model: 'back', input: 5, effective_time: later })
      await api('POST', '/api/price/', { model: 'new', input: 5 })
      await api('PUT', '/api/setting/', { attempts: 9, log_requests: 0.5 })
      await api('PUT', '/api/alert/rule/', { id: rule.id, threshold: 200, enabled: false })
      await api('PUT', '/api/user/', { id: user.id, limits: { rpm: 50 }, quota: 99, display_name: 'kept' })
      const added = await channel({ name: 'added' })
      const head = await now()

      const preview = await rollback(good, { dry_run: true })
      assert.equal(await now(), head)
      const done = await rollback(good, { reason: 'wrong file' })
      assert.deepEqual(done.changes, preview.changes)
      assert.deepEqual([done.revision, done.warnings], [head + 1, []])
      assert.equal((await last()).reason, `Rollback to revision ${good}: wrong file`)

      const restored = await getChannel(id)
      assert.deepEqual(
        [restored.weight, restored.models, restored.limits.rpm, restored.status],
        [1, ['gpt-4o'], null, 1],
      )
      // The secret is the current one: revisions have none.
      assert.deepEqual(Object.keys(restored.header_override), ['x-api-key'])
      assert.match(restored.header_override['x-api-key'], /^can….*2$/)
      assert.equal(restored.keys.length, 1)
      const aliasNow = await api('GET', `/api/alias/${alias.id}`)
      assert.deepEqual([aliasNow.target, aliasNow.channel_ids], ['gpt-4o', [id]])
      const [price] = (await api('GET', '/api/price/?model=back')).items
      assert.deepEqual([price.input, price.output], [1, 2])
      const history = (await api('GET', '/api/price/history?model=back')).items
      assert.equal(history.length, 4)
      assert.equal(
        history.filter((version: { ended_time: number | null }) => version.ended_time === null).length,
        1,
      )
      assert.deepEqual((await api('GET', '/api/price/?model=new&source=admin')).items, [])
      const settings = await api('GET', '/api/setting/')
      const settingOf = (name: string) => settings.find(({ key }: { key: string }) => key === name)
      assert.deepEqual([settingOf('attempts').value, settingOf('log_requests').source], [4, 'default'])
      const ruleNow = await api('GET', `/api/alert/rule/${rule.id}`)
      assert.deepEqual([ruleNow.threshold, ruleNow.enabled], [100, true])
      assert.equal((await gateway.api('GET', `/api/channel/${added.id}`)).status, 404)
      // Limits are configuration; money and users are not.
      const userNow = await api('GET', `/api/user/${user.id}`)
      assert.deepEqual([userNow.limits.rpm, userNow.quota, userNow.display_name], [5, 99, 'kept'])

      const { changes } = await rollback(good, {})
      assert.deepEqual(changes, [])
      const there = await rollback(head)
      assert.ok(there.changes.length > 5)
      assert.equal((await getChannel(id)).weight, 9)
    })

    it('bring a deleted channel back with a new id, without keys and disabled', async () => {
      const { id } = await channel({
        name: 'gone',
        priority: 4,
        header_override: { authorization: 'Bearer canary-gone', 'x-b': '1' },
      })
      const alias = await api('POST', '/api/alias/', { name: 'gone', target: 'gpt-4o', channel_ids: [id] })
      const good = await now()
      await api('DELETE', `/api/channel/${id}`)
      await api('DELETE', `/api/alias/${alias.id}`)
      const { warnings } = await rollback(good)
      assert.match(
        warnings.join('\n'),
        /channel "gone" is restored without keys.*\n.*authorization is not restored/,
      )
      const find = async () =>
        (await api('GET', '/api/channel/search?keyword=gone')).items.map((row: { id: number }) => row)
      const [restored] = await find()
      assert.ok(restored.id > id)
      assert.deepEqual([restored.status, restored.keys, restored.priority], [2, [], 4])
      assert.deepEqual(restored.header_override, { 'x-b': '1' })
      const [aliasNow] = (await api('GET', '/api/alias/?keyword=gone')).items
      assert.deepEqual(aliasNow.channel_ids, [restored.id])

      const still = await rollback(good)
      assert.match(still.warnings.join(), /channel "gone" stays disabled, because it has no keys/)
      assert.equal((await getChannel(restored.id)).status, 2)
      // The same channel, when its keys are entered: a further rollback keeps it.
      await api('PUT', '/api/channel/', { id: restored.id, key: KEY, status: 1, priority: 9 })
      await rollback(good)
      const again = await find()
      assert.deepEqual(
        again.map(({ id: own, priority, keys }: { id: number; priority: number; keys: object[] }) => [
          own,
          priority,
          keys.length,
        ]),
        [[restored.id, 4, 1]],
      )
    })

    it('warn if the present keys of a channel are sent to another destination', async () => {
      const { id } = await channel({ name: 'moved', base_url: 'https://one.example' })
      const good = await now()
      await api('PUT', '/api/channel/', { id, base_url: 'https://two.example', key: 'sk-new-4712' })
      const dry = await rollback(good, { dry_run: true })
      assert.deepEqual(dry.warnings, ['channel "moved": its present keys are sent to another destination.'])
      await api('DELETE', `/api/channel/${id}`)
    })

    it('end the canary of an alias that they delete', async () => {
      const good = await now()
      const alias = await api('POST', '/api/alias/', { name: 'short-lived', target: 'gpt-4o' })
      const body = { kind: 'alias', alias_id: alias.id, changes: { target: 'gpt-4o-mini' } }
      const { id } = await api('POST', '/api/canary/', body)
      await rollback(good)
      assert.equal((await api('GET', `/api/canary/${id}`)).state, 'dropped')
    })

    it('are compared', async () => {
      const alias = await api('POST', '/api/alias/', { name: 'compared', target: 'a' })
      const from = await now()
      await api('PUT', '/api/alias/', { id: alias.id, target: 'b' })
      await api('PUT', '/api/alias/', { id: alias.id, target: 'c' })
      const to = await now()
      const forward = await api('GET', `/api/config/revision/${from}/diff`)
      assert.deepEqual(forward, {
        from,
        to,
        changes: [
          {
            target: `alias:${alias.id}`,
            name: 'compared',
            action: 'update',
            fields: [{ path: 'target', before: 'a', after: 'c' }],
          },
        ],
      })
      const back = await api('GET', `/api/config/revision/${to}/diff?to=${from}`)
      assert.deepEqual(back.changes[0].fields, [{ path: 'target', before: 'c', after: 'a' }])
    })

    it('that do not exist are a 404, and an invalid one is a 400', async () => {
      for (const [method, path] of [
        ['GET', '/api/config/revision/999999'],
        ['GET', '/api/config/revision/1/diff?to=999999'],
        ['POST', '/api/config/revision/999999/rollback'],
      ] as const)
        assert.equal((await gateway.api(method, path, method === 'POST' ? {} : undefined)).status, 404, path)
      const bad = await gateway.api('POST', '/api/config/revision/1/rollback', { dry_run: 'yes' })
      assert.deepEqual([bad.status, bad.body.errors[0].path], [400, 'dry_run'])
      const without = await gateway.api('POST', `/api/config/revision/${await now()}/rollback`)
      assert.equal(without.status, 200, without.text)
    })

    it('free the names that later objects have taken', async () => {
      const alias = await api('POST', '/api/alias/', { name: 'taken', target: 'x' })
      const good = await now()
      await api('PUT', '/api/alias/', { id: alias.id, name: 'moved' })
      const other = await api('POST', '/api/alias/', { name: 'taken', target: 'y' })
      await rollback(good)
      assert.equal((await api('GET', `/api/alias/${alias.id}`)).name, 'taken')
      assert.equal((await gateway.api('GET', `/api/alias/${other.id}`)).status, 404)
    })

    it('record what an import has changed in many transactions, once', async () => {
      const { id } = await api('POST', '/api/alias/', { name: 'imported', target: 'x' })
      await gateway.db.updateTable('aliases').set({ target: 'y' }).where('id', '=', id).execute()
      const history = createConfigHistory({ keyring: gateway.keyring, now: () => 1 })
      const author = { actor: { id: 0, username: 'system' }, via: 'command:import', reason: 'import' }
      const before = await now()
      for (let round = 0; round < 2; round++) await history.recordAll(gateway.db, author)
      const [change, ...others] = (await show(before + 1)).changes
      assert.deepEqual(change.fields, [{ path: 'target', before: 'x', after: 'y' }])
      assert.deepEqual([others, await now()], [[], before + 1])
      await gateway.db.updateTable('aliases').set({ target: 'x' }).where('id', '=', id).execute()
    })

    it('are verified with the audit log', async () => {
      const { ok, lines } = await gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
    })
  })
}
