import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { isObject } from '../../src/domain/json-object.ts'
import { contentOf, importInto, sqliteFile, withGateway } from '../support/import-content.ts'
import { bcrypt, channel, key, token, user } from '../support/new-api-content.ts'
import { fillSource, NEW_API_TABLES, ONE_API_TABLES, type SourceContent } from '../support/new-api-source.ts'
import { createDatabase } from '../support/postgres.ts'
import { newDirectory } from '../support/process.ts'
import { writePostgres, writeSqlite } from '../support/source-database.ts'

const ONE_API: SourceContent = {
  users: [
    strip(user(1, 'root', { role: 100, quota: 500_000_000_000_000n })),
    strip(user(2, 'alice', { quota: 42, access_token: 'f'.repeat(32) })),
    strip(user(3, 'deleted_0123456789abcdef0123456789abcdef', { status: 3 })),
  ],
  tokens: [
    {
      ...{ id: 1, user_id: 2, key: key('a'), status: 1, name: 'default', created_time: 1, expired_time: -1 },
      ...{ remain_quota: -1, unlimited_quota: true, models: null, subnet: null },
    },
    {
      ...{ id: 2, user_id: 2, key: 'short-key', status: 1, name: 'short', created_time: 1, expired_time: -1 },
      ...{ remain_quota: 7, unlimited_quota: false, models: 'gpt-4o', subnet: '10.0.0.0/8,192.168.1.0/24' },
    },
    {
      ...{
        id: 3,
        user_id: 3,
        key: key('c'),
        status: 1,
        name: 'of deleted',
        created_time: 1,
        expired_time: -1,
      },
      ...{ remain_quota: 7, unlimited_quota: false, models: '', subnet: '' },
    },
  ],
  channels: [
    ...[
      { id: 1, type: 29, name: 'groq', models: 'llama3-8b-8192', config: '{}' },
      { id: 2, type: 50, name: 'compatible', models: 'gpt-4o', base_url: 'https://example.com/v1' },
      {
        ...{ id: 3, type: 42, name: 'vertex', models: 'gemini-pro', key: 'eu|p|{…}' },
        config:
          '{"region":"europe-west4","vertex_ai_project_id":"p","vertex_ai_adc":"{\\"project_id\\":\\"p\\"}"}',
      },
      {
        id: 4,
        type: 3,
        name: 'azure',
        models: 'gpt-4o',
        base_url: 'https://x.example.com',
        other: '2024-10-21',
      },
      { id: 5, type: 43, name: 'proxy', models: 'any' },
      { id: 6, type: 1, name: 'mapped', models: 'my-model', model_mapping: '{"my-model":"gpt-4o"}' },
      { id: 7, type: 1, name: 'prompted', models: 'gpt-4o', system_prompt: 'You are a pirate.' },
    ].map(fields => ({
      key: `k${fields.id}`,
      status: 1,
      weight: 9,
      created_time: 5,
      priority: 1,
      ...fields,
    })),
  ],
  options: [
    { key: 'ModelRatio', value: '{"gpt-4o":1.25,"llama3-8b-8192":0.025,"llama3-8b-8192(29)":0.05}' },
    { key: 'CompletionRatio', value: '{"llama3-8b-8192":2}' },
  ],
}

/** Columns that one-api does not have. */
function strip<Row extends Record<string, unknown>>({ created_at: _, deleted_at: __, ...row }: Row) {
  return row as never
}

describe('a database of one-api', () => {
  let databaseUrl: string
  let drop: () => Promise<void>
  before(async () => {
    ;({ url: databaseUrl, drop } = await createDatabase())
    const writer = await writePostgres(databaseUrl)
    await fillSource(writer, ONE_API_TABLES, ONE_API)
    await writer.close()
  })
  after(() => drop())

  it('is imported with its own types, limits and prices, from SQLite and PostgreSQL alike', async () => {
    const [first, second] = await Promise.all(
      [await sqliteFile(ONE_API_TABLES, ONE_API), databaseUrl].map(from =>
        withGateway(async gateway => {
          const report = await importInto(gateway, 'one-api', from)
          return { content: await contentOf(gateway), report }
        }),
      ),
    )
    assert.ok(first && second)
    assert.deepEqual(second.content, first.content)
    assert.deepEqual(second.report.notes, first.report.notes)
    const { users, tokens, channels, prices } = first.content
    assert.deepEqual(
      users.map(({ username, unlimited, credited }) => [username, unlimited, credited]),
      [
        ['alice', 0, 84_000],
        ['root', 1, 0],
        ['root-2', 1, 0],
      ],
    )
    assert.deepEqual(
      tokens.map(({ name, unlimited, models, allow_ips }) => [name, unlimited, models, allow_ips]),
      [
        ['default', 1, '[]', '[]'],
        ['short', 0, '["gpt-4o"]', '["10.0.0.0/8","192.168.1.0/24"]'],
      ],
    )
    assert.deepEqual(
      channels.map(({ name, type, weight, status }) => [name, type, weight, status]),
      [
        ['azure', 3, 0, 1],
        ['compatible', 8, 0, 1],
        ['groq', 1001, 0, 1],
        ['mapped', 1, 0, 1],
        ['prompted', 1, 0, 2],
        ['vertex', 41, 0, 1],
      ],
    )
    const rates = Object.fromEntries(prices.map(({ model, price }) => [model, JSON.parse(price).rates]))
    // 60 picodollars per token are 0.1 USD per million: the ratio of the channel's type wins.
    assert.deepEqual(rates['llama3-8b-8192'], { input: 100_000, output: 200_000 })
    assert.deepEqual(rates['gpt-4o'], { input: 2_500_000, output: 10_000_000 })
    assert.deepEqual(rates['my-model'], rates['gpt-4o'])
  })

  it('is refused as a database of new-api', async () => {
    const from = await sqliteFile(ONE_API_TABLES, ONE_API)
    await withGateway(gateway =>
      assert.rejects(gateway.operations.importFrom({ kind: 'new-api', from, dryRun: true }), {
        message: /database of one-api: run "sluice import one-api"/,
      }),
    )
  })
})

describe('a hostile database', () => {
  const long = 'x'.repeat(5 * 1024 * 1024)
  const SQL = `'); drop table users; --`
  const ESCAPE = '\u001b[2J\u001b]0;owned\u0007'

  it('cannot do more than fill rows that pass the rules of the management API', async () => {
    const from = await sqliteFile(NEW_API_TABLES, {
      users: [
        user(1, SQL, { quota: 9_223_372_036_854_775_807n }),
        user(2, ESCAPE, { quota: -9_223_372_036_854_775_808n }),
        user(3, long, { quota: 'not a number' as never }),
        user(4, '', { role: -5, quota: null as never, group: ESCAPE }),
        user(5, 'same', { role: 55, email: 'x'.repeat(100_000) }),
        user(6, 'SAME', { password: '$2a$31$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234' }),
        user(7, 'ｓａｍｅ', {
          created_at: 9_223_372_036_854_775_807n,
          access_token: 'sk-looks-like-a-token-of-the-relay',
        }),
        user(8, 'nul\0byte\ud800', {
          display_name: '\u202e\u0000',
          access_token: `${ESCAPE}12345678901234567890`,
        }),
      ],
      tokens: [
        token(1, 1, ''),
        token(2, 1, key('a'), {
          remain_quota: 9_223_372_036_854_775_807n,
          expired_time: 9_223_372_036_854_775_807n,
        }),
        token(3, 1, key('a')),
        token(4, 999, key('b')),
        token(5, 1, long),
        token(6, 1, 'line\nbreak\nline\nbreak'),
        token(7, 1, key('c'), {
          name: ESCAPE,
          status: -7,
          model_limits_enabled: true,
          model_limits: `${'x'.repeat(300)},m`,
        }),
        token(8, 1, `${key('d')}-5`, { allow_ips: '::/0\n../../etc/passwd' }),
      ],
      channels: [
        channel(1, ESCAPE, { model_mapping: '{"a":"b","b":"a"}', priority: 9_223_372_036_854_775_807n }),
        channel(2, 'metadata', { base_url: 'http://169.254.169.254/latest' }),
        channel(3, 'headers', { header_override: '{"host":"evil.example","x":"a\\r\\nb"}' }),
        channel(4, 'override', { param_override: '{"operations":[{"mode":"no such mode"}]}' }),
        channel(5, 'deep', { setting: '['.repeat(100_000), channel_info: Buffer.from('\xff\xfe') }),
        channel(6, 'keys', { key: '\u0001\u0002', models: 'm'.repeat(300) }),
        channel(7, 'types', { type: 'DROP TABLE' as never, weight: -4 }),
        channel(8, 'proto', {
          model_mapping: '{"__proto__":"x","constructor":"y"}',
          models: '__proto__,toString',
        }),
      ],
      options: [
        { key: 'ModelRatio', value: '{"__proto__":1,"toString":1e308,"small-model":-1,"m":"NaN"}' },
        { key: 'QuotaPerUnit', value: '-1' },
        { key: 'GroupRatio', value: '[1,2' },
        { key: 'billing_setting.billing_mode', value: '{"small-model":"tiered_expr"}' },
        { key: 'billing_setting.billing_expr', value: `{"small-model":"${'('.repeat(3000)}"}` },
      ],
    })
    await withGateway(async gateway => {
      const report = await importInto(gateway, 'new-api', from)
      const text = JSON.stringify(report)
      assert.ok(text.length < 100_000, `the report has ${text.length} characters`)
      assert.doesNotMatch(text, /\\u001b|\\u0007|\\u202e/)
      const { users, tokens, channels } = await contentOf(gateway)
      assert.equal(users.length, 8)
      assert.deepEqual(
        users.map(({ username }) => username).filter(name => /same/i.test(name.normalize('NFKC'))),
        ['same', 'SAME-2', 'ｓａｍｅ-3'],
      )
      assert.ok(users.every(({ role }) => [1, 10, 100].includes(role)))
      assert.ok(users.every(({ username }) => username.length <= 64 && !/\p{C}/u.test(username)))
      assert.deepEqual(
        tokens.map(({ status }) => status),
        [1, 2, 1],
      )
      assert.ok(channels.every(({ base_url }) => !base_url.includes('169.254')))
      const enabled = channels.filter(({ status }) => status === 1).map(({ name }) => name)
      assert.deepEqual(enabled, ['proto'])
      for (const { models, model_mapping } of channels) {
        assert.ok(Array.isArray(JSON.parse(models)))
        assert.ok(isObject(JSON.parse(model_mapping)))
      }
      assert.equal(
        await gateway.db
          .selectFrom('access_tokens')
          .select('id')
          .where('name', '=', 'new-api')
          .execute()
          .then(rows => rows.length),
        0,
      )
    })
  })

  it('cannot redirect keys that were entered here, when the import is run again', async () => {
    const THERE = 'http://127.0.0.1:9'
    const from = await sqliteFile(NEW_API_TABLES, {
      channels: [
        channel(1, 'rotated here', { base_url: 'https://api.example.com', models: 'm' }),
        channel(2, 'unchanged', { base_url: 'https://api.example.com', models: 'm' }),
      ],
    })
    await withGateway(async gateway => {
      await importInto(gateway, 'new-api', from)
      const { id } = await gateway.db
        .selectFrom('channels')
        .select('id')
        .where('name', '=', 'rotated here')
        .executeTakeFirstOrThrow()
      const rotation = { id, key: 'key-that-was-entered-here-1234' }
      assert.equal((await gateway.api('PUT', '/api/channel/', rotation)).status, 200)
      const writer = writeSqlite(from)
      await writer.run(`update channels set base_url = '${THERE}', weight = 5`)
      await writer.close()
      const report = await importInto(gateway, 'new-api', from)
      const after = new Map((await contentOf(gateway)).channels.map(each => [each.name, each]))
      assert.deepEqual(
        ['rotated here', 'unchanged'].map(name => after.get(name)?.base_url),
        ['https://api.example.com', THERE],
      )
      assert.equal(after.get('rotated here')?.weight, 5)
      const notes = report.notes.filter(({ message }) => /another destination there/.test(message))
      assert.equal(notes.length, 1)
    })
  })

  it('is refused if it has views instead of tables, or is no database', async () => {
    const file = join(newDirectory(), 'views.db')
    const writer = writeSqlite(file)
    await writer.run(
      'create view users as with recursive n(id) as (select 1 union all select id + 1 from n) select id from n',
    )
    await writer.close()
    const broken = join(newDirectory(), 'broken.db')
    writeFileSync(broken, 'SQLite format 3\0 and nothing else')
    const text = join(newDirectory(), 'text.db')
    writeFileSync(text, 'secret text in a file that is no database')
    await withGateway(async gateway => {
      const refused = async (from: string, message: RegExp) =>
        assert.rejects(gateway.operations.importFrom({ kind: 'new-api', from, dryRun: true }), error => {
          assert.match((error as Error).message, message)
          assert.doesNotMatch((error as Error).message, /secret text/)
          return true
        })
      await refused(file, /"users" is not a plain table/)
      await refused(join(gateway.dataDir, 'sluice.db'), /this is a database of Sluice/)
      await refused(broken, /cannot be read/)
      await refused(text, /cannot be read/)
      await refused('/no/such/file', /finds no such file/)
      await refused('oracle://user:pass@host/db', /must be an SQLite file/)
      await refused('mysql://user:secret text@127.0.0.1:1/db', /cannot be read|must be an SQLite file/)
    })
  })

  it('does not block a second import, and only one runs at a time', async () => {
    const from = await sqliteFile(NEW_API_TABLES, { users: [user(1, 'a', { password: bcrypt('x') })] })
    await withGateway(async gateway => {
      const request = { kind: 'new-api', from, dryRun: false } as const
      const [first, second] = await Promise.allSettled([
        gateway.operations.importFrom(request),
        gateway.operations.importFrom(request),
      ])
      assert.equal(first.status, 'fulfilled')
      assert.equal(second.status, 'rejected')
      assert.equal((await gateway.operations.importFrom(request)).counts.users?.unchanged, 1)
    })
  })
})
