import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { startSimulator } from '../../simulator/server.ts'
import { examineGateway } from '../../src/app/doctor/doctor.ts'
import { startGateway, suiteGateway } from '../support/gateway.ts'
import { startLineReceiver } from '../support/line-receiver.ts'
import { startOtlpReceiver } from '../support/otlp-receiver.ts'
import { startConnectProxy } from '../support/outbound-proxies.ts'
import { PRIVATE_CA, PRIVATE_SERVER } from '../support/private-ca.ts'
import { newGround, startServer, until } from '../support/process.ts'
import { createResources } from '../support/relay.ts'

const MODELS = JSON.stringify({ object: 'list', data: [{ id: 'listed', object: 'model' }] })

describe('the network of the gateway', () => {
  const env: Record<string, string> = {}
  const folder = mkdtempSync(join(tmpdir(), 'sluice-network-'))
  const requests: string[] = []
  const provider = createHttpsServer(PRIVATE_SERVER, (request, response) => {
    requests.push(`${request.method} ${request.url}`)
    response.setHeader('content-type', 'application/json')
    request.resume().on('end', () => response.end(MODELS))
  })
  let proxy: Awaited<ReturnType<typeof startConnectProxy>>
  let port = 0
  before(async () => {
    proxy = await startConnectProxy({
      credentials: { username: 'gate', password: 'way-password' },
      names: { 'provider.test': '127.0.0.1' },
    })
    await new Promise<void>(resolve => provider.listen(0, '127.0.0.1', () => resolve()))
    port = (provider.address() as AddressInfo).port
    writeFileSync(join(folder, 'ca.pem'), PRIVATE_CA)
    Object.assign(env, {
      SLUICE_PROXY: `http://gate:way-password@127.0.0.1:${proxy.port}`,
      SLUICE_NO_PROXY: `10.0.0.0/8 localhost:${port}`,
      SLUICE_CA_CERTS: join(folder, 'ca.pem'),
    })
  })
  const gateway = suiteGateway({ engine: 'sqlite', env })
  after(async () => {
    provider.closeAllConnections()
    await new Promise<void>(resolve => provider.close(() => resolve()))
    await proxy.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function createChannel(host: string, setting = {}) {
    proxy.targets.length = 0
    const { body } = await gateway.api('POST', '/api/channel/', {
      name: host,
      type: 1,
      key: 'k',
      base_url: `https://${host}:${port}`,
      models: [`model of ${host} ${JSON.stringify(setting)}`],
      setting,
    })
    const [model] = body.data.models
    const { data } = (await gateway.api('POST', '/api/route/explain', { model })).body
    return { id: body.data.id, network: [...data.steps, ...data.passed_over][0].network }
  }
  const test = async (id: number) => (await gateway.api('GET', `/api/channel/test/${id}`)).body.data
  const list = async (id: number) => (await gateway.api('GET', `/api/channel/fetch_models/${id}`)).body.data

  it('has a proxy for every host that is not listed, and trusts the certificates of its file', async () => {
    const { id, network } = await createChannel('provider.test')
    assert.deepEqual(await list(id), ['listed'])
    assert.match((await test(id)).error ?? '', /^(?!.*(?:certificate|proxy))/)
    assert.deepEqual(proxy.targets, [`provider.test:${port}`, `provider.test:${port}`])
    assert.deepEqual(
      [network.proxy, network.proxy_source, network.names_resolved_by, network.ca],
      [`http://127.0.0.1:${proxy.port}`, 'gateway', 'proxy', ['gateway']],
    )
  })

  it('connects directly to a listed host, and for a channel that asks for it', async () => {
    for (const { id, network } of [
      await createChannel('localhost'),
      await createChannel('127.0.0.1', { proxy: 'direct' }),
    ]) {
      assert.deepEqual(await list(id), ['listed'])
      assert.deepEqual([network.proxy, proxy.targets], [null, []])
    }
  })

  it('is used for alerts too', async () => {
    const target = { name: 'hook', type: 'webhook', url: `https://provider.test:${port}/hook` }
    const { body } = await gateway.api('POST', '/api/alert/target/', target)
    const trial = await gateway.api('POST', `/api/alert/target/${body.data.id}/test`)
    assert.equal(trial.status, 200, trial.text)
    // Only the proxy knows the name.
    assert.ok(requests.includes('POST /hook'))
  })
})

describe('telemetry and shipping', () => {
  it('use the proxy of the gateway, which resolves the names of their receivers', async test => {
    const proxy = await startConnectProxy({
      credentials: { username: 'gate', password: 'way-password' },
      names: { 'otlp.test': '127.0.0.1', 'lines.test': '127.0.0.1' },
    })
    const otlp = await startOtlpReceiver()
    const lines = await startLineReceiver()
    const simulator = await startSimulator()
    const replaceHost = (url: string, name: string) => url.replace('127.0.0.1', name)
    const server = await startServer({
      ...(await newGround('sqlite')),
      env: {
        SLUICE_PROXY: `http://gate:way-password@127.0.0.1:${proxy.port}`,
        OTEL_EXPORTER_OTLP_ENDPOINT: `${replaceHost(otlp.url, 'otlp.test')}/otel/`,
        OTEL_METRIC_EXPORT_INTERVAL: '1000',
        SLUICE_SHIP_USAGE: `${replaceHost(lines.url, 'lines.test')}/usage`,
        SLUICE_SHIP_AUDIT: `${replaceHost(lines.url, 'lines.test')}/audit`,
        SLUICE_SHIP_REQUESTS: `${replaceHost(lines.url, 'lines.test')}/requests`,
      },
    })
    test.after(async () => {
      await server.stop()
      await simulator.close()
      await lines.close()
      await otlp.close()
      await proxy.close()
    })
    const { serve, newToken } = createResources(server.api, simulator.url)
    const { model } = await serve('sim-words-4')
    const { key } = await newToken()
    const body = { model, messages: [{ role: 'user', content: 'Hello!' }] }
    const { headers } = await server.api('POST', '/v1/chat/completions', body, { token: key })
    const id = headers.get('x-request-id')
    await until('the span', () =>
      otlp.spans().find(({ attributes }) => attributes['sluice.request.id'] === id),
    )
    for (const path of ['/usage', '/requests'])
      await until(path, () => lines.lines(path).find(line => line.request_id === id))
    await until('/audit', () => lines.lines('/audit').find(line => line.action === 'token.create'))
    const portOf = (url: string) => new URL(url).port
    // The provider is on 127.0.0.1, which SLUICE_NO_PROXY contains by default.
    assert.deepEqual([...new Set(proxy.targets)].sort(), [
      `lines.test:${portOf(lines.url)}`,
      `otlp.test:${portOf(otlp.url)}`,
    ])
  })
})

describe('sluice doctor', () => {
  it('reports a proxy that cannot be reached, without its password, and one that is not used', async () => {
    const SLUICE_DATA = join(tmpdir(), 'sluice-no-such-directory')
    const outgoing = async (env: Record<string, string>) =>
      (await examineGateway({ SLUICE_DATA, PORT: '0', ...env })).filter(({ check }) => check === 'outgoing')
    assert.deepEqual(await outgoing({ HTTPS_PROXY: 'http://proxy' }), [
      { check: 'outgoing', level: 'warning', message: 'HTTPS_PROXY is not used; set SLUICE_PROXY' },
    ])
    const [proxy, names] = await outgoing({
      SLUICE_PROXY: 'socks5://ann:way-password@127.0.0.1:1',
      SLUICE_DNS_SERVERS: '192.0.2.1,[2001:db8::1]:53',
    })
    assert.equal(proxy?.level, 'failure')
    assert.match(proxy?.message ?? '', /^the proxy socks5:\/\/127\.0\.0\.1:1 cannot be reached/)
    assert.equal(names?.message, 'names are resolved by 192.0.2.1, [2001:db8::1]:53')
  })
})

describe('SLUICE_PRIVATE_UPSTREAMS=deny with a proxy', () => {
  it('has the gateway resolve names, and allows listed proxies only', async () => {
    const proxy = await startConnectProxy()
    const gateway = await startGateway({
      engine: 'sqlite',
      env: {
        SLUICE_PRIVATE_UPSTREAMS: 'deny',
        SLUICE_PRIVATE_PROXIES: `127.0.0.1:${proxy.port}`,
      },
    })
    try {
      const create = (setting: object) =>
        gateway.api('POST', '/api/channel/', {
          name: 'c',
          type: 1,
          key: 'k',
          base_url: 'https://name.of-a-private-address.localhost.',
          models: ['m'],
          setting,
        })
      const refused = await create({ proxy: 'http://127.0.0.1:1' })
      assert.equal(refused.status, 400)
      assert.equal(refused.body.errors[0].path, 'base_url')
      const channelFields = {
        name: 'c',
        type: 1,
        key: 'k',
        models: ['m'],
        base_url: 'https://resolves-nowhere.invalid',
      }
      const other = await gateway.api('POST', '/api/channel/', {
        ...channelFields,
        setting: { proxy: 'http://127.0.0.1:1' },
      })
      assert.equal(other.body.errors[0].path, 'setting.proxy')
      const { body } = await gateway.api('POST', '/api/channel/', {
        ...channelFields,
        setting: { proxy: `http://127.0.0.1:${proxy.port}` },
      })
      const tested = await gateway.api('GET', `/api/channel/test/${body.data.id}`)
      assert.match(tested.body.data.error, /ENOTFOUND|EAI_AGAIN/)
      // The name was not passed to the proxy, which would have resolved it to any address.
      assert.deepEqual(proxy.targets, [])
    } finally {
      await gateway.close()
      await proxy.close()
    }
  })
})
