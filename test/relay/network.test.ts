import assert from 'node:assert/strict'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { after, before, describe, it } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { suiteGateway } from '../support/gateway.ts'
import { startConnectProxy, startDnsServer, startSocksProxy } from '../support/outbound-proxies.ts'
import { PRIVATE_CA, PRIVATE_CLIENT, PRIVATE_SERVER } from '../support/private-ca.ts'
import { until } from '../support/process.ts'

const COMPLETION = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
})
const MODELS = JSON.stringify({ object: 'list', data: [{ id: 'listed', object: 'model' }] })

/** A provider with a certificate of a private CA, which serves only clients with a certificate of it. */
const provider = createHttpsServer(
  { ...PRIVATE_SERVER, ca: PRIVATE_CA, requestCert: true, rejectUnauthorized: true },
  (request, response) => {
    clients.push((request.socket as TLSSocket).getPeerCertificate().subject.CN as string)
    request.resume().on('end', () => {
      response.setHeader('content-type', 'application/json')
      response.end(request.url?.endsWith('/models') ? MODELS : COMPLETION)
    })
  },
)
const clients: string[] = []
const CREDENTIALS = { username: 'ann', password: 'proxy-password-1' }
const TLS = { ca: PRIVATE_CA, client_cert: PRIVATE_CLIENT.cert, client_key: PRIVATE_CLIENT.key }

type Proxies = Awaited<ReturnType<typeof startProxies>>
async function startProxies() {
  const [connect, socks, dns] = await Promise.all([
    startConnectProxy({ credentials: CREDENTIALS, names: { 'provider.test': '127.0.0.1' } }),
    startSocksProxy({ credentials: CREDENTIALS, names: { 'provider.test': '127.0.0.1' } }),
    startDnsServer({ 'provider.test': { a: '127.0.0.1' } }),
  ])
  return { connect, socks, dns }
}

for (const engine of ['sqlite', 'postgres'] as const)
  describe(`the network of a channel in ${engine}`, () => {
    const env: Record<string, string> = {}
    let proxies: Proxies
    let port = 0
    let token = ''
    let models = 0
    before(async () => {
      proxies = await startProxies()
      await new Promise<void>(resolve => provider.listen(0, '127.0.0.1', () => resolve()))
      port = (provider.address() as AddressInfo).port
      env.SLUICE_DNS_SERVERS = proxies.dns.address
      env.SLUICE_IP_FAMILY = 'ipv4only'
    })
    const gateway = suiteGateway({ engine, env })
    before(async () => {
      const created = await gateway.api('POST', '/api/token/', { name: 't', unlimited_quota: true })
      token = created.body.data.key
      await gateway.api('PUT', '/api/setting/', { allow_unpriced_models: true })
    })
    after(async () => {
      provider.closeAllConnections()
      await new Promise<void>(resolve => provider.close(() => resolve()))
      await Promise.all(Object.values(proxies).map(each => each.close()))
    })

    const proxyUrl = (scheme: string, { username, password } = CREDENTIALS) =>
      `${scheme}://${username}:${password}@127.0.0.1:${
        scheme.startsWith('socks') ? proxies.socks.port : proxies.connect.port
      }`

    async function createChannel(
      setting: Record<string, unknown>,
      host = 'provider.test',
      portOfHost: number = port,
    ) {
      const model = `model-${++models}`
      const created = await gateway.api('POST', '/api/channel/', {
        name: model,
        type: 1,
        key: 'sk-provider-key-1',
        base_url: `https://${host}:${portOfHost}`,
        models: [model],
        setting,
      })
      assert.equal(created.status, 200, created.text)
      return { id: created.body.data.id as number, model, view: created.body.data }
    }
    const chat = (model: string) =>
      gateway.api(
        'POST',
        '/v1/chat/completions',
        { model, messages: [{ role: 'user', content: 'hi' }] },
        { token },
      )
    const explain = async (model: string) => {
      const { body } = await gateway.api('POST', '/api/route/explain', { model })
      return body.data
    }
    const testError = async (id: number): Promise<string> =>
      (await gateway.api('GET', `/api/channel/test/${id}`)).body.data.error

    it('is the system without settings, with the DNS servers of the gateway', async () => {
      const { model } = await createChannel(TLS)
      const answer = await chat(model)
      assert.equal(answer.status, 200, answer.text)
      assert.equal(clients.at(-1), 'client')
      assert.ok(proxies.dns.questions.includes('provider.test A'))
      assert.ok(!proxies.dns.questions.includes('provider.test AAAA'))
      const [step] = (await explain(model)).steps
      assert.deepEqual(step.network, {
        proxy: null,
        proxy_source: null,
        names_resolved_by: 'gateway',
        dns_servers: [proxies.dns.address],
        ip_family: 'ipv4only',
        ca: ['channel'],
        client_cert: 'O=Sluice tests, CN=client',
        fault: null,
      })
    })

    for (const scheme of ['http', 'socks5', 'socks5h'] as const)
      it(`has a proxy by ${scheme}, for requests, tests and lists of models`, async () => {
        const { targets } = scheme === 'http' ? proxies.connect : proxies.socks
        targets.length = 0
        const { id, model, view } = await createChannel({ ...TLS, proxy: proxyUrl(scheme) })
        assert.equal((await chat(model)).status, 200)
        assert.equal(await testError(id), null)
        const listed = await gateway.api('GET', `/api/channel/fetch_models/${id}`)
        assert.deepEqual(listed.body.data, ['listed'], listed.text)
        // The relay and its test share a connection; the list of models has its own.
        const host = scheme === 'socks5' ? '127.0.0.1' : 'provider.test'
        assert.deepEqual(targets, [`${host}:${port}`, `${host}:${port}`])
        const { network } = (await explain(model)).steps[0]
        const label = proxyUrl(scheme).replace(/\/\/.*@/, '//')
        assert.deepEqual(
          [network.proxy, network.proxy_source, network.names_resolved_by],
          [label, 'channel', scheme === 'socks5' ? 'gateway' : 'proxy'],
        )
        assert.equal(view.setting.proxy, label.replace('//', '//…@'))
      })

    it('has errors that say what failed, without secrets', async () => {
      const cases: readonly [Record<string, unknown>, RegExp][] = [
        [
          { ...TLS, proxy: proxyUrl('http', { username: 'ann', password: 'wrong-password' }) },
          /proxy http:\/\/127\.0\.0\.1:\d+ refused the user name or password \(407\)/,
        ],
        [
          { ...TLS, proxy: 'http://127.0.0.1:1' },
          /proxy http:\/\/127\.0\.0\.1:1 cannot be reached: ECONNREFUSED/,
        ],
        [
          { ...TLS, proxy: proxyUrl('socks5h', { username: 'ann', password: 'wrong-password' }) },
          /proxy socks5h:\/\/127\.0\.0\.1:\d+ refused the user name or password/,
        ],
        [
          { client_cert: TLS.client_cert, client_key: TLS.client_key },
          /certificate of the server is not trusted/,
        ],
        [{ ca: PRIVATE_CA }, /server refused the client certificate, or requires one/],
      ]
      for (const [setting, expected] of cases) {
        const { id, model } = await createChannel(setting)
        assert.match(await testError(id), expected)
        const answer = await chat(model)
        assert.ok(answer.status >= 500, answer.text)
        assert.doesNotMatch(answer.text, /wrong-password|127\.0\.0\.1/)
        for (let turn = 0; turn < 4; turn++) await chat(model)
        const [skippedChannel] = (await explain(model)).passed_over
        assert.equal(skippedChannel.reason, 'resting')
        assert.match(skippedChannel.detail, expected)
        await gateway.api('DELETE', `/api/channel/${id}`)
      }
      const { id } = await createChannel(TLS, 'missing.test')
      assert.match(
        await testError(id),
        /missing\.test could not be resolved by SLUICE_DNS_SERVERS \(ENOTFOUND\)/,
      )
    })

    it('has errors that say what is wrong with the TLS of the server, without a proxy and with one', async test => {
      const start = async (server: Server) => {
        await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
        test.after(() => server.close())
        return (server.address() as AddressInfo).port
      }
      // The certificate of a client must not serve as the one of a server.
      const untrusted = await start(createHttpsServer(PRIVATE_CLIENT, (_request, response) => response.end()))
      const plain = await start(
        createServer(socket => socket.once('data', () => socket.end('HTTP/1.1 400\r\n\r\n'))),
      )
      const closing = await start(createServer(socket => socket.once('data', () => socket.end())))
      const direct = { ca: PRIVATE_CA }
      const proxied = { ca: PRIVATE_CA, proxy: proxyUrl('http') }
      const cases: readonly [Record<string, unknown>, number, RegExp][] = [
        [direct, untrusted, /^connect: the certificate of the server is not trusted \(INVALID_PURPOSE\)$/],
        [proxied, untrusted, /^connect: the certificate of the server is not trusted \(INVALID_PURPOSE\)$/],
        [direct, plain, /^connect: the server did not answer with TLS \(ERR_SSL_\w+\)$/],
        [proxied, plain, /^connect: the server did not answer with TLS \(ERR_SSL_\w+\)$/],
        [direct, closing, /^connect: (?:connection closed|ECONNRESET)$/],
        [proxied, closing, /^connect: (?:connection closed|ECONNRESET)$/],
      ]
      for (const [setting, portOfHost, expected] of cases) {
        const { id, model } = await createChannel(setting, 'provider.test', portOfHost)
        assert.match(await testError(id), expected)
        const answer = await chat(model)
        assert.equal(answer.status, 502, answer.text)
        assert.match(answer.body.error.message, /last: connection failed/)
      }
    })

    it('is not taken for another: the next channel serves the request', async () => {
      const { model } = await createChannel(TLS)
      await gateway.api('POST', '/api/channel/', {
        name: 'first',
        type: 1,
        key: 'k',
        priority: 10,
        base_url: `https://provider.test:${port}`,
        models: [model],
        setting: { ...TLS, proxy: 'socks5://127.0.0.1:1' },
      })
      const answer = await chat(model)
      assert.equal(answer.status, 200)
      const row = await until('the usage row', async () => {
        const log = await gateway.api('GET', `/api/log/?model_name=${model}`)
        return log.body.data.items[0]
      })
      assert.match(JSON.stringify(row), /proxy socks5:\/\/127\.0\.0\.1:1 cannot be reached/)
    })

    it('has its secrets encrypted at rest and masked everywhere', async () => {
      const proxy = proxyUrl('http')
      const { id, view } = await createChannel({ ...TLS, proxy })
      const stored = await gateway.db
        .selectFrom('channels')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirstOrThrow()
      const keyLine = PRIVATE_CLIENT.key.split('\n')[1] as string
      for (const text of [JSON.stringify(stored), JSON.stringify(view)]) {
        assert.ok(!text.includes(CREDENTIALS.password))
        assert.ok(!text.includes(keyLine))
      }
      const audit = await gateway.api('GET', '/api/audit/?page_size=100')
      assert.ok(!audit.text.includes(CREDENTIALS.password) && !audit.text.includes(keyLine))
      const exported = JSON.stringify(await gateway.operations.exportConfig({}))
      assert.ok(!exported.includes(CREDENTIALS.password) && !exported.includes(keyLine))

      // What was read can be sent back, and keeps the secrets.
      const saved = await gateway.api('PUT', '/api/channel/', { id, setting: view.setting, remark: 'x' })
      assert.equal(saved.status, 200, saved.text)
      assert.equal(await testError(id), null)
      const copied = await gateway.api('POST', `/api/channel/copy/${id}`)
      assert.equal(await testError(copied.body.data.id), null)
      // An empty value removes a member.
      const cleared = await gateway.api('PUT', '/api/channel/', {
        id,
        setting: { ...view.setting, proxy: '' },
      })
      assert.ok(!('proxy' in cleared.body.data.setting))
      const { ok, lines } = await gateway.operations.verify({})
      assert.ok(ok, lines.join('\n'))
    })

    it('cannot be redirected by an Admin who does not know the key', async () => {
      const { id } = await createChannel(TLS)
      const admin = await gateway.createUser({ role: 10 })
      for (const changed of [{ proxy: 'http://127.0.0.1:1' }, { ca: PRIVATE_SERVER.cert }]) {
        const refused = await gateway.api(
          'PUT',
          '/api/channel/',
          { id, setting: { ...TLS, ...changed } },
          { token: admin.accessToken },
        )
        assert.deepEqual([refused.status, refused.body.errors[0].path], [403, 'key'])
      }
    })

    const BAD: readonly [string, Record<string, unknown>, RegExp][] = [
      ['proxy', { proxy: 'ftp://proxy:21' }, /must begin with http:\/\//],
      ['proxy', { proxy: 'http://u:very-secret@proxy:3128/path' }, /must not have a path/],
      ['proxy', { proxy: 'http://169.254.169.254:80' }, /linkLocal/],
      ['proxy', { proxy: 3128 }, /must be a string/],
      ['ca', { ca: 'no certificate' }, /must be one or more valid certificates/],
      ['ca', { ca: `${PRIVATE_CA}${' '.repeat(33_000)}` }, /at most 32768 bytes/],
      ['client_key', { client_cert: TLS.client_cert }, /is required with client_cert/],
      ['client_cert', { client_key: TLS.client_key }, /is required with client_key/],
      ['client_key', { ...TLS, client_key: 'no key' }, /must be an unencrypted private key/],
      ['client_key', { ...TLS, client_key: PRIVATE_SERVER.key }, /must be the key of the first certificate/],
      ['ip_family', { ip_family: 'ipv5' }, /must be one of ipv4first/],
    ]
    for (const [name, setting, message] of BAD)
      it(`is refused with an invalid ${name}: ${message.source}`, async () => {
        const refused = await gateway.api('POST', '/api/channel/', {
          name: 'bad',
          type: 1,
          key: 'k',
          setting,
        })
        assert.equal(refused.status, 400)
        assert.equal(refused.body.errors[0].path, `setting.${name}`)
        assert.match(refused.body.errors[0].message, message)
        assert.doesNotMatch(refused.text, /very-secret/)
      })
  })
