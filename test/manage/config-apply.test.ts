import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ApplyInput, ApplyResult, PlannedChange } from '../../src/domain/config-change.ts'
import { oneEngine } from '../support/engines.ts'
import { suiteGateway } from '../support/gateway.ts'
import { tableDigests } from '../support/tables.ts'

const KEY = 'sk-provider-canary-4711'

const DOCUMENT = {
  version: 1,
  settings: { attempts: 3, log_requests: 0.5 },
  channels: [
    { name: 'main', type: 1, key: KEY, models: 'gpt-4o, gpt-4o-mini', priority: 5, limits: { rpm: 60 } },
    {
      name: 'spare',
      type: 1,
      keys: [`${KEY}-a`, `${KEY}-b`],
      models: ['gpt-4o'],
      status: 'disabled',
      header_override: { authorization: 'Bearer header-canary-0815', 'x-team': 'a' },
    },
  ],
  aliases: [{ name: 'fast', target: 'gpt-4o-mini', channels: ['main', 'spare'] }],
  prices: [{ model: 'gpt-4o', input: 2.5, output: 10 }],
  users: [{ username: 'ann', password: 'password of ann', quota: 1_000, limits: { tpm: 9 }, status: 2 }],
  tokens: [
    { name: 'app', username: 'ann', models: ['gpt-4o'], model_limits_enabled: true, remain_quota: 7 },
    { name: 'ci', unlimited_quota: true },
  ],
  alerts: [
    { name: 'hook', type: 'webhook', url: 'https://example.com/hook' },
    { name: 'Errors of main', kind: 'error_rate', threshold: 5, targets: ['hook'], subjects: ['main'] },
  ],
}

const summary = ({ changes }: Pick<ApplyResult, 'changes'>) =>
  changes.map(({ action, kind, name }) => `${action} ${kind} ${name}`)

for (const engine of oneEngine('sqlite')) {
  describe(`a configuration file on ${engine} (docs/reference/configuration-file.md: Applying a file)`, () => {
    const gateway = suiteGateway({ engine })
    const apply = (document: unknown, options: Partial<ApplyInput> = {}) =>
      gateway.operations.applyConfig({
        document,
        is_dry_run: false,
        is_pruning: false,
        reason: 'test',
        ...options,
      })
    const items = async (path: string) => (await gateway.api('GET', path)).body.data.items
    const channels = () => items('/api/channel/?page_size=100&id_sort=true')
    const only = ({ changes }: ApplyResult): PlannedChange => {
      assert.equal(changes.length, 1, JSON.stringify(changes))
      return changes[0] as PlannedChange
    }
    const refused = (document: unknown, message: RegExp) =>
      assert.rejects(apply(document), (error: Error) => message.test(error.message))

    it('is planned without being applied', async () => {
      const before = await tableDigests(gateway.db)
      const plan = await apply(DOCUMENT, { is_dry_run: true })
      assert.deepEqual(await tableDigests(gateway.db), before)
      assert.deepEqual(summary(plan), [
        'create setting attempts',
        'create setting log_requests',
        'create alert_target hook',
        'create channel main',
        'create channel spare',
        'create alias fast',
        'create price gpt-4o',
        'create user ann',
        'create token app',
        'create token ci',
        'create alert_rule Errors of main',
      ])
      assert.deepEqual([plan.secrets, plan.revision], [[], null])
      assert.doesNotMatch(JSON.stringify(plan), /canary|password of/)
    })

    it('is applied as a whole, and a second time changes nothing', async () => {
      const first = await apply(DOCUMENT)
      assert.equal(first.changes.length, 11)
      assert.doesNotMatch(JSON.stringify(first.changes), /canary|password of|whsec/)
      const fieldsOf = (name: string) => first.changes.find(change => change.name === name)?.fields
      assert.deepEqual(fieldsOf('ann')?.slice(-2), [
        { path: 'quota', before: null, after: 1_000 },
        { path: 'password', before: null, after: null, is_secret: true },
      ])
      assert.deepEqual(fieldsOf('app')?.at(-1), { path: 'remain_quota', before: null, after: 7 })
      assert.deepEqual(
        first.secrets.map(({ kind, name, username }) => [kind, name, username]),
        [
          ['alert_target', 'hook', undefined],
          ['token', 'app', 'ann'],
          ['token', 'ci', 'root'],
        ],
      )
      const [spare, main] = await channels()
      assert.deepEqual([main.name, main.models, main.priority], ['main', ['gpt-4o', 'gpt-4o-mini'], 5])
      assert.deepEqual([main.limits.rpm, main.status, main.channel_info.is_multi_key], [60, 1, false])
      assert.deepEqual([spare.status, spare.keys.length, spare.header_override['x-team']], [2, 2, 'a'])
      const [alias] = await items('/api/alias/')
      assert.deepEqual(alias.channel_ids, [main.id, spare.id])
      const [price] = await items('/api/price/?model=gpt-4o')
      assert.deepEqual([price.input, price.output, price.author], [2.5, 10, null])
      const [ann] = await items('/api/user/search?keyword=ann')
      assert.deepEqual([ann.quota, ann.limits.tpm, ann.status], [1_000, 9, 2])
      const [token] = await items('/api/token/')
      assert.deepEqual([token.name, token.unlimited_quota], ['ci', true])
      const rule = (await items('/api/alert/rule/?page_size=100')).at(-1)
      const [target] = await items('/api/alert/target/')
      assert.deepEqual([rule.threshold, rule.target_ids, rule.subject_ids], [5, [target.id], [main.id]])
      const settings = (await gateway.api('GET', '/api/setting/')).body.data
      assert.equal(settings.find(({ key }: { key: string }) => key === 'attempts').value, 3)

      const before = await tableDigests(gateway.db)
      const second = await apply(DOCUMENT)
      assert.deepEqual([second.changes, second.removable, second.revision], [[], [], null])
      const { config_owned: _before, chains: _chains, ...unchanged } = before
      const { config_owned: _after, chains: _after2, ...after } = await tableDigests(gateway.db)
      // The encryption of unchanged secrets has a new nonce.
      for (const table of ['channels', 'alert_targets']) delete unchanged[table]
      for (const table of ['channels', 'alert_targets']) delete after[table]
      assert.deepEqual(after, unchanged)
    })

    it('has the token value that the gateway accepts', async () => {
      const { secrets } = await apply({ version: 1, tokens: [{ name: 'accepted', unlimited_quota: true }] })
      const reply = await gateway.api('GET', '/v1/models', undefined, { token: secrets[0]?.value ?? '' })
      assert.equal(reply.status, 200, reply.text)
      assert.deepEqual((await apply({ version: 1, tokens: [{ name: 'accepted' }] })).secrets, [])
    })

    it('changes only the fields of the file, in effect at once', async () => {
      const change = only(await apply({ version: 1, channels: [{ name: 'main', weight: 9 }] }))
      assert.deepEqual(change.fields, [{ path: 'weight', before: 0, after: 9 }])
      const main = (await channels()).find(({ name }: { name: string }) => name === 'main')
      assert.deepEqual([main.weight, main.priority], [9, 5])
      const models = ['new-model']
      await apply({
        version: 1,
        channels: [{ name: 'main', models }],
        prices: [{ model: 'new-model', input: 1 }],
      })
      const routes = await gateway.api('POST', '/api/route/explain', { model: 'new-model' })
      assert.match(routes.text, /"main"/)
    })

    it('applies aliases in an order without a loop, if together they have none', async () => {
      const targets = async () => {
        const aliases: { name: string; target: string }[] = await items('/api/alias/?page_size=100')
        return Object.fromEntries(aliases.map(({ name, target }) => [name, target]))
      }
      const chain = (...aliases: readonly (readonly [string, string])[]) =>
        apply({ version: 1, aliases: aliases.map(([name, target]) => ({ name, target })) })
      await chain(['first', 'gpt-4o'], ['second', 'first'], ['third', 'second'])
      await chain(['first', 'second'], ['second', 'third'], ['third', 'gpt-4o'])
      const { first, second, third } = await targets()
      assert.deepEqual([first, second, third], ['second', 'third', 'gpt-4o'])
      await assert.rejects(chain(['third', 'first'], ['second', 'third']), /would form a loop/)
      for (const name of ['first', 'second', 'third']) {
        const { id } = (await items('/api/alias/?page_size=100')).find(
          (alias: { name: string }) => alias.name === name,
        )
        await gateway.api('DELETE', `/api/alias/${id}`)
      }
    })

    it('shows what was changed by another way, and changes it back', async () => {
      const document = { version: 1, aliases: [{ name: 'drifting', target: 'gpt-4o' }] }
      await apply(document)
      const [alias] = await items('/api/alias/?keyword=drifting')
      await gateway.api('PUT', '/api/alias/', { id: alias.id, target: 'other' })
      const change = only(await apply(document, { is_dry_run: true }))
      assert.deepEqual(change.fields, [
        { path: 'target', before: 'other', after: 'gpt-4o', applied: 'gpt-4o' },
      ])
      assert.ok(change.is_drift)
      await gateway.api('PUT', '/api/alias/', { id: alias.id, name: 'renamed' })
      const renamed = only(await apply(document))
      assert.deepEqual(renamed.fields.map(({ path }) => path).sort(), ['name', 'target'])
      assert.equal((await gateway.api('GET', `/api/alias/${alias.id}`)).body.data.name, 'drifting')
      await gateway.api('DELETE', `/api/alias/${alias.id}`)
      const created = only(await apply(document))
      assert.deepEqual([created.action, created.is_drift], ['create', true])
    })

    it('deletes what an earlier file had only with prune', async () => {
      const both = { version: 1, aliases: ['keep', 'drop'].map(name => ({ name, target: 'gpt-4o' })) }
      await apply(both)
      await gateway.api('POST', '/api/alias/', { name: 'by-hand', target: 'gpt-4o' })
      const document = { ...DOCUMENT, aliases: [...DOCUMENT.aliases, { name: 'keep', target: 'gpt-4o' }] }
      const { removable } = await apply(document)
      const names = removable.map(({ kind, name }) => `${kind} ${name}`)
      assert.ok(names.includes('alias drop') && names.includes('alias drifting'), names.join())
      assert.ok(!names.includes('alias by-hand') && !names.includes('alias keep'))
      const pruned = await apply(document, { is_pruning: true })
      assert.ok(summary(pruned).includes('delete alias drop'))
      assert.ok(summary(pruned).includes('delete price new-model'))
      const remainingNames = (await items('/api/alias/?page_size=100')).map(
        ({ name }: { name: string }) => name,
      )
      assert.deepEqual(remainingNames.sort(), ['by-hand', 'fast', 'keep'])
      assert.deepEqual((await apply(document, { is_pruning: true })).changes, [])
    })

    it('replaces keys only if they differ, and keeps the state of the others', async () => {
      const find = async () => (await channels()).find(({ name }: { name: string }) => name === 'spare')
      const { id } = await find()
      await gateway.api('POST', `/api/channel/${id}/keys/1/status`, { status: 2 })
      const keys = [`${KEY}-b`, `${KEY}-c`]
      const change = only(await apply({ version: 1, channels: [{ name: 'spare', keys }] }))
      assert.deepEqual(change.fields, [{ path: 'key', is_secret: true }])
      assert.deepEqual(
        (await find()).keys.map(({ status }: { status: number }) => status),
        [2, 1],
      )
      assert.deepEqual((await apply({ version: 1, channels: [{ name: 'spare', keys }] })).changes, [])
      const main = { version: 1, channels: [{ name: 'main', key: `${KEY}-new` }] }
      assert.deepEqual(only(await apply(main)).fields, [{ path: 'key', is_secret: true }])
      assert.deepEqual((await apply(main)).changes, [])
    })

    it('shows that a secret header changes, but not the header', async () => {
      const of = (authorization: string) => ({
        version: 1,
        channels: [{ name: 'spare', header_override: { authorization, 'x-team': 'a' } }],
      })
      assert.deepEqual(only(await apply(of('Bearer header-canary-0816'))).fields, [
        { path: 'header_override', is_secret: true },
      ])
      // A hidden secret keeps its value.
      assert.deepEqual((await apply(of('…'))).changes, [])
      const fresh = { name: 'fresh', type: 1, key: KEY, header_override: { authorization: '…' } }
      await refused(
        { version: 1, channels: [fresh] },
        /^channels\.0\.header_override\.authorization is left out/,
      )
    })

    it('writes a new version of a price that differs', async () => {
      const prices = (input: number) => ({ version: 1, prices: [{ model: 'gpt-4o', input, output: 10 }] })
      assert.deepEqual(only(await apply(prices(3))).fields, [{ path: 'input', before: 2.5, after: 3 }])
      assert.deepEqual((await apply(prices(3))).changes, [])
      assert.equal((await items('/api/price/history?model=gpt-4o')).length, 2)
      const effective_time = Math.floor(Date.now() / 1000) + 3_600
      const later = { version: 1, prices: [{ model: 'gpt-4o', input: 4, effective_time }] }
      assert.equal(only(await apply(later)).fields[0]?.path, 'upcoming')
      assert.deepEqual((await apply(later)).changes, [])
    })

    it('sets money and passwords only of new users and tokens', async () => {
      const users = [{ username: 'ANN', password: 'another password', quota: 5 }]
      const tokens = [{ name: 'app', username: 'ann', remain_quota: 1 }]
      assert.deepEqual(summary(await apply({ version: 1, users, tokens })), ['update user ANN'])
      const [ann] = await items('/api/user/search?keyword=ann')
      assert.deepEqual([ann.username, ann.quota], ['ANN', 1_000])
      const unlimited = { version: 1, users: [{ username: 'ann', unlimited_quota: true, status: 1 }] }
      assert.deepEqual(
        only(await apply(unlimited)).fields.map(({ path }) => path),
        ['username', 'status', 'unlimited_quota'],
      )
    })

    it('is refused as a whole with the path of the field', async () => {
      const before = await tableDigests(gateway.db)
      const channel = { name: 'x', type: 1, key: KEY }
      for (const [document, message] of [
        [{ version: 1, channels: [{ ...channel, typ: 1 }] }, /^channels\.0 has an unknown field: typ$/],
        [{}, /^version must be 1/],
        [{ version: 2 }, /^version must be 1/],
        [{ version: 1, channel: [] }, /channel/],
        [{ version: 1, channels: [{ ...channel, wieght: 1 }] }, /^channels\.0 .*wieght/],
        [{ version: 1, channels: [channel, { ...channel, name: 'y', weight: -1 }] }, /^channels\.1\.weight /],
        [{ version: 1, channels: [{ ...channel, type: 999_999 }] }, /^channels\.0\.type /],
        [{ version: 1, channels: [channel, channel] }, /^channels\.1 has the same name as channels\.0/],
        [{ version: 1, channels: [{ name: 'x', type: 1 }] }, /^channels\.0\.key is required/],
        [
          { version: 1, aliases: [{ name: 'a', target: 'b', channels: ['none'] }] },
          /^aliases\.0\.channels\.0 /,
        ],
        [{ version: 1, aliases: [{ name: 'a', target: 'a' }] }, /^aliases\.0: /],
        [{ version: 1, prices: [{ model: 'm' }] }, /^prices\.0 needs at least one price/],
        [{ version: 1, prices: [{ model: 'm', input: -1 }] }, /^prices\.0\.input /],
        [{ version: 1, settings: { attempts: 0 } }, /^settings\.attempts\.value must be/],
        [{ version: 1, settings: { nonsense: 0 } }, /^settings\.nonsense\.key /],
        [{ version: 1, users: [{ username: 'new' }] }, /^users\.0\.password is required/],
        [{ version: 1, users: [{ username: 'root', email: 'x' }] }, /^users\.0/],
        [{ version: 1, tokens: [{ name: 't', username: 'none' }] }, /^tokens\.0\.username is not the name/],
        [
          { version: 1, alerts: [{ name: 'Error rate', kind: 'disk_low' }] },
          /^alerts\.0\.kind cannot change/,
        ],
      ] as const) {
        const whole = {
          ...document,
          ...('version' in document && { aliases: [{ name: 'whole', target: 'gpt-4o' }] }),
          ...('aliases' in document && { aliases: document.aliases }),
        }
        await refused(whole, message)
      }
      assert.deepEqual(await tableDigests(gateway.db), before)
    })

    it('is exported as a file that changes nothing, without secrets', async () => {
      const { document, warnings } = await gateway.operations.exportConfig({})
      assert.deepEqual(warnings, ['prices: scheduled prices of "gpt-4o" are left out.'])
      assert.doesNotMatch(JSON.stringify(document), /canary|whsec|password of/)
      assert.deepEqual(Object.keys(document), [
        'version',
        'settings',
        'channels',
        'aliases',
        'prices',
        'users',
        'tokens',
        'alerts',
      ])
      const { changes } = await apply(document)
      assert.deepEqual(changes, [])
      const [channel] = document.channels as Record<string, unknown>[]
      assert.deepEqual(channel, {
        name: 'main',
        type: 1,
        models: ['gpt-4o', 'gpt-4o-mini'],
        priority: 5,
        weight: 9,
        limits: { rpm: 60, tpm: null, concurrency: null },
      })
      assert.match(JSON.stringify(document.aliases), /"channels":\["main","spare"\]/)
    })

    it('is in the audit log with its command', async () => {
      const [record] = await items('/api/audit/?action=channel.update')
      assert.deepEqual([record.actor_name, record.via], ['system', 'command:apply'])
      assert.doesNotMatch(JSON.stringify(await items('/api/audit/?page_size=500')), /canary/)
      const { ok, lines } = await gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
    })
  })
}
