import assert from 'node:assert/strict'
import { request } from 'node:https'
import { after, before, describe, it } from 'node:test'
import { type Simulator, startSimulator } from '../../../simulator/server.ts'
import { TEST_CERTIFICATE } from '../../support/certificate.ts'
import { EXAMPLE_PROXIES, startExampleProxy } from '../../support/example-proxy.ts'
import { ROOT_PASSWORD } from '../../support/gateway.ts'
import { newGround, type Server, startServer, until } from '../../support/process.ts'
import { skipWithout } from '../../support/programs.ts'
import { wavFile } from '../../support/wav.ts'

type Answer = {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly chunks: readonly string[]
}

type Call = {
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

const MODEL = 'sim-words-20-pace-50'
/** The client's address, which is not the proxy's. */
const CLIENT = '127.0.0.2'

for (const name of EXAMPLE_PROXIES)
  describe(`a gateway behind ${name}, configured as in packaging/proxy`, {
    skip: skipWithout(import.meta.filename, name),
  }, () => {
    let simulator: Simulator
    let server: Server
    let proxy: Awaited<ReturnType<typeof startExampleProxy>>
    let token: string

    const call = ({ method = 'POST', path, headers = {}, body }: Call): Promise<Answer> =>
      new Promise((resolve, reject) => {
        const outgoing = request(
          {
            port: proxy.port,
            host: '127.0.0.1',
            servername: 'localhost',
            ca: TEST_CERTIFICATE,
            localAddress: CLIENT,
            method,
            path,
            headers: {
              authorization: `Bearer ${token}`,
              host: 'gateway.example.com',
              ...(body !== undefined && { 'content-length': String(Buffer.byteLength(body)) }),
              ...headers,
            },
          },
          async response => {
            const chunks: string[] = []
            for await (const chunk of response) chunks.push(String(chunk))
            resolve({ status: response.statusCode ?? 0, headers: response.headers, chunks })
          },
        )
        outgoing.on('error', reject)
        outgoing.end(body)
      })

    before(async () => {
      simulator = await startSimulator({})
      server = await startServer({
        ...(await newGround('sqlite')),
        env: { SLUICE_TRUSTED_PROXIES: '127.0.0.1' },
      })
      const channel = {
        name: 'simulated',
        type: 8,
        key: 'k',
        base_url: simulator.url,
        models: [MODEL, 'whisper-1'],
      }
      await server.api('POST', '/api/channel/', { mode: 'single', channel })
      await server.api('POST', '/api/price/', { model: MODEL, input: 1, output: 1 })
      const { body } = await server.api('POST', '/api/token/', { name: 'proxied', remain_quota: 5_000_000 })
      token = body.data.key ?? body.data.token ?? body.data
      proxy = await startExampleProxy(name, server.port)
      await until(`${name} to answer`, async () => {
        const answer = await call({ method: 'GET', path: '/readyz' }).catch(() => undefined)
        return answer?.status === 200 ? true : undefined
      })
    })
    after(async () => {
      await proxy?.close()
      await server?.stop()
      await simulator?.close()
    })

    it('streams answers event by event', async () => {
      const { status, chunks } = await call({
        path: '/v1/chat/completions',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: MODEL, stream: true, messages: [{ role: 'user', content: 'hello' }] }),
      })
      assert.equal(status, 200)
      assert.ok(chunks.length > 5, `${chunks.length} chunks`)
      assert.match(chunks.join(''), /data: \[DONE\]\n\n$/)
    })

    it('takes uploads that are larger than the default of proxies', async () => {
      const file = wavFile(1_000)
      const boundary = 'boundary-of-the-parts'
      const body = Buffer.concat([
        Buffer.from(
          `--${boundary}\r\ncontent-disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n` +
            `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n`,
        ),
        file,
        Buffer.from(`\r\n--${boundary}--\r\n`),
      ])
      const { status, chunks } = await call({
        path: '/v1/audio/transcriptions',
        headers: { 'content-type': `multipart/form-data; boundary=${boundary}` },
        body,
      })
      assert.equal(status, 200, chunks.join(''))
      assert.match(chunks.join(''), new RegExp(String(file.length)))
    })

    it('tells the gateway the address of the client, and that it uses TLS', async () => {
      const { status, headers } = await call({
        path: '/api/user/login',
        headers: {
          'content-type': 'application/json',
          'sec-fetch-site': 'same-origin',
          // Only the proxy may name an address.
          'x-forwarded-for': '203.0.113.9',
        },
        body: JSON.stringify({ username: 'root', password: ROOT_PASSWORD }),
      })
      assert.equal(status, 200)
      assert.match(String(headers['set-cookie']), /; Secure/)
      const { body } = await server.api('GET', '/api/user/sessions')
      const addresses = JSON.stringify(body.data)
      assert.match(addresses, new RegExp(`"${CLIENT}"`))
    })

    it('passes on that a request is too large for the gateway', async () => {
      const { status, chunks } = await call({
        path: '/api/channel/',
        headers: { 'content-type': 'application/json' },
        body: Buffer.alloc(5 * 1024 * 1024, ' '),
      })
      // The credential is checked before the body is read.
      assert.ok([401, 413].includes(status), chunks.join(''))
      assert.match(String(chunks), /"code":/)
    })
  })
