import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { startSimulator } from '../../simulator/server.ts'
import type { ImportReport } from '../../src/domain/import.ts'
import { runHere } from '../support/command.ts'
import { fillLiteLlm, sha256 } from '../support/litellm-source.ts'
import { createDatabase } from '../support/postgres.ts'
import {
  newDirectory,
  newGround,
  run,
  type Server,
  type ServerOptions,
  settingsOf,
  startServer,
  verifyThroughSocket,
} from '../support/process.ts'

const KEYS = {
  alice: 'sk-alice_key-1234567890abcdef',
  team: 'sk-team-key-1234567890abcdefgh',
  blocked: 'sk-blocked-key-1234567890abcd',
  none: 'sk-key-of-nobody-1234567890ab',
  wide: 'sk-wide-key-of-a-team-12345678',
  pattern: 'sk-pattern-key-of-a-team-1234',
  limitedUser: 'sk-key-of-a-limited-user-123',
  grouped: 'sk-key-of-an-access-group-12',
  management: 'sk-key-for-management-only',
  routes: 'sk-key-for-some-routes-1234',
  zero: 'sk-key-with-a-limit-of-zero-1',
  zeroBudget: 'sk-key-with-a-budget-of-zero',
  master: 'sk-master-1234567890',
}
const PROVIDER_KEY = 'provider-key-from-the-environment'

const configFor = (upstream: string) => `
include:
  - more.yaml
model_list:
  - model_name: chat
    litellm_params: {model: openai/sim-words-4, api_base: ${upstream}/v1, api_key: os.environ/PROVIDER_KEY, rpm: 1000}
    model_info: {input_cost_per_token: 0.0000025, output_cost_per_token: 0.00001}
  - model_name: chat-two
    litellm_params: {model: openai/sim-words-9, api_base: ${upstream}/v1, api_key: os.environ/PROVIDER_KEY, rpm: 1000}
    model_info: {input_cost_per_token: 1.0e-06, output_cost_per_token: 2.0e-06, access_groups: [beta, gamma]}
  - model_name: chat
    litellm_params: {model: azure/my-deployment, api_base: "https://x.openai.azure.com", api_key: azure-key, api_version: "2024-10-21", order: 2}
  - model_name: claude
    litellm_params: {model: claude-sonnet-4-5, api_key: os.environ/NOT_SET}
  - model_name: "anything/*"
    litellm_params: {model: "openai/*", api_key: k}
  - model_name: odd
    litellm_params: {model: watsonx/granite, api_key: k}
router_settings:
  routing_strategy: latency-based-routing
  model_group_alias: {gpt-4: chat}
  fallbacks: [{chat: [claude]}]
general_settings:
  master_key: ${KEYS.master}
`

const CONTENT = {
  LiteLLM_BudgetTable: [
    { budget_id: 'b1', max_budget: 3, rpm_limit: 7 },
    { budget_id: 'b2', tpm_limit: 0 },
  ],
  LiteLLM_UserTable: [
    {
      user_id: 'u1',
      user_email: 'alice@example.com',
      user_role: 'internal_user',
      max_budget: 10,
      spend: 2.5,
      created_at: '2026-01-02 03:04:05',
    },
    { user_id: 'u2', user_email: null, user_alias: 'the admin', user_role: 'proxy_admin', max_budget: null },
    { user_id: 'u3', user_alias: 'limited', max_budget: null, models: ['chat*o'] },
  ],
  LiteLLM_TeamTable: [
    {
      team_id: 't1',
      team_alias: 'research',
      max_budget: 100,
      spend: 101,
      models: ['chat-two'],
      budget_duration: '30d',
    },
  ],
  LiteLLM_VerificationToken: [
    {
      ...{ token: sha256(KEYS.alice), key_name: 'sk-...cdef', key_alias: 'alices app', user_id: 'u1' },
      ...{ max_budget: 5, spend: 1.25, models: ['chat'], rpm_limit: 60 },
    },
    {
      token: sha256(KEYS.team),
      key_name: 'sk-...efgh',
      team_id: 't1',
      user_id: 'u1',
      models: ['all-team-models'],
    },
    { token: sha256(KEYS.wide), team_id: 't1', models: ['all-proxy-models'] },
    { token: sha256(KEYS.pattern), team_id: 't1', models: ['chat*', 'included'] },
    { token: sha256(KEYS.limitedUser), user_id: 'u3', models: ['chat', 'chat-two'] },
    { token: sha256(KEYS.blocked), key_name: 'sk-...abcd', blocked: true, models: [] },
    { token: sha256(KEYS.none), key_name: 'sk-...90ab', models: [], budget_id: 'b1' },
    { token: sha256(KEYS.grouped), key_name: 'sk-...p-12', key_alias: 'grouped', models: ['beta'] },
    { token: sha256(KEYS.zero), key_name: 'sk-...ro-1', key_alias: 'zero', models: [], rpm_limit: 0 },
    {
      token: sha256(KEYS.zeroBudget),
      key_name: 'sk-...zero',
      key_alias: 'zero budget',
      models: [],
      budget_id: 'b2',
    },
    {
      ...{ token: sha256(KEYS.management), key_name: 'sk-...only', key_alias: 'manager' },
      allowed_routes: ['management_routes'],
    },
    {
      ...{ token: sha256(KEYS.routes), key_name: 'sk-...1234', key_alias: 'routes' },
      ...{ allowed_routes: ['/v1/chat/completions'], model_max_budget: { chat: { budget_limit: 1 } } },
      metadata: { model_rpm_limit: { chat: 3 } },
    },
    { token: 'not a hash', key_name: 'sk-...' },
  ],
  LiteLLM_EndUserTable: [{ user_id: 'customer', blocked: true }],
  LiteLLM_ProxyModelTable: [
    { model_id: 'm1', model_name: 'from-console', litellm_params: { api_key: 'encrypted' } },
  ],
}

describe('sluice import litellm (docs/moving/litellm.md)', () => {
  let ground: ServerOptions
  let server: Server
  let simulator: Awaited<ReturnType<typeof startSimulator>>
  let database: Awaited<ReturnType<typeof createDatabase>>
  let config: string

  async function importLiteLlm(...words: string[]): Promise<ImportReport> {
    const env = { ...settingsOf(ground), PROVIDER_KEY, LITELLM_DATABASE: database.url }
    const args = ['import', 'litellm', '--config', config, '--database', 'env:LITELLM_DATABASE', '--json']
    const { code, stdout, stderr } = await runHere([...args, ...words], { env })
    assert.equal(code, 0, stderr)
    for (const secret of [...Object.values(KEYS), PROVIDER_KEY, 'azure-key', 'encrypted'])
      if (secret !== 'encrypted') assert.ok(!stdout.includes(secret), `${secret} is printed`)
    return JSON.parse(stdout)
  }
  const chat = (token: string, model: string) =>
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

  before(async () => {
    ground = await newGround('sqlite')
    simulator = await startSimulator()
    database = await createDatabase()
    await fillLiteLlm(database.url, CONTENT)
    const folder = newDirectory()
    config = join(folder, 'config.yaml')
    writeFileSync(config, configFor(simulator.url))
    writeFileSync(
      join(folder, 'more.yaml'),
      'model_list:\n  - model_name: included\n    litellm_params: {model: groq/llama-3, api_key: groq-key}\n',
    )
    server = await startServer(ground)
  })
  after(async () => {
    await server?.stop()
    await simulator?.close()
    await database?.drop()
  })

  it('reports in a dry run what cannot be carried over, and writes nothing', async () => {
    const report = await importLiteLlm('--dry-run')
    const notes = report.notes.map(({ subject, message }) => `${subject}: ${message}`).join('\n')
    assert.match(notes, /"anything\/\*" is a wildcard/)
    assert.match(notes, /provider "watsonx" of "odd" has no counterpart/)
    assert.match(notes, /environment variable NOT_SET with its key is not set/)
    assert.match(notes, /routing_strategy: is "latency-based-routing"/)
    assert.match(notes, /fallbacks: are not carried over/)
    assert.match(notes, /team "research": its budget is renewed every 30d/)
    assert.match(notes, /model "from-console": is stored encrypted/)
    assert.match(notes, /its hash is not a SHA-256/)
    assert.match(notes, /key "grouped": allows the access group "beta"/)
    assert.match(notes, /table LiteLLM_EndUserTable: has rows that are not carried over: customers/)
    assert.match(notes, /key "manager": may call no model there; it becomes disabled/)
    assert.match(notes, /key "routes": may use only some routes there \(\/v1\/chat\/completions\)/)
    assert.match(notes, /key "routes": its budgets of single models are not carried over/)
    assert.match(notes, /key "routes": its rate limits of single models are not carried over/)
    assert.match(notes, /key "zero": its rpm_limit is 0.*becomes disabled/)
    assert.match(notes, /key "zero budget": its tpm_limit is 0.*becomes disabled/)
    assert.deepEqual([...(await users()).keys()], ['root'])
  })

  it('makes channels of deployments, which share one if only their models differ', async () => {
    await importLiteLlm()
    const { body } = await server.api('GET', '/api/channel/?page_size=100&id_sort=true')
    const channels = body.data.items.map((item: Record<string, unknown>) => [
      item.name,
      item.type,
      item.models,
      item.model_mapping,
      item.priority,
    ])
    assert.deepEqual(channels.reverse(), [
      ['openai', 8, ['chat', 'chat-two'], { chat: 'sim-words-4', 'chat-two': 'sim-words-9' }, 0],
      ['azure', 3, ['chat'], { chat: 'my-deployment' }, -2],
      ['groq', 1001, ['included'], { included: 'llama-3' }, 0],
    ])
    const price = (await server.api('GET', '/api/price/?model=chat')).body.data.items[0]
    assert.deepEqual([price.input, price.output], [2.5, 10])
    const alias = (await server.api('GET', '/api/alias/')).body.data.items[0]
    assert.deepEqual([alias.name, alias.target], ['gpt-4', 'chat'])
  })

  it('accepts keys of which only the SHA-256 is known', async () => {
    const answer = await chat(KEYS.alice, 'chat')
    assert.equal(answer.status, 200, answer.text)
    assert.equal((await chat(KEYS.alice, 'chat-two')).body.error.code, 'model_not_allowed')
    assert.equal((await chat(KEYS.none, 'gpt-4')).status, 200)
    assert.equal((await chat(KEYS.master, 'chat-two')).status, 200)
    for (const key of [KEYS.blocked, KEYS.zero, KEYS.zeroBudget, KEYS.management])
      assert.equal((await chat(key, 'chat')).status, 401)
    // The budget of the team is spent.
    assert.equal((await chat(KEYS.team, 'chat-two')).body.error.code, 'insufficient_quota')
    assert.equal((await chat(sha256(KEYS.alice), 'chat')).status, 401)
    assert.equal((await chat(`sha256:${sha256(KEYS.alice)}`, 'chat')).status, 401)
    assert.equal((await chat(`sk-${sha256(KEYS.alice)}`, 'chat')).status, 401)
    const usage = await server.api('GET', '/api/usage/token/', undefined, { token: KEYS.alice })
    assert.equal(usage.status, 200, usage.text)
  })

  it('allows a key no model that its team or user is not allowed', async () => {
    const codeOf = async (key: string, model: string) => (await chat(key, model)).body.error?.code
    // The budget of the team is spent, so an allowed model is refused for that.
    for (const key of [KEYS.wide, KEYS.pattern]) {
      assert.equal(await codeOf(key, 'chat-two'), 'insufficient_quota')
      for (const model of ['chat', 'included']) assert.equal(await codeOf(key, model), 'model_not_allowed')
    }
    assert.equal((await chat(KEYS.limitedUser, 'chat-two')).status, 200)
    assert.equal(await codeOf(KEYS.limitedUser, 'chat'), 'model_not_allowed')
  })

  it('allows a key the models of its access group', async () => {
    const answer = await chat(KEYS.grouped, 'chat-two')
    assert.equal(answer.status, 200, answer.text)
    assert.equal((await chat(KEYS.grouped, 'chat')).body.error.code, 'model_not_allowed')
  })

  it('carries what is left of budgets, and limits', async () => {
    const all = await users()
    assert.equal((all.get('alice@example.com')?.quota as number) <= 3_750_000, true)
    assert.equal((all.get('alice@example.com')?.quota as number) > 3_700_000, true)
    assert.equal(all.get('the_admin')?.role, 10)
    assert.equal(all.get('the_admin')?.unlimited_quota, true)
    assert.equal(all.get('team-research')?.quota, 0)
    assert.equal(all.get('litellm')?.unlimited_quota, true)
  })

  it('cannot reveal such a key, and says why', async () => {
    const alice = (await users()).get('alice@example.com') as { id: number }
    await server.api('PUT', '/api/user/', { id: alice.id, password: 'password of alice' })
    const login = await server.api(
      'POST',
      '/api/user/login',
      { username: 'alice@example.com', password: 'password of alice' },
      { token: null },
    )
    const cookie = (login.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
    const asAlice = (method: string, path: string) =>
      server.api(method, path, undefined, { token: null, headers: { cookie } })
    const [token] = (await asAlice('GET', '/api/token/')).body.data.items
    assert.deepEqual([token.name, token.key, token.limits.rpm], ['alices app', 'sk-…cdef', 60])
    const reveal = await asAlice('POST', `/api/token/${token.id}/key`)
    assert.deepEqual([reveal.status, reveal.body.code], [409, 'conflict'])
    assert.match(reveal.body.message, /only its hash was imported/)
  })

  it('changes nothing when it is run again, and leaves books that verify', async () => {
    const report = await importLiteLlm()
    for (const [area, count] of Object.entries(report.counts))
      assert.deepEqual([count.created, count.changed], [0, 0], area)
    const verified = await verifyThroughSocket(ground)
    assert.ok(verified.ok, verified.lines.join('\n'))
  })

  it('of the configuration alone leaves the users and keys of the database as they are', async () => {
    const env = { ...settingsOf(ground), PROVIDER_KEY }
    const { code, stdout, stderr } = await runHere(['import', 'litellm', '--config', config, '--json'], {
      env,
    })
    assert.equal(code, 0, stderr)
    const { counts } = JSON.parse(stdout) as ImportReport
    assert.deepEqual([counts.users?.changed, counts.tokens?.changed], [0, 0])
    assert.equal((await chat(KEYS.alice, 'chat')).status, 200)
  })

  describe('with a provider key that was rotated there', () => {
    type Channel = { id: number; name: string; status: number; models: string[] }
    const channels = async (): Promise<Channel[]> =>
      (await server.api('GET', '/api/channel/?page_size=100&id_sort=true')).body.data.items.toReversed()
    const keyOf = async ({ id }: Channel) =>
      (await server.api('GET', `/api/channel/${id}`)).body.data.keys.map(({ key }: { key: string }) => key)
    const importConfig = async (text: string, variables: Record<string, string> = {}) => {
      const file = join(newDirectory(), 'config.yaml')
      writeFileSync(file, text)
      const env = { ...settingsOf(ground), ...variables }
      const args = ['import', 'litellm', '--config', file, '--name', 'rotated', '--json']
      const { code, stdout, stderr } = await runHere(args, { env })
      assert.equal(code, 0, stderr)
      return JSON.parse(stdout) as ImportReport
    }
    const entry = (name: string, model: string, key: string) =>
      `  - model_name: ${name}\n    litellm_params: {model: ${model}, api_key: ${key}}\n`
    const ofTag = async (model: string) => (await channels()).filter(({ models }) => models.includes(model))

    it('replaces the key of its channel', async () => {
      const configWith = (xai: string, first: string, second: string) =>
        `model_list:\n${entry('rot-x', 'xai/grok', xai)}${entry('rot-a', 'groq/a', first)}${entry('rot-b', 'groq/b', second)}`
      const created = await importConfig(configWith('key-old-1111', 'key-old-2222', 'key-old-3333'))
      assert.equal(created.counts.channels?.created, 3)
      const before = await channels()
      const report = await importConfig(configWith('key-new-4444', 'key-new-5555', 'key-new-6666'))
      assert.deepEqual(report.counts.channels, { created: 0, changed: 3, unchanged: 0, skipped: 0 })
      const after = await channels()
      assert.deepEqual(
        after.map(({ id, name }) => [id, name]),
        before.map(({ id, name }) => [id, name]),
      )
      const hints = await Promise.all(
        ['rot-x', 'rot-a', 'rot-b'].map(async model => keyOf((await ofTag(model))[0] as Channel)),
      )
      assert.match(JSON.stringify(hints), /…4.*…5.*…6/)
      assert.ok(!report.notes.some(({ message }) => message.includes('no longer there')))
      const again = await importConfig(configWith('key-new-4444', 'key-new-5555', 'key-new-6666'))
      assert.deepEqual(again.counts.channels, { created: 0, changed: 0, unchanged: 3, skipped: 0 })
    })

    it('creates a channel if its models are others too', async () => {
      const list = (...keys: string[]) =>
        `model_list:\n${keys.map((key, index) => entry(`unsure-${key}`, `cerebras/m${index}`, key)).join('')}`
      await importConfig(list('key-aaaa1', 'key-bbbb2'))
      const report = await importConfig(list('key-cccc3', 'key-dddd4', 'key-eeee5'))
      assert.equal(report.counts.channels?.created, 3)
      assert.equal((await ofTag('unsure-key-aaaa1')).length, 1)
    })

    it('leaves the channel as it is while the variable of the key is not set', async () => {
      const local = `model_list:\n  - model_name: local
    litellm_params: {model: ollama/l, api_base: "https://ollama.example.com", api_key: os.environ/OLLAMA_KEY}\n`
      await importConfig(local, { OLLAMA_KEY: 'key-ollama-7777' })
      const report = await importConfig(local)
      assert.match(JSON.stringify(report.notes), /OLLAMA_KEY with its key is not set/)
      assert.match(JSON.stringify(report.notes), /its key is not known; the channel \d+ stays as it is/)
      const [channel, ...others] = await ofTag('local')
      assert.deepEqual(others, [])
      assert.match(JSON.stringify(await keyOf(channel as Channel)), /…77/)
      await importConfig(local, { OLLAMA_KEY: 'key-ollama-8888' })
      assert.match(JSON.stringify(await keyOf((await ofTag('local'))[0] as Channel)), /…88/)
      assert.equal((await ofTag('local')).length, 1)
    })
  })

  it('keeps its tokens when the master secret is rotated', async () => {
    const rotated = await runHere(['admin', 'rotate-secret'], { env: settingsOf(ground) })
    assert.equal(rotated.code, 0, rotated.stderr)
    assert.equal((await chat(KEYS.alice, 'chat')).status, 200)
  })

  it('reads the service accounts that vertex_credentials names, and no other file', async () => {
    const folder = newDirectory()
    const account = JSON.stringify({ type: 'service_account', project_id: 'p', private_key: 'a-private-key' })
    writeFileSync(join(folder, 'account.json'), account)
    writeFileSync(join(folder, 'other.json'), '{"secret":"a-secret-of-another-file"}')
    const entry = (name: string, file: string) =>
      `  - model_name: ${name}\n    litellm_params: {model: vertex_ai/gemini-${name}, vertex_credentials: ${join(folder, file)}, vertex_location: ${name}}\n`
    const path = join(folder, 'config.yaml')
    writeFileSync(
      path,
      `model_list:\n${entry('one', 'account.json')}${entry('two', 'other.json')}${entry('three', 'missing.json')}`,
    )
    const { code, stdout, stderr } = await runHere(
      ['import', 'litellm', '--config', path, '--name', 'vertex', '--json'],
      { env: settingsOf(ground) },
    )
    assert.equal(code, 0, stderr)
    assert.doesNotMatch(stdout, /a-private-key|a-secret-of/)
    const { items } = (await server.api('GET', '/api/channel/?type=41')).body.data
    assert.deepEqual(
      items.map(({ models }: { models: string[] }) => models),
      [['one']],
    )
    assert.equal((await server.api('POST', `/api/channel/${items[0].id}/key`)).body.data.key, account)
    const notes = (JSON.parse(stdout) as ImportReport).notes.map(({ message }) => message)
    for (const file of ['other.json', 'missing.json'])
      assert.ok(
        notes.some(note =>
          note.includes(`${file} with its key cannot be read, or is no file of a service account`),
        ),
      )
  })

  it('names the line of a file that is no YAML, without its text', async () => {
    const broken = join(newDirectory(), 'broken.yaml')
    writeFileSync(broken, 'model_list:\n  - {api_key: secret-in-yaml\n')
    const { code, stderr } = await run(['import', 'litellm', '--config', broken], { env: settingsOf(ground) })
    assert.equal(code, 1)
    assert.match(stderr, /is no valid YAML/)
    assert.doesNotMatch(stderr, /secret-in-yaml/)
  })

  describe('with another database under the same name', () => {
    const OTHER_KEY = 'sk-key-of-another-database-12'
    const importOther = async (content: Readonly<Record<string, readonly Record<string, unknown>[]>>) => {
      const other = await createDatabase()
      try {
        await fillLiteLlm(other.url, content)
        const env = { ...settingsOf(ground), PROVIDER_KEY, OTHER_DATABASE: other.url }
        const args = ['import', 'litellm', '--config', config, '--database', 'env:OTHER_DATABASE', '--json']
        return await runHere(args, { env })
      } finally {
        await other.drop()
      }
    }
    const mustRefuse = async (content: Parameters<typeof importOther>[0]) => {
      const { code, stderr } = await importOther(content)
      assert.equal(code, 1)
      assert.match(stderr, /not the database that was imported as "litellm" before.*--name NAME/s)
      assert.equal((await chat(KEYS.alice, 'chat')).status, 200)
      assert.equal((await users()).has('bob'), false)
    }

    it('is refused, and disables no user or key', () =>
      mustRefuse({
        LiteLLM_UserTable: [{ user_id: 'u9', user_alias: 'bob' }],
        LiteLLM_VerificationToken: [{ token: sha256(OTHER_KEY), user_id: 'u9' }],
      }))

    it('is refused if a user has the same ID there, but was created at another time', () =>
      mustRefuse({
        LiteLLM_UserTable: [{ user_id: 'u1', user_alias: 'bob', created_at: '2020-01-02 03:04:05' }],
        LiteLLM_VerificationToken: [{ token: sha256(OTHER_KEY), user_id: 'u1' }],
      }))

    it('is refused if only the user of the console has the same ID, as in every database', () =>
      mustRefuse({
        LiteLLM_UserTable: [{ user_id: 'default_user_id', user_alias: 'bob', created_at: null }],
        LiteLLM_VerificationToken: [{ token: sha256(OTHER_KEY) }],
      }))

    it('is imported under a name of its own', async () => {
      const other = await createDatabase()
      await fillLiteLlm(other.url, { LiteLLM_UserTable: [{ user_id: 'u9', user_alias: 'carol' }] })
      const env = { ...settingsOf(ground), PROVIDER_KEY, OTHER_DATABASE: other.url }
      const args = [
        'import',
        'litellm',
        '--config',
        config,
        '--database',
        'env:OTHER_DATABASE',
        '--name',
        'b',
      ]
      const { code, stderr } = await runHere(args, { env })
      await other.drop()
      assert.equal(code, 0, stderr)
      assert.equal((await users()).get('carol')?.status, 1)
      assert.equal((await users()).get('alice@example.com')?.status, 1)
    })

    it('is not suspected if users and keys of the same database are new or were deleted', async () => {
      const { code, stderr } = await importOther({
        LiteLLM_UserTable: [...CONTENT.LiteLLM_UserTable.slice(0, 1), { user_id: 'u5', user_alias: 'dora' }],
        LiteLLM_VerificationToken: [{ token: sha256(OTHER_KEY), user_id: 'u1' }],
      })
      assert.equal(code, 0, stderr)
      assert.equal((await chat(KEYS.alice, 'chat')).status, 401)
      assert.equal((await chat(OTHER_KEY, 'chat')).status, 200)
    })

    it('leaves restored users and keys disabled, with a note', async () => {
      const notesOf = ({ notes }: ImportReport) =>
        notes.filter(({ message }) => message.includes('is there again')).map(({ subject }) => subject)
      const expected = ['user "the admin"', 'user "limited"', 'team "research"', 'key "alices app"']
      for (const words of [['--dry-run'], []]) {
        const subjects = notesOf(await importLiteLlm(...words))
        for (const subject of expected) assert.ok(subjects.includes(subject), subjects.join())
        // The owner of keys was never deleted.
        assert.ok(!subjects.includes('user "alice@example.com"'))
      }
      assert.equal((await chat(KEYS.alice, 'chat')).status, 401)
      assert.equal((await users()).get('limited')?.status, 2)
      assert.deepEqual(notesOf(await importLiteLlm()), [])
    })
  })
})
