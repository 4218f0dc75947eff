import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { isPublicHost } from '../../../src/http/exposure.ts'
import { type Gateway, startGateway } from '../../support/gateway.ts'
import { logLines, newDirectory, startServer, until } from '../../support/process.ts'

type Need = { readonly kind: string; readonly name: string; readonly target: string; readonly level: string }
const KINDS = ['public_without_tls', 'untrusted_proxy']

async function exposureIn(api: Gateway['api'], token?: string): Promise<Need[]> {
  const { body, text } = await api('GET', '/api/attention', undefined, token ? { token } : {})
  assert.ok(body.data, text)
  return body.data.filter(({ kind }: Need) => KINDS.includes(kind))
}

describe('an address that the gateway listens on', () => {
  it('is public unless only this machine or a private network reaches it', () => {
    for (const host of ['0.0.0.0', '::', '203.0.113.9', '2001:db8::1', '2606:4700::1', 'gateway.example.com'])
      assert.equal(isPublicHost(host), true, host)
    for (const host of ['127.0.0.1', '127.8.8.8', '::1', 'localhost', '10.1.2.3', '192.168.1.2', 'fd00::1'])
      assert.equal(isPublicHost(host), false, host)
  })
})

describe('forwarding headers of a peer that is not trusted', () => {
  const HEADERS = ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host', 'forwarded']

  for (const header of HEADERS)
    it(`are shown to administrators, with the address of the peer: ${header}`, async () => {
      const gateway = await startGateway({ engine: 'sqlite' })
      try {
        const user = await gateway.createUser()
        assert.deepEqual(await exposureIn(gateway.api), [])
        await gateway.api('POST', '/v1/chat/completions', {}, { token: 'sk-x', headers: { [header]: 'x' } })
        await gateway.api('GET', '/api/user/self', undefined, { headers: { [header]: '198.51.100.1' } })
        const [need, ...more] = await exposureIn(gateway.api)
        assert.deepEqual(more, [])
        assert.deepEqual(
          [need?.kind, need?.level, need?.name, need?.target],
          ['untrusted_proxy', 'warning', '127.0.0.1', 'setting:SLUICE_TRUSTED_PROXIES'],
        )
        assert.deepEqual(await exposureIn(gateway.api, user.accessToken), [])
      } finally {
        await gateway.close()
      }
    })

  it('are accepted from a configured proxy', async () => {
    const gateway = await startGateway({ engine: 'sqlite', env: { SLUICE_TRUSTED_PROXIES: '127.0.0.1' } })
    try {
      const headers = { 'x-forwarded-for': '198.51.100.1' }
      assert.equal((await gateway.api('GET', '/api/user/self', undefined, { headers })).status, 200)
      assert.deepEqual(await exposureIn(gateway.api), [])
    } finally {
      await gateway.close()
    }
  })
})

for (const workers of ['1', '2'])
  describe(`a start on all addresses without TLS, with workers: ${workers}`, () => {
    let server: Awaited<ReturnType<typeof startServer>>
    before(async () => {
      server = await startServer({
        dataDir: join(newDirectory(), 'data'),
        env: { HOST: '0.0.0.0', SLUICE_WORKERS: workers },
      })
    })
    after(() => server.stop())

    const warnings = (about: string) =>
      logLines(server.stdout()).filter(({ msg }) => String(msg).includes(about))

    it('logs one warning, and shows one in the console', async () => {
      const [warning] = await until('the warning', () => {
        const lines = warnings('HOST is a public address')
        return lines.length > 0 ? lines : undefined
      })
      assert.deepEqual([warning?.level, warning?.host], ['warn', '0.0.0.0'])
      for (let round = 0; round < 6; round++) {
        const [need] = await exposureIn(server.api)
        assert.deepEqual([need?.kind, need?.name], ['public_without_tls', '0.0.0.0'])
      }
      assert.equal(warnings('HOST is a public address').length, 1)
    })

    it('logs one warning about an untrusted proxy, whichever worker sees it', async () => {
      const headers = { 'x-forwarded-for': '198.51.100.1' }
      // Concurrently, so that they use several connections, which several workers accept.
      await Promise.all(
        Array.from({ length: 24 }, () => server.api('GET', '/api/user/self', undefined, { headers })),
      )
      await until('every worker to know', async () => {
        const exposures = await Promise.all(Array.from({ length: 6 }, () => exposureIn(server.api)))
        return exposures.every(needs => needs.some(({ kind }) => kind === 'untrusted_proxy'))
          ? true
          : undefined
      })
      const lines = warnings('Ignoring forwarding headers')
      assert.deepEqual(
        lines.map(({ level, peer }) => [level, peer]),
        [['warn', '127.0.0.1']],
      )
    })
  })
