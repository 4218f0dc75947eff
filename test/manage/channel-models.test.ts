import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { providers } from '../../src/providers/index.ts'
import { enabledModels } from '../../src/store/records/channels.ts'
import { type Gateway, oneEngine, suiteGateway } from '../support/gateway.ts'

/** A provider that returns the credential it received, or refuses and repeats the key in its error. */
async function startProvider() {
  const receivedRequests: { url: string; headers: IncomingMessage['headers'] }[] = []
  const server: Server = createServer((request, response) => {
    const { url = '', headers } = request
    receivedRequests.push({ url, headers })
    const key = `${headers.authorization ?? ''}${headers['x-api-key'] ?? ''}`.replace('Bearer ', '')
    const isRefused = key.startsWith('bad')
    response.writeHead(isRefused ? 401 : 200, { 'content-type': 'application/json' })
    if (isRefused)
      response.end(
        JSON.stringify({ error: `key ${key} (${encodeURIComponent(key)}, ${key.split('|')[0]}) is wrong` }),
      )
    else if (key.startsWith('html')) response.end('<html></html>')
    else
      response.end(JSON.stringify({ data: [{ id: 'up-1' }, { id: 'up-2' }, { id: 'up-1' }, { no: 'id' }] }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: receivedRequests,
    close: () => new Promise(resolve => server.close(resolve)),
  }
}

for (const engine of oneEngine('sqlite')) {
  describe(`models of channels on ${engine}`, () => {
    const gateway = suiteGateway({ engine })
    let api: Gateway['api']
    let provider: Awaited<ReturnType<typeof startProvider>>
    before(async () => {
      provider = await startProvider()
      api = gateway.api
    })
    after(async () => {
      await provider.close()
    })

    const make = async (fields: object, mode = 'single') => {
      const { body, text } = await api('POST', '/api/channel/', {
        mode,
        channel: { name: 'c', type: 1, key: 'models-key', models: 'm', base_url: provider.url, ...fields },
      })
      assert.ok(body.data, text)
      return body.data.id as number
    }

    it('are fetched from the provider of a channel, with its key, by path or by query', async () => {
      const id = await make({ key: 'asking-key', openai_organization: 'org-1' })
      for (const path of [`/api/channel/fetch_models/${id}`, `/api/channel/fetch_models?id=${id}`]) {
        const { status, body } = await api('GET', path)
        assert.equal(status, 200)
        assert.deepEqual(body.data, ['up-1', 'up-2'])
        const { url, headers } = provider.asked.at(-1) ?? { url: '', headers: {} }
        assert.equal(url, '/v1/models')
        assert.equal(headers.authorization, 'Bearer asking-key')
        assert.equal(headers['openai-organization'], 'org-1')
      }
    })

    it('are fetched with an enabled key', async () => {
      const id = await make({ key: 'first-key,second-key' }, 'multi_to_single')
      await api('POST', `/api/channel/${id}/keys/0/status`, { status: 2 })
      assert.equal((await api('GET', `/api/channel/fetch_models/${id}`)).status, 200)
      assert.equal(provider.asked.at(-1)?.headers.authorization, 'Bearer second-key')
    })

    it('are fetched before a channel exists, in the form of existing clients', async () => {
      const ask = (body: object) => api('POST', '/api/channel/fetch_models', body)
      const { status, body } = await ask({ type: 1, base_url: provider.url, key: 'new-key' })
      assert.equal(status, 200)
      assert.deepEqual(body.data, ['up-1', 'up-2'])
      await ask({ type: 14, base_url: `${provider.url}/v1`, key: 'ant-key' })
      assert.equal(provider.asked.at(-1)?.headers['x-api-key'], 'ant-key')
      assert.match(provider.asked.at(-1)?.url ?? '', /^\/v1\/models/)
      await ask({ type: 1, base_url: provider.url, key: 'several-1\nseveral-2' })
      assert.equal(provider.asked.at(-1)?.headers.authorization, 'Bearer several-1')
      await ask({ type: 39, base_url: provider.url, key: 'cf-key', setting: '{"account_id":"acc"}' })
      assert.match(provider.asked.at(-1)?.url ?? '', /^\/client\/v4\/accounts\/acc\/ai\/models/)
    })

    it('come from the simulator as from any provider', async () => {
      const simulator = await gateway.simulator()
      const { body } = await api('POST', '/api/channel/fetch_models', {
        type: 8,
        base_url: simulator.url,
        key: 'any',
      })
      assert.ok(body.data.includes('sim-small'))
    })

    it('report the provider’s error, never the key', async () => {
      const key = 'bad:secret+part/1234|more-secret'
      const id = await make({ key })
      const replies = [
        await api('GET', `/api/channel/fetch_models/${id}`),
        await api('POST', '/api/channel/fetch_models', { type: 1, base_url: provider.url, key }),
      ]
      for (const { status, body, text } of replies) {
        assert.equal(status, 502)
        assert.equal(body.code, 'upstream_error')
        assert.match(body.message, /401.*is wrong/)
        for (const part of [key, encodeURIComponent(key), 'secret+part/1234', 'more-secret'])
          assert.ok(!text.includes(part), `${part} in ${text}`)
      }
    })

    it('respond 502 if the provider does not respond, or not with JSON', async () => {
      const nobody = await api('POST', '/api/channel/fetch_models', {
        type: 1,
        base_url: 'http://127.0.0.1:1',
        key: 'nobody-key',
      })
      assert.equal(nobody.status, 502)
      assert.ok(!nobody.text.includes('nobody-key'))
      const html = { type: 1, base_url: provider.url, key: 'html' }
      assert.equal((await api('POST', '/api/channel/fetch_models', html)).status, 502)
    })

    it('are refused by field if the provider does not list them', async () => {
      const refused = async (body: object, path: string) => {
        const reply = await api('POST', '/api/channel/fetch_models', body)
        assert.equal(reply.status, 400, reply.text)
        assert.equal(reply.body.errors[0].path, path)
      }
      await refused({ key: 'k' }, 'type')
      await refused({ type: 28, key: 'k' }, 'type')
      await refused({ type: 8, key: 'k' }, 'base_url')
      await refused({ type: 39, base_url: provider.url, key: 'k' }, 'setting.account_id')
      await refused({ type: 1, base_url: 'http://169.254.169.254', key: 'k' }, 'base_url')
      await refused({ type: 1, base_url: provider.url, key: 'k\u0000' }, 'key')
      assert.equal((await api('GET', '/api/channel/fetch_models/999999')).status, 404)
      assert.equal((await api('GET', '/api/channel/fetch_models')).status, 400)
    })

    it('are enabled while a channel of status 1 lists them', async () => {
      const a = await make({ models: 'only-a,both' })
      const b = await make({ models: 'both,ONLY-B' })
      const listed = async () => (await api('GET', '/api/channel/models_enabled')).body.data as string[]
      const has = async (...names: string[]) => {
        const models = await listed()
        return names.map(name => models.includes(name))
      }
      assert.deepEqual(await has('only-a', 'both', 'ONLY-B', 'only-b'), [true, true, true, false])
      assert.equal((await listed()).filter(name => name === 'both').length, 1)
      await api('POST', `/api/channel/${a}/status`, { status: 2 })
      assert.deepEqual(await has('only-a', 'both'), [false, true])
      await gateway.db.updateTable('channels').set({ status: 3 }).where('id', '=', b).execute()
      assert.deepEqual(await has('both', 'ONLY-B'), [false, false])
      await api('POST', `/api/channel/${a}/status`, { status: 1 })
      await api('PUT', '/api/channel/', { id: a, models: 'only-a' })
      assert.deepEqual(await has('only-a', 'both'), [true, false])
      assert.deepEqual(await enabledModels(gateway.db), await listed())
    })

    it('are returned by name, as entries of the OpenAI format', async () => {
      const { body } = await api('GET', '/api/channel/models')
      const entry = body.data.find((model: { id: string }) => model.id === 'gpt-4o')
      assert.deepEqual(
        { ...entry, created: typeof entry.created },
        { id: 'gpt-4o', object: 'model', created: 'number', owned_by: 'openai' },
      )
      assert.ok(body.data.length > 100)
    })

    it('belong to channel types, each listed with its required fields', async () => {
      const { body } = await api('GET', '/api/channel/types')
      assert.equal(body.data.length, providers.length)
      const custom = body.data.find(({ type }: { type: number }) => type === 8)
      assert.equal(custom.name, 'Custom')
      assert.equal(custom.fields[0].name, 'base_url')
      assert.equal(custom.fields[0].required, true)
      assert.equal(custom.lists_models, true)
      assert.deepEqual(Object.keys(custom).sort(), [
        'base_url',
        'fields',
        'formats',
        'key_hint',
        'lists_models',
        'name',
        'operations',
        'type',
      ])
    })

    it('are not available to users', async () => {
      const { accessToken: token } = await gateway.createUser()
      for (const [method, path, body] of [
        ['GET', '/api/channel/fetch_models/1', undefined],
        ['GET', '/api/channel/fetch_models?id=1', undefined],
        ['POST', '/api/channel/fetch_models', { type: 1, base_url: provider.url, key: 'k' }],
        ['GET', '/api/channel/models', undefined],
        ['GET', '/api/channel/models_enabled', undefined],
        ['GET', '/api/channel/types', undefined],
      ] as const)
        assert.equal((await api(method, path, body, { token })).status, 403, path)
    })
  })
}
