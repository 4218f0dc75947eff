import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { startSimulator } from '../../simulator/server.ts'
import type { ImportNote, ImportReport } from '../../src/domain/import.ts'
import { runHere } from '../support/command.ts'
import { ENGINES } from '../support/gateway.ts'
import { CREATED, contentFor, key, MODEL, SYSTEM_TOKEN, user } from '../support/new-api-content.ts'
import { fillSource, NEW_API_TABLES } from '../support/new-api-source.ts'
import { createDatabase } from '../support/postgres.ts'
import {
  newDirectory,
  newGround,
  type Server,
  type ServerOptions,
  settingsOf,
  startServer,
  verifyThroughSocket,
} from '../support/process.ts'
import { writePostgres, writeSqlite } from '../support/source-database.ts'

const SECRETS = [
  key('a'),
  'provider-key-1',
  'key-two',
  SYSTEM_TOKEN,
  'secret-password',
  'secret-in-json',
  'TOTPSECRET',
  '$2a$',
]

const notesOf = ({ notes }: ImportReport, subject: RegExp) =>
  notes.filter(note => subject.test(note.subject)).map(({ message }: ImportNote) => message)

for (const engine of ENGINES)
  describe(`sluice import new-api, into ${engine} (docs/moving/new-api.md)`, () => {
    let ground: ServerOptions
    let server: Server
    let simulator: Awaited<ReturnType<typeof startSimulator>>
    let file: string
    let from: string
    let drop = async () => {}

    const importNewApi = (...words: string[]) =>
      runHere(['import', 'new-api', '--from', from, ...words], { env: settingsOf(ground) })
    const reportOf = async (...words: string[]): Promise<ImportReport> => {
      const { code, stdout, stderr } = await importNewApi('--json', ...words)
      assert.equal(code, 0, stderr)
      for (const secret of SECRETS) assert.ok(!stdout.includes(secret), `${secret} is printed`)
      return JSON.parse(stdout)
    }
    /** Changes the source by SQL that all databases understand. */
    const changeSource = async (...statements: string[]) => {
      const writer = engine === 'sqlite' ? writeSqlite(file) : await writePostgres(from)
      for (const statement of statements) await writer.run(statement)
      await writer.close()
    }
    const chat = (token: string, model = MODEL) =>
      server.api(
        'POST',
        '/v1/chat/completions',
        { model, messages: [{ role: 'user', content: 'hello' }], max_tokens: 50 },
        { token },
      )
    const users = async () => {
      const { body } = await server.api('GET', '/api/user/?page_size=100')
      return new Map<string, Record<string, unknown>>(
        body.data.items.map((item: { username: string }) => [item.username, item]),
      )
    }
    const login = (username: string, password: string) =>
      server.api('POST', '/api/user/login', { username, password }, { token: null })

    before(async () => {
      ground = await newGround(engine)
      simulator = await startSimulator()
      if (engine === 'sqlite') {
        file = join(newDirectory(), 'one-api.db')
        from = file
        const writer = writeSqlite(file)
        await fillSource(writer, NEW_API_TABLES, contentFor(simulator.url))
        await writer.close()
      } else {
        const database = await createDatabase()
        from = database.url
        drop = database.drop
        const writer = await writePostgres(from)
        await fillSource(writer, NEW_API_TABLES, contentFor(simulator.url))
        await writer.close()
      }
      server = await startServer(ground)
    })
    after(async () => {
      await server?.stop()
      await simulator?.close()
      await drop()
    })

    it('reports everything in a dry run and writes nothing', async () => {
      const report = await reportOf('--dry-run', '--logs', '30')
      assert.equal(report.dry_run, true)
      assert.equal(report.counts.users?.created, 8)
      assert.equal(report.counts.tokens?.created, 7)
      assert.equal(report.counts.channels?.created, 5)
      assert.deepEqual([...(await users()).keys()], ['root'])
      assert.match(notesOf(report, /"bob smith"/).join(), /negative \(-5\).*name becomes "bob_smith"/)
      assert.match(notesOf(report, /^user 4/).join(), /its name becomes "ALICE-2"/)
      assert.match(notesOf(report, /"rich"/).join(), /becomes unlimited_quota/)
      assert.match(notesOf(report, /^channel 3/).join(), /type 2 has no counterpart/)
      assert.doesNotMatch(notesOf(report, /^channel 4/).join(), /disabled|proxy/)
      assert.match(notesOf(report, /^channel 5/).join(), /param_override \(no valid JSON object\)/)
      assert.match(notesOf(report, /group "vip"/).join(), /0.8 times the price there \(1 users, 0 tokens\)/)
      assert.match(notesOf(report, /two_fas/).join(), /1 rows/)
      assert.match(notesOf(report, /^user 9/).join(), /no password/)
    })

    it('carries users, balances to the unit, and what breaks our rules in the form of our rules', async () => {
      await reportOf('--logs', '30')
      const all = await users()
      assert.equal(all.get('alice')?.quota, 1_234_567)
      assert.equal(all.get('bob_smith')?.quota, 0)
      assert.equal(all.get('rich')?.unlimited_quota, true)
      assert.equal(all.get('root-2')?.role, 100)
      assert.equal(all.get('root-2')?.quota, 100_000_000)
      assert.equal(all.get('off')?.status, 2)
      assert.ok(!all.has('gone'))
      assert.ok(all.has('ALICE-2'))
    })

    it('lets clients keep their keys, with and without sk-', async () => {
      const answer = await chat(`sk-${key('a')}`)
      assert.equal(answer.status, 200, answer.text)
      assert.equal((await chat(key('a'))).status, 200)
      assert.equal((await chat(`sk-${key('b')}`)).body.error.code, 'model_not_allowed')
      assert.equal((await chat(`sk-${key('b')}`, 'other-model')).status, 200)
      assert.equal((await chat(`sk-${key('c')}`)).body.error.code, 'model_not_allowed')
      for (const letter of ['d', 'e', 'f', 'g', 'h', 'i'])
        assert.equal((await chat(`sk-${key(letter)}`)).status, 401, letter)
    })

    it('carries channels with keys, models, mapping, priorities, tags, status and overrides', async () => {
      const { body } = await server.api('GET', '/api/channel/?page_size=100')
      const channels = new Map<string, Record<string, unknown>>(
        body.data.items.map((item: { name: string }) => [item.name, item]),
      )
      const first = channels.get('simulated') ?? {}
      assert.deepEqual(first.models, [MODEL, 'other-model'])
      assert.equal(first.priority, 10)
      assert.equal(first.weight, 5)
      assert.equal(first.tag, 'main')
      assert.deepEqual(first.param_override, { temperature: 0.5 })
      assert.deepEqual(Object.keys(first.header_override as object), ['x-extra'])
      assert.deepEqual(first.status_code_mapping, { 429: '503' })
      const several = channels.get('several keys') ?? {}
      assert.equal(several.status, 3)
      assert.equal(several.status_reason, '401 from the provider')
      assert.deepEqual(
        (several.keys as { status: number }[]).map(({ status }) => status),
        [1, 3, 1],
      )
      const proxied = channels.get('behind a proxy')
      assert.equal(proxied?.status, 1)
      assert.deepEqual(proxied?.setting, { proxy: 'socks5://…@10.0.0.1:1080' })
      assert.equal(channels.get('full address')?.base_url, 'https://example.com/models/{model}/chat#')
    })

    it('makes prices of ratios, with the output ratios that new-api fixes', async () => {
      const price = async (model: string) =>
        (await server.api('GET', `/api/price/?model=${model}`)).body.data.items[0]
      assert.deepEqual(
        [(await price(MODEL)).input, (await price(MODEL)).output, (await price(MODEL)).cached_input],
        [1, 3, 1],
      )
      const claude = await price('claude-3-5-sonnet')
      assert.deepEqual(
        [claude.input, claude.output, claude.cached_input, claude.cache_write, claude.cache_write_1h],
        [3, 15, 0.3, 3.75, 6],
      )
      assert.equal((await price('other-model')).per_call, 0.02)
      assert.equal(await price('unused-model'), undefined)
    })

    it('imports usage rows of the requested days', async () => {
      const { body } = await server.api('GET', '/api/log/?username=alice&type=2&page_size=100')
      const rows = body.data.items.filter((row: { other: string }) =>
        /new-api/.test(JSON.stringify(row.other)),
      )
      assert.equal(rows.length, 1)
      assert.equal(rows[0].quota, 250)
    })

    it('accepts imported passwords once as bcrypt, and then as our own hash', async () => {
      assert.equal((await login('alice', 'wrong password')).status, 401)
      const first = await login('alice', 'password of alice')
      assert.equal(first.status, 200, first.text)
      assert.equal(first.body.data.password_change_required, false)
      assert.equal((await login('alice', 'password of alice')).status, 200)
      assert.equal((await login('off', 'password of off')).status, 401)
    })

    it('lets a password that is too short sign in, and requires another one', async () => {
      const reply = await login('kim', '123456')
      assert.equal(reply.body.data.password_change_required, true)
      const cookie = (reply.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
      const asKim = (method: string, path: string, body?: unknown) =>
        server.api(method, path, body, { token: null, headers: { cookie } })
      const refused = await asKim('GET', '/api/token/')
      assert.deepEqual([refused.status, refused.body.code], [403, 'password_change_required'])
      assert.equal((await asKim('GET', '/api/user/self')).body.data.password_change_required, true)
      const changed = await asKim('PUT', '/api/user/self', {
        original_password: '123456',
        password: 'long enough now',
      })
      assert.equal(changed.status, 200, changed.text)
      assert.equal((await login('kim', '123456')).status, 401)
      assert.equal((await login('kim', 'long enough now')).body.data.password_change_required, false)
    })

    it('carries system access tokens', async () => {
      const self = await server.api('GET', '/api/user/self', undefined, { token: SYSTEM_TOKEN })
      assert.equal(self.body.data?.username, 'alice')
    })

    it('changes nothing when it is run again', async () => {
      /** Without what the node has leased: it returns that some seconds after the last request of the user. */
      const usersUnleased = async () =>
        [...(await users()).values()].map(({ held_quota, ...unleased }) => unleased)
      const before = await usersUnleased()
      const report = await reportOf('--logs', '30')
      for (const [area, count] of Object.entries(report.counts)) {
        assert.equal(count.created, 0, area)
        assert.equal(count.changed, 0, area)
      }
      assert.deepEqual(await usersUnleased(), before)
    })

    it('books only the difference of the source since, and leaves what was changed here', async () => {
      const alice = (await users()).get('alice') as { id: number; quota: number }
      const granted = { id: alice.id, action: 'add_quota', mode: 'add', value: 1_000 }
      assert.equal((await server.api('POST', '/api/user/manage', granted)).status, 200)
      const off = (await users()).get('off') as { id: number }
      await server.api('PUT', '/api/user/', { id: off.id, display_name: 'changed here' })
      await changeSource(
        'update users set quota = quota - 567 where id = 2',
        `update users set display_name = 'changed there', email = 'off@example.com' where id = 7`,
        'update tokens set remain_quota = remain_quota + 11, deleted_at = null where id = 1',
        `update tokens set deleted_at = '2026-01-02 03:04:05' where id = 2`,
        'update channels set weight = 77 where id = 1',
      )
      const report = await reportOf()
      assert.equal((await users()).get('alice')?.quota, alice.quota + 1_000 - 567)
      const after = (await users()).get('off') ?? {}
      assert.deepEqual([after.display_name, after.email], ['changed here', 'off@example.com'])
      assert.match(notesOf(report, /^user 7/).join(), /changed here and there: display_name/)
      assert.match(notesOf(report, /^token 2/).join(), /deleted there/)
      assert.equal((await chat(`sk-${key('b')}`, 'other-model')).status, 401)
      const { body } = await server.api('GET', '/api/channel/search?keyword=simulated')
      assert.equal(body.data.items[0].weight, 77)
    })

    it('refuses another database under the same name', async () => {
      await changeSource('update channels set created_time = 5 where id = 1')
      const refused = await importNewApi()
      assert.equal(refused.code, 1)
      assert.match(refused.stderr, /not the database that was imported as "new-api".*--name NAME/s)
    })

    it('refuses one without channels and tokens too, whose users are others', async () => {
      const fresh = join(newDirectory(), 'one-api.db')
      const writer = writeSqlite(fresh)
      await fillSource(writer, NEW_API_TABLES, {
        users: [user(1, 'root', { role: 100, created_at: CREATED + 1_000_000 })],
      })
      await writer.close()
      const { code, stderr } = await runHere(['import', 'new-api', '--from', fresh], {
        env: settingsOf(ground),
      })
      assert.equal(code, 1)
      assert.match(stderr, /not the database that was imported as "new-api" before: user 1 is another one/)
      assert.equal((await users()).get('alice')?.status, 1)
    })

    it('leaves books that verify', async () => {
      const report = await verifyThroughSocket(ground)
      assert.ok(report.ok, report.lines.join('\n'))
    })
  })
