import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { connect, type PeerCertificate } from 'node:tls'
import { readConfig } from '../../src/app/config.ts'
import { createTlsListener } from '../../src/http/tls.ts'
import { RENEWED_CERTIFICATE, RENEWED_KEY, TEST_CERTIFICATE, TEST_KEY } from '../support/certificate.ts'
import {
  describeOverServers,
  type Gateway,
  ROOT_PASSWORD,
  ROOT_TOKEN,
  startGateway,
} from '../support/gateway.ts'
import { newDirectory, run, until } from '../support/process.ts'

const MAX_CONNECTIONS = 50

type Answer = { readonly status: number; readonly cookie: string; readonly text: string }

describeOverServers('TLS of the gateway itself', http => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'))
  const [certFile, keyFile] = [join(folder, 'certificate.pem'), join(folder, 'key.pem')]
  let gateway: Gateway
  let port: number
  let token: string

  const call = (path: string, body?: unknown, bearer = token) =>
    new Promise<Answer>((resolve, reject) => {
      const outgoing = request(
        {
          port,
          host: '127.0.0.1',
          servername: 'localhost',
          ca: TEST_CERTIFICATE,
          method: body === undefined ? 'GET' : 'POST',
          path,
          headers: {
            authorization: `Bearer ${bearer}`,
            'content-type': 'application/json',
            ...(body !== undefined && { 'content-length': String(Buffer.byteLength(JSON.stringify(body))) }),
          },
        },
        async response => {
          let text = ''
          for await (const chunk of response) text += chunk
          resolve({ status: response.statusCode ?? 0, cookie: String(response.headers['set-cookie']), text })
        },
      )
      outgoing.on('error', reject)
      outgoing.end(body === undefined ? undefined : JSON.stringify(body))
    })

  /** The name in the certificate that a new connection gets. */
  const subject = () =>
    new Promise<string>((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
        const { subject: name } = socket.getPeerCertificate() as PeerCertificate
        socket.destroy()
        resolve(String(name.CN))
      })
      socket.once('error', reject)
    })

  before(async () => {
    writeFileSync(certFile, TEST_CERTIFICATE)
    writeFileSync(keyFile, TEST_KEY)
    gateway = await startGateway({
      engine: 'sqlite',
      http,
      env: {
        SLUICE_TLS_CERT: certFile,
        SLUICE_TLS_KEY: keyFile,
        SLUICE_MAX_CONNECTIONS: String(MAX_CONNECTIONS),
      },
    })
    port = Number(new URL(gateway.url).port)
    const simulator = await gateway.simulator()
    const channel = { name: 'simulated', type: 8, key: 'k', base_url: simulator.url, models: ['gpt-4o'] }
    const reply = await call('/api/channel/', { mode: 'single', channel }, ROOT_TOKEN)
    assert.equal(reply.status, 200, reply.text)
    const { data } = JSON.parse(
      (await call('/api/token/', { name: 't', remain_quota: 500_000 }, ROOT_TOKEN)).text,
    )
    token = data.key ?? data.token ?? data
  })
  after(async () => {
    await gateway.close()
    rmSync(folder, { recursive: true, force: true })
  })

  it('serves the relay, whole and streamed, and the management API', async () => {
    const messages = [{ role: 'user', content: 'hello' }]
    for (const stream of [false, true]) {
      const { status, text } = await call('/v1/chat/completions', { model: 'gpt-4o', stream, messages })
      assert.equal(status, 200, text)
      assert.match(text, stream ? /data: \[DONE\]\n\n$/ : /"choices"/)
    }
    assert.equal((await call('/readyz')).status, 200)
  })

  it('marks the session cookie as Secure', async () => {
    const { status, cookie } = await call('/api/user/login', { username: 'root', password: ROOT_PASSWORD })
    assert.equal(status, 200)
    assert.match(cookie, /; Secure/)
  })

  it('does not answer plain HTTP', async () => {
    await assert.rejects(fetch(`http://127.0.0.1:${port}/readyz`))
  })

  it('uses a renewed certificate for new connections, and keeps it if the next one is broken', async () => {
    assert.equal(await subject(), 'localhost')
    writeFileSync(keyFile, RENEWED_KEY)
    writeFileSync(certFile, RENEWED_CERTIFICATE)
    await until('the renewed certificate', async () => ((await subject()) === 'renewed' ? true : undefined))
    writeFileSync(certFile, 'no certificate')
    writeFileSync(keyFile, 'no key')
    // It is read again within some seconds. Until then and afterwards, the previous one is used.
    assert.equal(await subject(), 'renewed')
    writeFileSync(keyFile, TEST_KEY)
    writeFileSync(certFile, TEST_CERTIFICATE)
    await until('the first certificate', async () => ((await subject()) === 'localhost' ? true : undefined))
  })

  it('drops connections above the limit, as without TLS', async () => {
    const opened = await Promise.all(
      Array.from({ length: MAX_CONNECTIONS * 2 }, async () => {
        const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false })
        const isOpen = await new Promise<boolean>(resolve => {
          socket.once('secureConnect', () => resolve(true)).once('close', () => resolve(false))
          socket.on('error', () => resolve(false))
        })
        return { socket, isOpen }
      }),
    )
    const count = opened.filter(({ isOpen }) => isOpen).length
    for (const { socket } of opened) socket.destroy()
    assert.ok(count > 0 && count <= MAX_CONNECTIONS * 1.2, `${count} connections`)
    await until('the gateway to be free', async () => {
      try {
        return (await call('/readyz')).status === 200 ? true : undefined
      } catch {
        return undefined
      }
    })
  })

  it('drains', async () => {
    gateway.startDraining()
    assert.equal((await call('/readyz')).status, 503)
  })
})

describe('a gateway with a wrong certificate', () => {
  const folder = newDirectory()
  const cert = join(folder, 'cert.pem')
  const key = join(folder, 'key.pem')
  const otherKey = join(folder, 'other.pem')
  before(() => {
    writeFileSync(cert, TEST_CERTIFICATE)
    writeFileSync(key, TEST_KEY)
    writeFileSync(otherKey, RENEWED_KEY)
  })

  it('names the settings and exits with 78', async () => {
    const env = { PORT: '0', SLUICE_TLS_CERT: '/nowhere', SLUICE_TLS_KEY: '/nowhere' }
    const { code, stderr } = await run(['start'], { env })
    assert.match(stderr, /^sluice: SLUICE_TLS_CERT and SLUICE_TLS_KEY cannot/)
    assert.equal(code, 78)
  })

  it('names the setting that is missing', () => {
    assert.throws(() => readConfig({ SLUICE_TLS_CERT: cert }), /SLUICE_TLS_KEY must be set/)
    assert.throws(() => readConfig({ SLUICE_TLS_KEY: key }), /SLUICE_TLS_CERT must be set/)
  })

  for (const [certFile, keyFile, message] of [
    [key, key, /key\.pem contains no valid certificate/],
    [cert, cert, /cert\.pem contains no private key/],
    [cert, otherKey, /key in \S+other\.pem does not belong to the certificate/],
  ] as const)
    it(`says which file is wrong: ${message.source}`, () => {
      const options = { certFile, keyFile, onReload() {}, onFailure() {} }
      assert.throws(() => createTlsListener(createServer(), options), { name: 'TlsFilesError', message })
    })
})
