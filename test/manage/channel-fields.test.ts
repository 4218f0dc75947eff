import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { CHANNEL_NAME_LENGTH, loopIn, withSuffix } from '../../src/domain/channel.ts'
import { oneEngine, type Reply, suiteGateway } from '../support/gateway.ts'

const nested = (depth: number): object => (depth === 0 ? {} : { inner: nested(depth - 1) })

for (const engine of oneEngine('sqlite')) {
  describe(`fields of a channel on ${engine} (docs/reference/management-api.md: Channels)`, () => {
    const gateway = suiteGateway({ engine })

    const create = (fields: object) =>
      gateway.api('POST', '/api/channel/', { name: 'c', type: 1, key: 'field-key', models: 'm', ...fields })
    const createChannel = async (fields: object) => {
      const { status, body, text } = await create(fields)
      assert.equal(status, 200, text)
      return body.data
    }
    const refused = async (fields: object, path: string): Promise<Reply> => {
      const reply = await create(fields)
      assert.equal(reply.status, 400, `${JSON.stringify(fields).slice(0, 200)} → ${reply.text}`)
      assert.equal(reply.body.errors[0].path, path)
      return reply
    }

    it('accepts objects or their JSON text, and returns objects', async () => {
      const values = {
        model_mapping: { asked: 'sent' },
        param_override: { temperature: 0, nested: { list: [1, null, 'x'] } },
        header_override: { 'X-Team': 'a', Authorization: 'Bearer {api_key}', '*': '', 're:^x-client-': '' },
        status_code_mapping: { '400': '500', '429': 503 },
        setting: { force_format: true, system_prompt: 'line\nline', timeouts: { connect_ms: 5_000 } },
      }
      const texts = Object.fromEntries(
        Object.entries(values).map(([name, value]) => [name, JSON.stringify(value)]),
      )
      for (const fields of [values, texts]) {
        const channel = await createChannel(fields)
        for (const [name, value] of Object.entries(values)) assert.deepEqual(channel[name], value, name)
        const cleared = Object.fromEntries(Object.keys(values).map(name => [name, '']))
        const { body } = await gateway.api('PUT', '/api/channel/', { id: channel.id, ...cleared })
        for (const name of Object.keys(values)) assert.deepEqual(body.data[name], {}, name)
        const nulls = Object.fromEntries(Object.keys(values).map(name => [name, null]))
        await gateway.api('PUT', '/api/channel/', { id: channel.id, ...values })
        const after = (await gateway.api('PUT', '/api/channel/', { id: channel.id, ...nulls })).body.data
        for (const [name, value] of Object.entries(values)) assert.deepEqual(after[name], value, name)
      }
    })

    it('refuses values that are not objects, too long or too deep', async () => {
      for (const name of [
        'model_mapping',
        'param_override',
        'header_override',
        'status_code_mapping',
        'setting',
      ]) {
        for (const value of [[], '[]', '"text"', 'no json', 7, '{"a":}'])
          await refused({ [name]: value }, name)
      }
      await refused({ param_override: { long: 'x'.repeat(65 * 1024) } }, 'param_override')
      await refused({ setting: JSON.stringify({ long: 'x'.repeat(65 * 1024) }) }, 'setting')
      await refused({ param_override: nested(33) }, 'param_override')
      await refused({ param_override: JSON.stringify(nested(33)) }, 'param_override')
      await refused({ param_override: '['.repeat(100_000) }, 'param_override')
      await createChannel({ param_override: nested(30) })
    })

    it('accepts models as names, each once, and refuses invalid names', async () => {
      assert.deepEqual((await createChannel({ models: [' a ', 'b', 'a', 'A'] })).models, ['a', 'b', 'A'])
      await refused({ models: ['x'.repeat(256)] }, 'models.0')
      await refused({ models: [1] }, 'models')
      await refused({ models: { a: 1 } }, 'models')
      await refused({ models: Array.from({ length: 2_001 }, (_, index) => `m${index}`) }, 'models')
    })

    it('maps names to names without a cycle; a name may map to itself', async () => {
      assert.deepEqual(
        (await createChannel({ model_mapping: { ' a ': ' b ', b: 'c', d: 'd' } })).model_mapping,
        {
          a: 'b',
          b: 'c',
          d: 'd',
        },
      )
      await refused({ model_mapping: { a: 1 } }, 'model_mapping.a')
      await refused({ model_mapping: { a: '' } }, 'model_mapping.a')
      await refused({ model_mapping: { '': 'a' } }, 'model_mapping.')
      await refused({ model_mapping: { a: 'b', b: 'c', c: 'a' } }, 'model_mapping')
      const many = Object.fromEntries(
        Array.from({ length: 9_000 }, (_, index) => [`a-long-name-of-model-${index}`, 'target']),
      )
      await refused({ model_mapping: many }, 'model_mapping')
    })

    it('accepts only valid request headers', async () => {
      await refused({ header_override: { 'X-Bad': 'a\r\nX-Injected: b' } }, 'header_override.X-Bad')
      await refused({ header_override: { 'X-Bad': 'ü' } }, 'header_override.X-Bad')
      await refused({ header_override: { 'X-Bad': 7 } }, 'header_override.X-Bad')
      await refused({ header_override: { 'bad name': 'a' } }, 'header_override.bad name')
      await refused({ header_override: { 'bad\nname': 'a' } }, 'header_override.bad\nname')
      await refused({ header_override: { 're:(': 'a' } }, 'header_override.re:(')
      await refused({ header_override: { 'Content-Length': '5' } }, 'header_override.Content-Length')
      await refused({ header_override: { 'Accept-Encoding': 'gzip' } }, 'header_override.Accept-Encoding')
      const many = Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`x-${index}`, '']))
      await refused({ header_override: many }, 'header_override')
      await refused({ openai_organization: 'org\r\nx: y' }, 'openai_organization')
      await refused({ openai_organization: 'örg' }, 'openai_organization')
    })

    it('maps failing status codes to failing ones only', async () => {
      for (const mapping of [
        { '99': '500' },
        { '200': '500' },
        { '400': '600' },
        { '400': 'x' },
        { abc: '500' },
        { '400': null },
      ])
        await refused({ status_code_mapping: mapping }, `status_code_mapping.${Object.keys(mapping)[0]}`)
    })

    it('checks timeouts, of which only the total may be 0 for none', async () => {
      const timeouts = { connect_ms: 100, first_byte_ms: 3_600_000, idle_ms: 1, total_ms: 0 }
      assert.deepEqual((await createChannel({ setting: { timeouts } })).setting.timeouts, timeouts)
      for (const [name, value] of [
        ['connect_ms', 0],
        ['connect_ms', 600_001],
        ['first_byte_ms', 1.5],
        ['idle_ms', '100'],
        ['idle_ms', -1],
        ['total_ms', 86_400_001],
      ] as const)
        await refused({ setting: { timeouts: { [name]: value } } }, `setting.timeouts.${name}`)
      await refused({ setting: { timeouts: [] } }, 'setting.timeouts')
    })

    it('accepts limits, keeps those an update does not name, and removes one with null', async () => {
      const channel = await createChannel({ limits: { rpm: 60, concurrency: 4 } })
      assert.deepEqual(channel.limits, { rpm: 60, tpm: null, concurrency: 4 })
      const { body } = await gateway.api('PUT', '/api/channel/', {
        id: channel.id,
        limits: { rpm: null, tpm: 1_000 },
      })
      assert.deepEqual(body.data.limits, { rpm: null, tpm: 1_000, concurrency: 4 })
      await refused({ limits: { rpm: 0 } }, 'limits.rpm')
      await refused({ limits: { tpm: 1.5 } }, 'limits.tpm')
    })

    it('accepts priorities and weights as integers, weights not below zero', async () => {
      const channel = await createChannel({ priority: -5, weight: 0 })
      assert.equal(channel.priority, -5)
      await refused({ weight: -1 }, 'weight')
      await refused({ priority: 1.5 }, 'priority')
      await refused({ priority: '7' }, 'priority')
    })

    it('accepts auto_ban as number or boolean and returns a number', async () => {
      assert.equal((await createChannel({ auto_ban: true })).auto_ban, 1)
      assert.equal((await createChannel({ auto_ban: 0 })).auto_ban, 0)
      assert.equal((await createChannel({ auto_ban: null })).auto_ban, 1)
      await refused({ auto_ban: 2 }, 'auto_ban')
    })

    it('removes a channel from its tag with null or an empty text', async () => {
      for (const none of [null, '']) {
        const channel = await createChannel({ tag: ' tied ' })
        assert.equal(channel.tag, 'tied')
        const { body } = await gateway.api('PUT', '/api/channel/', { id: channel.id, tag: none })
        assert.equal(body.data.tag, null)
      }
    })

    it('keeps texts within bounds and free of control characters', async () => {
      const channel = await createChannel({ remark: 'two\nlines', other: 'v1', test_model: 'm' })
      assert.equal(channel.remark, 'two\nlines')
      assert.equal(channel.other, 'v1')
      assert.equal(channel.test_model, 'm')
      await refused({ remark: 'x'.repeat(256) }, 'remark')
      await refused({ name: 'bell\u0007' }, 'name')
      await refused({ tag: 'x'.repeat(101) }, 'tag')
      await refused({ group: 'x'.repeat(1_001) }, 'group')
      assert.equal((await createChannel({ group: '' })).group, 'default')
    })

    it('refuses addresses that no channel may use', async () => {
      for (const base_url of [
        'http://169.254.169.254',
        'http://[::ffff:169.254.169.254]/',
        'http://2852039166/',
        'http://0xa9.0xfe.0xa9.0xfe',
        'http://metadata.google.internal',
        'file:///etc/passwd',
        'gopher://host',
        'https://user:password@host.example',
        'https://host.example/?key=1',
        'not an address',
        'host.example/v1',
      ])
        await refused({ base_url }, 'base_url')
      assert.equal(
        (await createChannel({ base_url: ' http://127.0.0.1:8000/v1 ' })).base_url,
        'http://127.0.0.1:8000/v1',
      )
      assert.equal(
        (await createChannel({ base_url: 'https://host.example/chat#' })).base_url,
        'https://host.example/chat#',
      )
    })

    it('requires the fields that a provider needs, by name', async () => {
      await refused({ type: 8 }, 'base_url')
      await refused({ type: 39 }, 'setting.account_id')
      await refused({ type: 39, setting: { account_id: 7 } }, 'setting.account_id')
      const channel = await createChannel({ type: 39, setting: { account_id: 'a'.repeat(32) } })
      const reply = await gateway.api('PUT', '/api/channel/', { id: channel.id, setting: {} })
      assert.equal(reply.status, 400)
      assert.equal(reply.body.errors[0].path, 'setting.account_id')
      const wrapped = await gateway.api('POST', '/api/channel/', {
        mode: 'single',
        channel: { name: 'c', type: 8, key: 'k', models: 'm' },
      })
      assert.equal(wrapped.body.errors[0].path, 'channel.base_url')
      const custom = await createChannel({ type: 8, base_url: 'https://host.example' })
      const emptied = await gateway.api('PUT', '/api/channel/', { id: custom.id, base_url: '' })
      assert.equal(emptied.status, 400)
      assert.equal((await gateway.api('PUT', '/api/channel/', { id: custom.id, status: 2 })).status, 200)
    })

    it('reads `other` of existing clients as the field it stands for', async () => {
      const account = await createChannel({ type: 39, other: 'b'.repeat(32) })
      assert.equal(account.setting.account_id, 'b'.repeat(32))
      const region = await createChannel({
        type: 41,
        key: '{"project_id":"p"}',
        other: '{"default":"us-central1"}',
      })
      assert.equal(region.setting.region, 'us-central1')
      assert.equal(region.other, '{"default":"us-central1"}')
      const explicitRegion = await createChannel({
        type: 41,
        key: '{"project_id":"p"}',
        setting: { region: 'eu' },
        other: 'us',
      })
      assert.equal(explicitRegion.setting.region, 'eu')
      const turned = await createChannel({ other: 'anything' })
      assert.deepEqual(turned.setting, {})
      const { body } = await gateway.api('PUT', '/api/channel/', { id: turned.id, type: 39 })
      assert.equal(body.data.setting.account_id, 'anything')
    })
  })

  describe(`channels on ${engine} when private addresses are denied (docs/reference/process.md: Upstream addresses)`, () => {
    const gateway = suiteGateway({ engine, env: { SLUICE_PRIVATE_UPSTREAMS: 'deny' } })

    const channel = { name: 'c', type: 1, key: 'private-key', models: 'm' }

    it('are refused on loopback and private addresses', async () => {
      for (const base_url of ['http://localhost:1', 'http://127.0.0.1', 'http://10.0.0.8', 'http://[::1]']) {
        const { status, body } = await gateway.api('POST', '/api/channel/', { ...channel, base_url })
        assert.equal(status, 400, base_url)
        assert.equal(body.errors[0].path, 'base_url')
      }
    })

    it('can still be changed if their address was saved before', async () => {
      const reply = await gateway.api('POST', '/api/channel/', {
        ...channel,
        base_url: 'https://host.example',
      })
      const { id } = reply.body.data
      await gateway.db
        .updateTable('channels')
        .set({ base_url: 'http://10.0.0.8' })
        .where('id', '=', id)
        .execute()
      const storedChannel = (await gateway.api('GET', `/api/channel/${id}`)).body.data
      const { status, body } = await gateway.api('PUT', '/api/channel/', {
        ...storedChannel,
        name: 'renamed',
      })
      assert.equal(status, 200)
      assert.equal(body.data.name, 'renamed')
    })
  })
}

describe('a mapping of names', () => {
  it('has a cycle only if a name maps back to itself through others', () => {
    assert.equal(loopIn({}), undefined)
    assert.equal(loopIn({ a: 'a', b: 'a', c: 'b' }), undefined)
    assert.equal(loopIn({ x: 'a', a: 'b', b: 'a' }), 'a')
    assert.equal(
      loopIn(Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`${i}`, `${i + 1}`]))),
      undefined,
    )
  })
})

describe('a name with a suffix', () => {
  it('is truncated before its suffix if both are too long, never inside a character', () => {
    assert.equal(withSuffix('name', ' 2'), 'name 2')
    const longest = '😀'.repeat(CHANNEL_NAME_LENGTH)
    assert.equal(withSuffix(longest, '!'), `${longest.slice(2)}!`)
  })
})
