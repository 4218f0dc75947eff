import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { isSecretName } from '../../../src/domain/secret-name.ts'
import { channelContract } from '../../../src/manage/contract/channels.ts'
import type { Route } from '../../../src/manage/contract/route.ts'
import { headersOf, providers } from '../../../src/providers/index.ts'
import { oneEngine, type Reply, suiteGateway } from '../../support/gateway.ts'

const KEY = 'stored-key-of-the-operator-1111'
const SECOND_KEY = 'stored-key-of-the-operator-2222'
const HEADER_SECRET = 'stored-header-secret-3333'
const PROXY_PASSWORD = 'proxy-password-4444'
const SECRETS = [KEY, SECOND_KEY, HEADER_SECRET, PROXY_PASSWORD]

/** A host of the attacker that records everything it receives. */
async function startHost() {
  const received: string[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    received.push(`${request.url}\n${request.rawHeaders.join('\n')}\n${Buffer.concat(chunks)}`)
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ data: [{ id: 'm' }], choices: [] }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

type Fields = Readonly<Record<string, unknown>>

/** Ways to make the gateway send the secrets of a stored channel elsewhere, as fields of a channel. */
const movesTo = (url: string): Readonly<Record<string, Fields>> => ({
  'another origin': { base_url: url },
  'the address of the provider itself': { base_url: '' },
  'another port': { base_url: 'http://127.0.0.1:9' },
  'another type': { type: 14 },
  'another type that reads its address elsewhere': { type: 33, base_url: '' },
  'a proxy': { setting: { proxy: url } },
  'a proxy below another setting': { setting: { network: { http_proxy: url } } },
  'a header with the key': { header_override: { 'x-copy': '{api_key}' } },
  'a header with the key among other text': { header_override: { 'x-copy': 'v={api_key};' } },
  'another Host header': { header_override: { Host: 'elsewhere.example' } },
  'an operation that writes the key into a header': {
    param_override: { operations: [{ mode: 'set_header', path: 'x-copy', value: '{api_key}' }] },
  },
  'an operation that passes the client’s Host header': {
    param_override: { operations: [{ mode: 'pass_headers', value: ['x-session', 'host'] }] },
  },
})

/** Each route that accepts fields of a stored channel, and how a request names the channel and the fields. */
const WRITES: Readonly<Record<string, (id: number, fields: Fields) => unknown>> = {
  updateChannel: (id, fields) => ({ id, ...fields }),
  editChannels: (id, fields) => ({ ids: [id], fields }),
  updateTag: (id, fields) => ({ tag: `tag-${id}`, ...fields }),
}

/** Routes whose body has such fields and that never read a stored channel. */
const WITHOUT_STORED = new Set(['createChannel', 'fetchModels'])

const DECIDING = ['type', 'base_url', 'setting', 'other', 'header_override', 'param_override']

/** Names of the members of a body, including nested objects. */
function membersOf(schema: unknown): string[] {
  const { def, shape } = (schema ?? {}) as { def?: Record<string, unknown>; shape?: Record<string, unknown> }
  if (shape) return Object.entries(shape).flatMap(([name, member]) => [name, ...membersOf(member)])
  return ['in', 'innerType'].flatMap(name => (def?.[name] ? membersOf(def[name]) : []))
}

for (const engine of oneEngine('postgres'))
  describe(`the secrets of a channel, against an Admin on ${engine}`, () => {
    const gateway = suiteGateway({ engine })
    let admin: string
    let home: Awaited<ReturnType<typeof startHost>>
    let foreign: Awaited<ReturnType<typeof startHost>>

    before(async () => {
      admin = (await gateway.createUser({ role: 10 })).accessToken
      home = await startHost()
      foreign = await startHost()
    })
    after(async () => {
      await home.close()
      await foreign.close()
    })

    const ask = (method: string, path: string, body?: unknown) =>
      gateway.api(method, path, body, { token: admin })
    const update = (body: Fields) => ask('PUT', '/api/channel/', body)

    async function stored(fields: Fields = {}, mode = 'single') {
      const channel = { name: 'c', type: 1, key: KEY, models: 'm', base_url: home.url, ...fields }
      const reply = await gateway.api('POST', '/api/channel/', { mode, channel })
      assert.equal(reply.status, 200, reply.text)
      const { id } = reply.body.data
      await gateway.api('PUT', '/api/channel/', { id, tag: `tag-${id}` })
      return id as number
    }

    const read = async (id: number) => (await gateway.api('GET', `/api/channel/${id}`)).body.data

    function assertNeedsKey(reply: Reply): void {
      assert.deepEqual(
        [reply.status, reply.body.success, reply.body.code, reply.body.errors?.[0]?.path],
        [403, false, 'forbidden', 'key'],
        reply.text,
      )
    }

    /** After the channels have been used in every way that an Admin can use them. */
    async function assertNothingArrived(...ids: readonly number[]): Promise<void> {
      for (const id of ids) {
        await ask('GET', `/api/channel/test/${id}`)
        await ask('GET', `/api/channel/fetch_models/${id}`)
      }
      for (const secret of SECRETS)
        assert.ok(!foreign.received.some(text => text.includes(secret)), `${secret} arrived`)
    }

    it('are covered for every route that accepts a field which decides where a secret is sent', () => {
      const taking = Object.entries<Route>(channelContract)
        .filter(([, { body }]) => membersOf(body).some(name => DECIDING.includes(name)))
        .map(([name]) => name)
      assert.deepEqual(taking.sort(), [...Object.keys(WRITES), ...WITHOUT_STORED].sort())
    })

    for (const [route, bodyFor] of Object.entries(WRITES)) {
      const { method, path, body: schema }: Route = channelContract[route as 'updateChannel']
      const acceptedFields = new Set(membersOf(schema))

      it(`are not sent elsewhere by ${method} ${path}`, async () => {
        for (const [how, fields] of Object.entries(movesTo(foreign.url))) {
          if (!Object.keys(fields).every(name => acceptedFields.has(name))) continue
          const id = await stored()
          const before = await read(id)
          assertNeedsKey(await ask(method, path, bodyFor(id, fields)))
          assert.deepEqual(await read(id), before, how)
          await assertNothingArrived(id)
        }
      })

      it(`may be sent elsewhere by Root with ${method} ${path}`, async () => {
        const id = await stored()
        const fields = acceptedFields.has('base_url')
          ? { base_url: 'http://127.0.0.1:9/v1' }
          : { header_override: { 'x-copy': '{api_key}' } }
        const reply = await gateway.api(method, path, bodyFor(id, fields))
        assert.equal(reply.status, 200, reply.text)
        const [[name, value]] = Object.entries(fields) as [[string, unknown]]
        assert.deepEqual((await read(id))[name], value)
      })
    }

    it('stay if a change by an Admin keeps the destination', async () => {
      const id = await stored({
        setting: { proxy: `http://u:${PROXY_PASSWORD}@127.0.0.1:9` },
        header_override: { 'x-key-copy': '{api_key}', 'x-team': 'search' },
      })
      const whole = await read(id)
      for (const fields of [
        { ...whole, name: 'renamed' },
        { id, base_url: `${home.url}/v1` },
        { id, header_override: { 'x-team': 'chat' } },
        { id, param_override: { operations: [{ mode: 'set_header', path: 'x-a', value: 'b' }] } },
        { id, setting: { ...whole.setting, timeouts: { connect_ms: 5_000 } } },
        { id, models: ['m', 'n'], model_mapping: { m: 'n' }, status: 2 },
      ]) {
        const reply = await update(fields)
        assert.equal(reply.status, 200, reply.text)
      }
    })

    it('may get another destination with a key that the Admin sends, which replaces the stored one', async () => {
      const id = await stored()
      const reply = await update({ id, base_url: foreign.url, key: 'a-key-of-the-admin-9999' })
      assert.equal(reply.status, 200, reply.text)
      await assertNothingArrived(id)
      assert.ok(foreign.received.some(text => text.includes('a-key-of-the-admin-9999')))
    })

    it('get no other destination with a masked or empty key, nor with an appended one', async () => {
      const id = await stored({ key: `${KEY}\n${SECOND_KEY}` }, 'multi_to_single')
      const { key } = await read(id)
      for (const keyFields of [{ key }, { key: '' }, { key: 'another-key-5555', key_mode: 'append' }])
        assertNeedsKey(await update({ id, base_url: foreign.url, ...keyFields }))
      assert.equal((await read(id)).base_url, home.url)
      await assertNothingArrived(id)
    })

    it('get another destination only if one request replaces all keys', async () => {
      const id = await stored({ key: `${KEY}\n${SECOND_KEY}` }, 'multi_to_single')
      const reply = await update({ id, base_url: foreign.url, key: 'another-key-5555', key_mode: 'replace' })
      assert.equal(reply.status, 200, reply.text)
      assert.equal((await read(id)).keys.length, 1)
      await assertNothingArrived(id)
    })

    it('in headers and settings must be sent again as well, by their paths', async () => {
      const id = await stored({
        header_override: { 'x-secret-token': HEADER_SECRET },
        setting: { service_token: HEADER_SECRET },
      })
      const { header_override, setting } = await read(id)
      const moved = { id, base_url: foreign.url, key: 'a-key-of-the-admin-9999' }
      for (const fields of [{}, { header_override, setting }]) {
        const reply = await update({ ...moved, ...fields })
        assert.equal(reply.status, 403, reply.text)
        assert.deepEqual(
          reply.body.errors.map(({ path }: { path: string }) => path),
          ['header_override.x-secret-token', 'setting.service_token'],
        )
      }
      const renewed = { header_override: { 'x-secret-token': 'mine' }, setting: JSON.stringify({}) }
      assert.equal((await update({ ...moved, ...renewed })).status, 200)
      await assertNothingArrived(id)
    })

    it('are not exposed by a proxy that is removed or replaced', async () => {
      const id = await stored({ setting: { proxy: `http://u:${PROXY_PASSWORD}@127.0.0.1:9` } })
      for (const setting of [{}, { proxy: '' }, { proxy: foreign.url }])
        assertNeedsKey(await update({ id, setting }))
    })

    it('in the URL of a proxy are hidden up to the last @, also where the setting is stored', async () => {
      const proxy = `http://user:first@${PROXY_PASSWORD}@127.0.0.1:9`
      const id = await stored({ setting: { proxy } })
      const { setting } = await gateway.db
        .selectFrom('channels')
        .select('setting')
        .where('id', '=', id)
        .executeTakeFirstOrThrow()
      const responseTexts = [
        await ask('GET', `/api/channel/${id}`),
        await ask('GET', '/api/config/revision/?page_size=1'),
        await ask('GET', '/api/config/revision/1'),
        await gateway.api('GET', '/api/audit/?page_size=5'),
      ].map(({ text }) => text)
      for (const text of [setting, ...responseTexts]) assert.ok(!text.includes(PROXY_PASSWORD), text)
      assert.equal((await read(id)).setting.proxy, 'http://…@127.0.0.1:9')
    })

    it('in the URL of a proxy cannot hide behind a blank, which only some parsers accept', async () => {
      for (const proxy of [`http://user:a ${PROXY_PASSWORD}@127.0.0.1:9`, 'http://us\ter:word@127.0.0.1:9']) {
        const channel = { name: 'c', type: 1, key: KEY, models: 'm', base_url: home.url, setting: { proxy } }
        const reply = await gateway.api('POST', '/api/channel/', { mode: 'single', channel })
        assert.deepEqual(
          [reply.status, reply.body.errors?.[0]?.path],
          [400, 'channel.setting.proxy'],
          reply.text,
        )
        assert.ok(!reply.text.includes(PROXY_PASSWORD))
      }
    })

    it('are not exposed through an operation that copies a header with the key', async () => {
      const id = await stored({ header_override: { 'x-copy': '{api_key}' } })
      const operations = [
        { mode: 'copy_header', from: 'x-copy', to: 'x-other' },
        { mode: 'sync_fields', from: 'header:x-other', to: 'json:user' },
      ]
      for (const some of [operations, operations.slice(0, 1)])
        assertNeedsKey(await update({ id, param_override: { operations: some } }))
      const rooted = { id, param_override: { operations: operations.slice(0, 1) } }
      assert.equal((await gateway.api('PUT', '/api/channel/', rooted)).status, 200)
      assertNeedsKey(await update({ id, param_override: { operations } }))
    })

    it('are not sent to another host by a field that is part of the host name', async () => {
      const id = await stored({ type: 33, base_url: '', setting: { region: 'eu-central-1' } })
      for (const fields of [
        { setting: { region: 'x@ec2-192-0-2-1.compute-1' } },
        { setting: {} },
        { setting: {}, other: 'us-west-2' },
      ])
        assertNeedsKey(await update({ id, ...fields }))
    })

    it('are not sent to a host that a request chooses', async () => {
      const id = await stored()
      for (const base_url of ['https://{model}', 'https://{+model}.example.com', 'https://{voice}.example']) {
        const reply = await gateway.api('PUT', '/api/channel/', { id, base_url })
        assert.deepEqual([reply.status, reply.body.errors?.[0]?.path], [400, 'base_url'], reply.text)
      }
    })

    it('stay at their destination in a copied channel, whatever else the request changes', async () => {
      const id = await stored()
      const path = `/api/channel/copy/${id}?base_url=${encodeURIComponent(foreign.url)}&type=14`
      const copy = await ask('POST', path, {
        base_url: foreign.url,
        header_override: { 'x-copy': '{api_key}' },
      })
      assert.equal(copy.status, 200, copy.text)
      assert.equal(copy.body.data.base_url, home.url)
      assert.deepEqual(copy.body.data.header_override, {})
      assertNeedsKey(await update({ id: copy.body.data.id, base_url: foreign.url }))
      await assertNothingArrived(id, copy.body.data.id)
    })

    it('are not used to test a channel or to list models at another address', async () => {
      const id = await stored()
      const { key } = await read(id)
      const elsewhere = `base_url=${encodeURIComponent(foreign.url)}`
      await ask('GET', `/api/channel/fetch_models/${id}?${elsewhere}`)
      await ask('GET', `/api/channel/fetch_models?id=${id}&${elsewhere}`)
      await ask('GET', `/api/channel/test/${id}?${elsewhere}`)
      for (const keyFields of [{}, { key: '' }, { key }])
        await ask('POST', '/api/channel/fetch_models', { id, type: 1, base_url: foreign.url, ...keyFields })
      await assertNothingArrived(id)
    })

    it('do not exist in a channel without a key, which an Admin may point anywhere', async () => {
      const id = await stored({ type: 4, key: '' })
      assert.equal((await update({ id, base_url: foreign.url })).status, 200)
      const appended = { id, base_url: home.url, key: 'first-key-7777', key_mode: 'append' }
      assert.equal((await update(appended)).status, 200)
    })
  })

describe('every provider', () => {
  it('sends its key in headers that override operations cannot read', () => {
    for (const provider of providers) {
      const open = Object.entries(headersOf(provider, KEY, {}))
        .filter(([name, value]) => value.includes(KEY) && !isSecretName(name))
        .map(([name]) => name)
      assert.deepEqual(open, [], provider.name)
    }
  })
})
