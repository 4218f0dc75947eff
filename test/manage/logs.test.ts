import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { sql } from 'kysely'
import type { NewLog } from '../../src/store/engine/schema.ts'
import { insertLog, LOG_TYPE } from '../../src/store/usage/logs.ts'
import { ENGINES, type Gateway, suiteGateway } from '../support/gateway.ts'

const nowS = () => Math.floor(Date.now() / 1000)
const DAY_S = 86_400

type Person = Awaited<ReturnType<Gateway['createUser']>>
type Row = Readonly<Record<string, unknown>> & { readonly id: number; readonly quota: number }

/** The fields of a row that clients read (reference 5.4, 13.1). */
const READ_OF_ROW = {
  id: 'number',
  user_id: 'number',
  created_at: 'number',
  type: 'number',
  content: 'string',
  username: 'string',
  token_name: 'string',
  model_name: 'string',
  quota: 'number',
  cost: 'string',
  prompt_tokens: 'number',
  completion_tokens: 'number',
  use_time: 'number',
  is_stream: 'boolean',
  channel: 'number',
  channel_name: 'string',
  token_id: 'number',
  group: 'string',
  ip: 'string',
  request_id: 'string',
  upstream_request_id: 'string',
  other: 'string',
} as const

for (const engine of ENGINES) {
  describe(`the log on ${engine} (docs/reference/management-api.md: Log objects)`, () => {
    const gateway = suiteGateway({ engine })

    let tokens = 1_000
    /** The id of the token with this name; records the name, as creating or renaming a token does. */
    async function tokenNamed(person: Person, name: string): Promise<number> {
      const row = await gateway.db
        .selectFrom('token_names')
        .select('token_id')
        .where('name', '=', name)
        .where('user_id', '=', person.id)
        .executeTakeFirst()
      const id = row?.token_id ?? ++tokens
      if (!row)
        await gateway.db
          .insertInto('token_names')
          .values({ token_id: id, name, user_id: person.id })
          .execute()
      return id
    }

    /** A row, and for a request the quarter hour that it belongs to, as the ledger writes both. */
    async function write(person: Person, fields: Partial<NewLog> = {}): Promise<void> {
      const token_id =
        fields.token_id ?? (fields.token_name ? await tokenNamed(person, fields.token_name) : 0)
      const row = {
        created_time: nowS() - DAY_S,
        type: LOG_TYPE.consume,
        user_id: person.id,
        ...fields,
        token_id,
      }
      await insertLog(gateway.db, row)
      if (row.type !== LOG_TYPE.consume && row.type !== LOG_TYPE.error) return
      const { prompt_tokens = 0, completion_tokens = 0, cost = 0 } = row
      await gateway.db
        .insertInto('rollups')
        .values({
          bucket: row.created_time - (row.created_time % 900),
          user_id: row.user_id,
          token_id: row.token_id ?? 0,
          channel_id: row.channel_id ?? 0,
          model: row.model_name ?? '',
          requests: 1,
          failures: row.type === LOG_TYPE.error ? 1 : 0,
          prompt_tokens,
          completion_tokens,
          cost,
        })
        .onConflict(conflict =>
          conflict.columns(['bucket', 'user_id', 'token_id', 'channel_id', 'model']).doUpdateSet(of => ({
            requests: of('rollups.requests', '+', 1),
            cost: of('rollups.cost', '+', cost),
          })),
        )
        .execute()
      await gateway.db.deleteFrom('rollup_folds').execute()
    }
    const get = (path: string, person?: Person) =>
      gateway.api('GET', path, undefined, person ? { token: person.accessToken } : {})
    const data = async (path: string, person?: Person) => {
      const { status, body, text } = await get(path, person)
      assert.equal(status, 200, text)
      return body.data
    }
    const contents = async (path: string, person?: Person) =>
      (await data(path, person)).items.map((row: Row) => row.content)

    it('shows users their own rows, and administrators all rows', async () => {
      const alice = await gateway.createUser()
      const bob = await gateway.createUser()
      const admin = await gateway.createUser({ role: 10 })
      await write(alice, { content: 'of alice' })
      await write(bob, { content: 'of bob' })
      assert.deepEqual(await contents('/api/log/self', alice), ['of alice'])
      assert.deepEqual(await contents('/api/log/self', bob), ['of bob'])
      assert.deepEqual(await contents('/api/log/self', admin), [])
      const all = await contents('/api/log/?page_size=500', admin)
      assert.ok(all.includes('of alice') && all.includes('of bob'))
      for (const path of ['/api/log/', '/api/log/stat']) {
        assert.equal((await get(path, alice)).status, 403)
        assert.equal((await gateway.api('GET', path, undefined, { token: null })).status, 401)
      }
      // Filters do not widen what a user sees.
      assert.deepEqual(await contents(`/api/log/self?username=${bob.username}&user_id=${bob.id}`, alice), [
        'of alice',
      ])
    })

    it('returns a row with the fields that clients read', async () => {
      const person = await gateway.createUser()
      await write(person, {
        token_id: 4,
        token_name: 'k',
        model_name: 'gpt-4o',
        cost: 2_001,
        prompt_tokens: 10,
        completion_tokens: 20,
        use_time_ms: 2_600,
        is_stream: 1,
        channel_id: 7,
        address: '203.0.113.9',
        request_id: 'req_1',
        upstream_request_id: 'up_1',
      })
      const page = await data('/api/log/self', person)
      assert.equal(typeof page.total, 'number')
      const [row] = page.items
      for (const [name, type] of Object.entries(READ_OF_ROW)) assert.equal(typeof row[name], type, name)
      assert.equal(row.username, person.username)
      assert.equal(row.quota, 2)
      assert.equal(row.cost, '0.000002001')
      assert.equal(row.use_time, 3)
      assert.equal(row.is_stream, true)
      assert.equal(row.channel, 7)
      assert.equal(row.upstream_request_id, 'up_1')
      assert.deepEqual(JSON.parse(row.other), {})
    })

    it('names the channel and how a request was routed to administrators only', async () => {
      const person = await gateway.createUser()
      const admin = await gateway.createUser({ role: 10 })
      const { id } = await gateway.db
        .insertInto('channels')
        .values({
          name: 'secret supplier',
          type: 1,
          base_url: '',
          models: '[]',
          model_mapping: '{}',
          priority: 0,
          weight: 0,
          status: 1,
          status_reason: '',
          tag: null,
          channel_group: 'default',
          search: '',
          created_time: 0,
          test_time: 0,
          response_time: 0,
          used: 0,
          auto_ban: 1,
          test_model: '',
          param_override: '{}',
          header_override: '{}',
          status_code_mapping: '{}',
          setting: '{}',
          openai_organization: '',
          other: '',
          remark: '',
          limits: '{}',
          is_multi: 0,
        })
        .returning('id')
        .executeTakeFirstOrThrow()
      const trace = {
        attempts: [
          { channel: 3, status: 401, ms: 40 },
          { channel: id, status: 200, ms: 80 },
        ],
        passed_over: [{ channel: 5, reason: 'resting' }],
      }
      const other = JSON.stringify({ frt: 120, admin_info: { use_channel: ['3'] }, trace })
      await write(person, { channel_id: id, other })
      const [own] = (await data('/api/log/self', person)).items
      assert.equal(own.channel, id)
      assert.equal(own.channel_name, '')
      assert.deepEqual(JSON.parse(own.other), { frt: 120, trace: { attempts: [{ ms: 40 }, { ms: 80 }] } })
      const [adminRow] = (await data(`/api/log/?username=${person.username}`, admin)).items
      assert.equal(adminRow.channel_name, 'secret supplier')
      assert.deepEqual(JSON.parse(adminRow.other), JSON.parse(other))
      // Both see it under the same id.
      assert.equal(adminRow.id, own.id)
    })

    it('is paged, newest first by time', async () => {
      const person = await gateway.createUser()
      const start = nowS() - DAY_S
      for (const [content, offset] of [
        ['second', 2],
        ['first', 1],
        ['third', 3],
        ['also third', 3],
      ] as const)
        await write(person, { content, created_time: start + offset })
      assert.deepEqual(await contents('/api/log/self?page_size=3', person), ['also third', 'third', 'second'])
      const last = await data('/api/log/self?p=2&page_size=3', person)
      assert.deepEqual([last.page, last.page_size, last.total], [2, 3, 4])
      assert.deepEqual(
        last.items.map((row: Row) => row.content),
        ['first'],
      )
      assert.deepEqual(await contents('/api/log/self?p=900000000&page_size=500', person), [])
    })

    it('can be filtered by every field that identifies a row', async () => {
      const person = await gateway.createUser()
      const start = nowS() - DAY_S
      const rows = [
        {
          content: 'a',
          type: 2,
          token_name: 'one',
          model_name: 'gpt-4o',
          channel_id: 5,
          request_id: 'req_a',
        },
        {
          content: 'b',
          type: 2,
          token_name: 'two',
          model_name: 'gpt-4o',
          channel_id: 6,
          request_id: 'req_b',
        },
        { content: 'c', type: 6, token_name: 'one', model_name: 'o3', channel_id: 5, request_id: 'req_c' },
        { content: 'd', type: 1, token_name: '', model_name: '', channel_id: 0, request_id: '' },
      ]
      for (const [index, row] of rows.entries()) await write(person, { ...row, created_time: start + index })
      const name = person.username
      const cases: readonly (readonly [string, string])[] = [
        ['type=2', 'ba'],
        ['type=6', 'c'],
        ['type=1', 'd'],
        ['type=5', ''],
        ['type=0', 'dcba'],
        ['token_name=one', 'ca'],
        ['model_name=gpt-4o', 'ba'],
        ['model_name=GPT-4o', ''],
        ['model_name=gpt', ''],
        ['request_id=req_b', 'b'],
        [`start_timestamp=${start + 1}`, 'dcb'],
        [`end_timestamp=${start + 1}`, 'ba'],
        [`start_timestamp=${start + 1}&end_timestamp=${start + 2}`, 'cb'],
        ['token_name=one&model_name=gpt-4o&type=2', 'a'],
        ['group=default', 'dcba'],
        ['group=vip', ''],
        ['type=&start_timestamp=&end_timestamp=&token_name=&model_name=&group=&request_id=', 'dcba'],
      ]
      for (const [query, expected] of cases) {
        const own = await data(`/api/log/self?${query}`, person)
        assert.equal(own.items.map((row: Row) => row.content).join(''), expected, query)
        assert.equal(own.total, expected.length, query)
        const adminContents = await contents(`/api/log/?username=${name}&${query}`)
        assert.equal(adminContents.join(''), expected, `admin ${query}`)
      }
      assert.equal((await contents(`/api/log/?username=${name}&channel=5`)).join(''), 'ca')
      assert.equal(
        (await contents(`/api/log/?username=${name.toUpperCase()}&channel=&type=2`)).join(''),
        'ba',
      )
      assert.equal((await data('/api/log/?username=nobody-of-that-name')).total, 0)
    })

    it('reads % as a wildcard, and every other character literally', async () => {
      const person = await gateway.createUser({ username: 'Pat_Tern' })
      for (const model_name of ['gpt-4o', 'gpt-4o-mini', 'GPT_4', 'o3', 'back\\slash'])
        await write(person, { model_name, token_name: `for ${model_name}`, content: model_name })
      const findContents = async (query: string) =>
        (await contents(`/api/log/self?${query}`, person)).toSorted()
      assert.deepEqual(await findContents('model_name=gpt-4o%25'), ['gpt-4o', 'gpt-4o-mini'])
      assert.deepEqual(await findContents('model_name=%25mini'), ['gpt-4o-mini'])
      assert.deepEqual(await findContents('model_name=G%254O'), ['gpt-4o'])
      assert.deepEqual(await findContents('model_name=gpt_4%25'), ['GPT_4'])
      assert.deepEqual(await findContents('model_name=gpt_4o'), [])
      assert.deepEqual(await findContents(`model_name=${encodeURIComponent('%\\s%')}`), ['back\\slash'])
      assert.deepEqual(await findContents('token_name=for%25&model_name=%25o3'), ['o3'])
      const adminContents = await contents('/api/log/?username=pat_%25&model_name=o%25')
      assert.deepEqual(adminContents, ['o3'])
      assert.deepEqual(await contents('/api/log/?username=patt%25'), [])
    })

    it('refuses patterns that are too expensive, by field', async () => {
      const long = encodeURIComponent(`%${'a'.repeat(64)}`)
      const many = encodeURIComponent('%a%b%c%d%e%')
      for (const query of [`model_name=${long}`, `token_name=${many}`, `username=${long}`]) {
        const { status, body } = await get(`/api/log/?${query}`)
        assert.equal(status, 400, query)
        assert.equal(body.errors[0].path, query.split('=')[0])
      }
      for (const query of ['type=x', 'start_timestamp=yesterday', 'channel=1.5'])
        assert.equal((await get(`/api/log/?${query}`)).status, 400, query)
      // Without % a long text is only a name that does not exist.
      assert.equal((await data(`/api/log/?model_name=${'a'.repeat(200)}`)).total, 0)
    })

    it('sums cost exactly and rounds up once', async () => {
      const person = await gateway.createUser()
      for (let n = 0; n < 3; n++) await write(person, { cost: 1, model_name: 'tiny' })
      assert.equal((await data('/api/log/self/stat', person)).quota, 1)
      const rows: Row[] = (await data('/api/log/self', person)).items
      assert.deepEqual(
        rows.map(row => row.quota),
        [1, 1, 1],
      )
      await write(person, { cost: 1_997, model_name: 'rest' })
      assert.equal((await data('/api/log/self/stat', person)).quota, 1)
      await write(person, { cost: 1, model_name: 'rest' })
      assert.equal((await data('/api/log/self/stat', person)).quota, 2)
      assert.equal((await data('/api/log/self/stat?model_name=tiny', person)).quota, 1)
      assert.equal((await data(`/api/log/stat?username=${person.username}&model_name=re%25`)).quota, 1)
    })

    it('sums beyond what one number can hold in nanodollars', async () => {
      const person = await gateway.createUser()
      for (let n = 0; n < 3; n++) await write(person, { cost: 8_000_000_000_000_001 })
      assert.equal((await data('/api/log/self/stat', person)).quota, 12_000_000_000_001)
    })

    it('sums requests only, by the same filters as the list', async () => {
      const person = await gateway.createUser()
      const start = nowS() - DAY_S
      await write(person, { cost: 2_000, token_name: 'one', created_time: start, channel_id: 90 })
      await write(person, { cost: 20_000, token_name: 'two', created_time: start + 5, channel_id: 91 })
      await write(person, { cost: 200_000, type: LOG_TYPE.topUp })
      await write(person, { cost: 2_000_000, type: LOG_TYPE.refund })
      const quota = async (query: string) => (await data(`/api/log/self/stat?${query}`, person)).quota
      assert.equal(await quota(''), 11)
      assert.equal(await quota('type=1'), 11)
      assert.equal(await quota('token_name=one'), 1)
      assert.equal(await quota(`start_timestamp=${start + 1}`), 10)
      assert.equal(await quota(`end_timestamp=${start + 1}`), 1)
      assert.equal(await quota('group=vip'), 0)
      assert.equal((await data('/api/log/stat?channel=91')).quota, 10)
      assert.deepEqual(await data('/api/log/stat?username=nobody-of-that-name'), { quota: 0, rpm: 0, tpm: 0 })
    })

    it('is listed, counted and grouped with every filter', async () => {
      const person = await gateway.createUser()
      const other = await gateway.createUser()
      const at = nowS() - 2 * DAY_S
      const trace = {
        attempts: [
          { channel: 1, status: 503, ms: 1 },
          { channel: 2, status: 200, ms: 1 },
        ],
      }
      const rows: readonly Partial<NewLog>[] = [
        { content: 'plain', model_name: 'one', token_id: 71, channel_id: 61 },
        {
          content: 'failed',
          model_name: 'one',
          token_id: 71,
          channel_id: 62,
          type: LOG_TYPE.error,
          other: '{"error_code":"upstream_error"}',
        },
        { content: 'slow', model_name: 'two', token_id: 72, channel_id: 62, use_time_ms: 9_000 },
        { content: 'dear', model_name: 'two', token_id: 72, channel_id: 61, cost: 5_000_000 },
        {
          content: 'retried',
          model_name: 'one',
          token_id: 71,
          channel_id: 62,
          other: JSON.stringify({ trace }),
        },
        {
          content: 'late',
          model_name: 'one',
          token_id: 71,
          channel_id: 61,
          other: '{"frt":900,"source":"counted","cache_tokens":7,"upstream_model_name":"sent"}',
        },
        {
          content: 'streamed',
          model_name: 'one',
          token_id: 71,
          channel_id: 61,
          is_stream: 1,
          address: '10.1.2.3',
        },
        { content: 'top-up', type: LOG_TYPE.topUp },
      ]
      for (const [second, row] of rows.entries()) await write(person, { created_time: at + second, ...row })
      await write(other, { created_time: at, model_name: 'three', token_id: 73 })
      const walked = async (query: string, who?: Person) =>
        (await data(`/api/log/walk?${query}`, who)).rows.map((row: Row) => row.content)
      const mine = `user_id=${person.id}`
      for (const [query, expected] of [
        ['status=any', 7],
        ['status=failed', ['failed']],
        ['token_id=72', ['dear', 'slow']],
        ['channel=62', ['retried', 'slow', 'failed']],
        ['channel=62&model_name=one', ['retried', 'failed']],
        ['model_name=two&token_id=71', []],
        ['min_ms=8000', ['slow']],
        ['min_cost=0.005', ['dear']],
        ['min_cost=0.005000001', []],
        ['min_attempts=2', ['retried']],
        // More than a row could ever contain, and more than the smaller integers of an engine hold.
        ['min_attempts=999999999999999', []],
        ['min_ms=999999999999999', []],
        ['min_first_ms=999999999999999', []],
        ['min_first_ms=900', ['late']],
        ['source=counted', ['late']],
        ['stream=true', ['streamed']],
        ['ip=10.1.2.3', ['streamed']],
        ['stream=true&status=failed', []],
        ['models=one,two', 7],
        ['models=two', ['dear', 'slow']],
        ['not_models=one&status=any', ['dear', 'slow']],
        ['models=one,two&not_channels=61', ['retried', 'slow', 'failed']],
        ['channels=62,63&not_token_ids=71', ['slow']],
        ['token_ids=72,73', ['dear', 'slow']],
        ['not_models=one,two&status=any', []],
        [`user_ids=${other.id}`, []],
        [`not_user_ids=${person.id}`, []],
        ['upstream_model=sent', ['late']],
        ['upstream_model=two', ['dear', 'slow']],
        ['cached=true', ['late']],
        ['cached=false&model_name=one&status=ok', ['streamed', 'retried', 'plain']],
        ['error_code=upstream_error,upstream_400', ['failed']],
        ['error_code=upstream_400', []],
        ['username=nobody-of-that-name', []],
      ] as const) {
        const contents = await walked(`${mine}&${query}`)
        if (typeof expected === 'number') assert.equal(contents.length, expected, query)
        else assert.deepEqual(contents, expected, query)
        const totals = await data(`/api/log/totals?${mine}&${query}`)
        assert.equal(totals.count, contents.length, query)
        assert.equal(totals.is_more, false)
      }
      assert.deepEqual(await data(`/api/log/totals?${mine}`), {
        count: 7,
        is_more: false,
        failures: 1,
        prompt_tokens: 0,
        completion_tokens: 0,
        cost: '0.005',
      })
      assert.deepEqual(await walked(`${mine}&username=${other.username}`), [])

      const counted = async (query: string, who?: Person) => {
        const { values, is_exact } = await data(`/api/log/facets?${query}`, who)
        assert.equal(is_exact, true)
        return values.map(({ key, count }: { key: string; count: number }) => `${key} ${count}`)
      }
      assert.deepEqual(await counted(`${mine}&by=model`), ['one 5', 'two 2'])
      // A filter on the same field does not narrow its own group.
      assert.deepEqual(await counted(`${mine}&by=model&model_name=two`), ['one 5', 'two 2'])
      assert.deepEqual(await counted(`${mine}&by=token&channel=62`), ['71 2', '72 1'])
      assert.deepEqual(await counted(`${mine}&by=channel&status=failed`), ['62 1'])
      assert.deepEqual(await counted(`${mine}&by=status`), ['ok 6', 'failed 1'])
      assert.deepEqual(await counted(`${mine}&by=status&min_ms=8000`), ['ok 1'])
      assert.deepEqual(await counted(`${mine}&by=model&not_models=two&channels=61,62`), ['one 5', 'two 2'])
      assert.deepEqual(await counted(`${mine}&by=token&models=two,three`), ['72 2'])
      assert.deepEqual(await counted(`${mine}&by=error`), ['upstream_error 1'])
      assert.deepEqual(await counted(`by=user&token_id=73`), [`${other.id} 1`])
      // Inside quarter hours, for which the totals per quarter hour are not sufficient.
      assert.deepEqual(await counted(`${mine}&by=model&start_timestamp=${at + 2}`), ['one 3', 'two 2'])
      // Users see their own rows, without the routing.
      assert.deepEqual(await counted(`by=model&user_id=${person.id}`, other), ['three 1'])
      assert.equal((await get('/api/log/facets?by=channel', other)).status, 403)
      assert.equal((await get('/api/log/facets?by=user', other)).status, 403)
      for (const [query, field] of [
        ['min_cost=-1', 'min_cost'],
        ['min_ms=soon', 'min_ms'],
        ['status=odd', 'status'],
        ['by=colour', 'by'],
        ['channels=one', 'channels.0'],
        [`models=${Array.from({ length: 51 }, (_, at) => at)}`, 'models'],
      ] as const) {
        const { status, body } = await get(`/api/log/facets?${query}`)
        assert.equal(status, 400, query)
        assert.equal(body.errors[0].path, field)
      }
    })

    it('is found by every name that a token has had, also if the token is deleted', async () => {
      const [person, other] = [await gateway.createUser(), await gateway.createUser()]
      const createToken = async (name: string, who: Person) => {
        const fields = { name, remain_quota: 0, unlimited_quota: true }
        const { body } = await gateway.api('POST', '/api/token/', fields, { token: who.accessToken })
        return body.data.id as number
      }
      const at = nowS() - 4 * DAY_S
      const [id, second, elses] = [
        await createToken('shared', person),
        await createToken('shared', person),
        await createToken('shared', other),
      ]
      const wrote = (who: Person, token_id: number, token_name: string, second_: number) =>
        write(who, {
          token_id,
          token_name,
          created_time: at + second_,
          content: `${token_name} ${second_}`,
          cost: 2_000,
        })
      await wrote(person, id, 'shared', 1)
      await wrote(other, elses, 'shared', 2)
      await wrote(person, second, 'shared', 3)
      const renamed = { id, name: 'renamed' }
      assert.equal(
        (await gateway.api('PUT', '/api/token/', renamed, { token: person.accessToken })).status,
        200,
      )
      await wrote(person, id, 'renamed', 4)
      await gateway.api('DELETE', `/api/token/${id}`, undefined, { token: person.accessToken })

      const walked = async (query: string, who?: Person) =>
        (await data(`/api/log/walk?${query}`, who)).rows.map((row: Row) => row.content)
      const since = `start_timestamp=${at}&end_timestamp=${at + 9}`
      assert.deepEqual(await walked(`${since}&token_name=shared`), ['shared 3', 'shared 2', 'shared 1'])
      assert.deepEqual(await walked('token_name=shared', person), ['shared 3', 'shared 1'])
      assert.deepEqual(await walked('token_name=renamed', person), ['renamed 4'])
      assert.deepEqual(await walked('token_name=shared', other), ['shared 2'])
      assert.deepEqual(await walked('token_name=renamed', other), [])
      assert.deepEqual(await walked(`token_name=shared&token_id=${second}`, person), ['shared 3'])
      assert.deepEqual(await walked(`token_name=shared&token_id=${elses}`, person), [])
      for (const [query, who, count] of [
        [`${since}&token_name=shared`, undefined, 3],
        ['token_name=shared', person, 2],
        ['token_name=renamed', person, 1],
        ['token_name=shared', other, 1],
        ['token_name=never', other, 0],
      ] as const) {
        const totals = await data(`/api/log/totals?${query}`, who)
        assert.deepEqual([totals.count, totals.is_more], [count, false], query)
        const times = await data(`/api/log/times?${query}`, who)
        assert.deepEqual([times.count, times.is_all], [count, true], query)
        const stat = await data(`/api/log/${who ? 'self/' : ''}stat?${query}`, who)
        assert.equal(stat.quota, count, query)
        const listed = await data(`/api/log/${who ? 'self' : ''}?${query}`, who)
        assert.equal(listed.total, count, query)
      }
      const users = await data(
        `/api/log/facets?by=user&username=${person.username}&token_name=shared&${since}`,
      )
      assert.deepEqual(
        users.values.map(({ key, count }: { key: string; count: number }) => [Number(key), count]),
        [
          [person.id, 2],
          [other.id, 1],
        ],
      )
    })

    it('is found by a name that more tokens share than are searched individually', async () => {
      const person = await gateway.createUser()
      const at = nowS() - 5 * DAY_S
      const values = Array.from({ length: 60 }, (_, n) => ({
        token_id: 5_000 + n,
        name: 'everybody’s',
        user_id: person.id,
      }))
      await gateway.db.insertInto('token_names').values(values).execute()
      for (const n of [0, 30, 59])
        await write(person, {
          token_id: 5_000 + n,
          token_name: 'everybody’s',
          created_time: at + n,
          content: `${n}`,
          cost: 2_000,
        })
      await write(person, { token_id: 5_001, token_name: 'another', created_time: at, content: 'no' })
      const query = `token_name=everybody’s`
      const { rows } = await data(`/api/log/walk?${query}`, person)
      assert.deepEqual(
        rows.map((row: Row) => row.content),
        ['59', '30', '0'],
      )
      assert.equal((await data(`/api/log/self/stat?${query}`, person)).quota, 3)
    })

    it('is listed in order of time when a filter has several values', async () => {
      const [person, other] = [await gateway.createUser(), await gateway.createUser()]
      const at = nowS() - 6 * DAY_S
      const models = ['merged-a', 'merged-b', 'merged-c']
      for (let n = 0; n < 12; n++)
        await write(n % 4 === 3 ? other : person, {
          created_time: at + Math.floor(n / 2),
          model_name: models[n % 3] ?? '',
          channel_id: 700 + (n % 2),
          content: `${n}`,
          use_time_ms: n,
        })
      const among = (...of: readonly number[]) => of.map(String)
      for (const [query, expected] of [
        ['models=merged-a,merged-c,merged-a', among(11, 9, 8, 6, 5, 3, 2, 0)],
        ['models=merged-a,merged-b&channels=701', among(9, 7, 3, 1)],
        ['models=merged-b,never&channel=700', among(10, 4)],
        [`user_ids=${other.id},${person.id}&models=merged-c`, among(11, 8, 5, 2)],
        ['models=merged-a,merged-b,merged-c&not_channels=701&min_ms=5', among(10, 8, 6)],
      ] as const) {
        const walked: string[] = []
        let cursor = ''
        do {
          const { rows, next } = await data(`/api/log/walk?limit=3&${query}&cursor=${cursor}`)
          walked.push(...rows.map((row: Row) => String(row.content)))
          cursor = next ?? ''
        } while (cursor !== '')
        assert.deepEqual(walked, expected, query)
        const totals = await data(`/api/log/totals?${query}`)
        assert.deepEqual([totals.count, totals.is_more], [expected.length, false], query)
        assert.equal((await data(`/api/log/times?${query}`)).count, expected.length, query)
      }
    })

    it('returns latencies, and whether they cover all requests', async () => {
      const person = await gateway.createUser()
      const at = nowS() - 3 * DAY_S
      for (const [index, ms] of Array.from({ length: 20 }, (_, n) => (n + 1) * 100).entries())
        await write(person, {
          created_time: at + index,
          use_time_ms: ms * 10,
          model_name: index < 10 ? 'early' : 'late',
          other: JSON.stringify(index % 2 === 0 ? { frt: ms } : {}),
        })
      await write(person, { created_time: at, type: LOG_TYPE.error, use_time_ms: 90_000 })
      const times = (query: string) => data(`/api/log/times?${query}`, person)
      assert.deepEqual(await times(''), {
        count: 20,
        is_all: true,
        first_ms: { p50: 900, p95: 1_900 },
        total_ms: { p50: 10_000, p95: 19_000 },
      })
      assert.deepEqual(await times('models=early,none'), {
        count: 10,
        is_all: true,
        first_ms: { p50: 500, p95: 900 },
        total_ms: { p50: 5_000, p95: 10_000 },
      })
      assert.deepEqual(await times('model_name=nothing'), {
        count: 0,
        is_all: true,
        first_ms: null,
        total_ms: null,
      })
    })

    it('is exported with the requested columns, in their order', async () => {
      const person = await gateway.createUser()
      await write(person, {
        model_name: 'exported',
        content: '=1+1',
        other: '{"frt":12,"trace":{"attempts":[{},{}]}}',
      })
      const exported = async (query: string) => (await get(`/api/log/export?${query}`, person)).text
      assert.equal(
        await exported('columns=model_name,first_ms,attempts,error_code,content'),
        "model_name,first_ms,attempts,error_code,content\nexported,12,2,,'=1+1\n",
      )
      assert.equal(
        await exported('format=jsonl&columns=first_ms,model_name'),
        '{"first_ms":12,"model_name":"exported"}\n',
      )
      assert.match(await exported(''), /^created_at,request_id,type,/)
      const { status, body } = await get('/api/log/export?columns=cost,secrets', person)
      assert.deepEqual([status, body.errors[0].path], [400, 'columns.1'])
    })

    it('is searched twenty thousand rows at a time if no index applies, and reports that there is more', async () => {
      const person = await gateway.createUser()
      const at = nowS() - 3 * DAY_S
      const row = {
        type: 2,
        user_id: person.id,
        token_id: 0,
        content: '',
        token_name: '',
        channel_id: 0,
        cost: 0,
      }
      const filler = {
        prompt_tokens: 0,
        completion_tokens: 0,
        is_stream: 0,
        address: '',
        request_id: '',
        other: '{}',
      }
      const fields = { ...row, ...filler, model_name: 'many' }
      const names = [...Object.keys(fields), 'created_time', 'use_time_ms'].map(name => sql.ref(name))
      const constants = Object.values(fields).map(value => sql.lit(value))
      // The database makes the rows itself: as parameters, they take seconds.
      await sql`insert into logs (${sql.join(names)})
        with recursive numbers(n) as (select 0 union all select n + 1 from numbers where n < 20199)
        select ${sql.join(constants)}, ${sql.lit(at)} + n, case when n < 3 then 5000 else 10 end from numbers`.execute(
        gateway.db,
      )
      const mine = `user_id=${person.id}&min_ms=4000`
      const first = await data(`/api/log/walk?${mine}`)
      assert.deepEqual(first.rows, [])
      assert.notEqual(first.next, null)
      const second = await data(`/api/log/walk?${mine}&cursor=${first.next}`)
      assert.equal(second.rows.length, 3)
      assert.equal(second.next, null)
      const totals = await data(`/api/log/totals?${mine}`)
      assert.deepEqual([totals.is_more, totals.cost], [true, null])
      const several = await data('/api/log/totals?models=many,none')
      assert.deepEqual([several.count, several.is_more], [10_000, true])
      const fast = await data(`/api/log/totals?user_id=${person.id}&status=ok`)
      assert.deepEqual([fast.count, fast.is_more], [10_000, true])
      const models = await data(`/api/log/facets?user_id=${person.id}&status=ok&by=token`)
      assert.equal(models.is_exact, false)
      const times = await data(`/api/log/times?user_id=${person.id}`)
      assert.deepEqual([times.count, times.is_all, times.total_ms], [10_000, false, { p50: 10, p95: 10 }])
      const exported = await get(`/api/log/export?format=jsonl&${mine}`)
      assert.equal(exported.text.trim().split('\n').length, 3)
    })

    it('counts the requests and tokens of the last minute', async () => {
      const person = await gateway.createUser()
      const recent = { created_time: nowS(), prompt_tokens: 7, completion_tokens: 5 }
      await write(person, recent)
      await write(person, { ...recent, token_name: 'one' })
      await write(person, { ...recent, type: LOG_TYPE.error })
      await write(person, { ...recent, created_time: nowS() - 120 })
      const { rpm, tpm } = await data('/api/log/self/stat', person)
      assert.deepEqual([rpm, tpm], [2, 24])
      const old = await data(`/api/log/self/stat?token_name=one&end_timestamp=${nowS() - DAY_S}`, person)
      assert.deepEqual(old, { quota: 0, rpm: 1, tpm: 12 })
    })

    it('has a row for every change of a quota, and the rows add up to it', async () => {
      const person = await gateway.createUser()
      const manage = (mode: string, value: number) =>
        gateway.api('POST', '/api/user/manage', { id: person.id, action: 'add_quota', mode, value })
      await manage('add', 1_000)
      await manage('subtract', 300)
      await manage('override', 5_000)
      const page = await data('/api/log/self?type=1&p=1&page_size=100', person)
      assert.equal(page.total, 3)
      const sum = page.items.reduce((total: number, row: Row) => total + row.quota, 0)
      const { quota } = await data('/api/user/self', person)
      assert.equal(quota, 5_000)
      assert.equal(sum, quota)
      assert.deepEqual(
        page.items.map((row: Row) => row.cost),
        ['0.0086', '-0.0006', '0.002'],
      )
    })

    it('keeps the rows of a deleted user, without the name', async () => {
      const person = await gateway.createUser({ username: 'leaving' })
      await write(person, { content: 'what leaving left', request_id: 'req_left' })
      await gateway.api('DELETE', `/api/user/${person.id}`)
      assert.equal((await data('/api/log/?username=leaving')).total, 0)
      const [row] = (await data('/api/log/?request_id=req_left')).items
      assert.equal(row.user_id, person.id)
      assert.notEqual(row.username, 'leaving')
    })
  })

  describe(`the log of a token on ${engine} (reference 3.3)`, () => {
    const gateway = suiteGateway({ engine })

    const newKey = async (fields: object = {}) =>
      (await gateway.api('POST', '/api/token/', { name: 'key', ...fields })).body.data as {
        id: number
        key: string
      }
    const write = (tokenId: number, content: string) =>
      insertLog(gateway.db, {
        created_time: nowS(),
        type: LOG_TYPE.consume,
        user_id: 1,
        token_id: tokenId,
        content,
        channel_id: 3,
      })
    const ask = (token: string | null, query = '', headers = {}) =>
      gateway.api('GET', `/api/log/token${query}`, undefined, { token, headers })

    it('is returned to a caller with the token, in any header or field that clients use', async () => {
      const mine = await newKey()
      const other = await newKey()
      await write(mine.id, 'older')
      await write(other.id, 'of another token')
      await write(mine.id, 'newer')
      const answers = [
        await ask(mine.key),
        await ask(null, `?key=${mine.key}`),
        await ask(null, '', { 'x-api-key': mine.key }),
      ]
      for (const { status, body } of answers) {
        assert.equal(status, 200)
        assert.equal(body.success, true)
        assert.deepEqual(
          body.data.map((row: Row) => row.content),
          ['newer', 'older'],
        )
        assert.equal(body.data[0].channel_name, '')
      }
    })

    it('is returned to expired and exhausted tokens, not to disabled or unknown ones', async () => {
      const expired = await newKey({ remain_quota: 0 })
      await gateway.db
        .updateTable('tokens')
        .set({ expired_time: nowS() - 1 })
        .where('id', '=', expired.id)
        .execute()
      assert.equal((await ask(expired.key)).status, 200)
      const disabled = await newKey()
      await gateway.api('PUT', '/api/token/', { id: disabled.id, status: 2 })
      for (const token of [disabled.key, 'sk-unknown', 'sat-unknown', null]) {
        const { status, body } = await ask(token)
        assert.equal(status, 401)
        assert.equal(body.success, false)
        assert.equal(body.code, 'unauthorized')
      }
    })

    it('is not returned outside the token’s addresses', async () => {
      const { key } = await newKey({ allow_ips: ['203.0.113.7'] })
      const { status, body } = await ask(key)
      assert.equal(status, 403)
      assert.equal(body.code, 'forbidden')
    })

    it('is limited to the newest thousand rows', async () => {
      const { id, key } = await newKey()
      const row = { created_time: nowS(), type: 2, user_id: 1, token_id: id, content: '', token_name: '' }
      const filler = {
        channel_id: 0,
        model_name: '',
        cost: 0,
        prompt_tokens: 0,
        completion_tokens: 0,
        use_time_ms: 0,
        is_stream: 0,
        address: '',
        request_id: '',
        other: '{}',
      }
      await gateway.db
        .insertInto('logs')
        .values(Array.from({ length: 1_001 }, (_, n) => ({ ...row, ...filler, content: `row ${n}` })))
        .execute()
      const { body } = await ask(key)
      assert.equal(body.data.length, 1_000)
      assert.equal(body.data[0].content, 'row 1000')
    })
  })
}
