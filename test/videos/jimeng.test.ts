import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { openVideos, type VideoRelay } from '../support/videos.ts'

const ACCESS = 'AKLTexample'
const SECRET = 'a-secret-that-never-travels'
const REQ_KEY = 'jimeng_t2v_v30'

const sha = (text: string) => createHash('sha256').update(text).digest('hex')
const hmac = (key: Buffer | string, text: string) => createHmac('sha256', key).update(text).digest()

/** What the vendor does with a request: signs what it received with the secret it knows. */
function isProven({ headers, method, url = '' }: IncomingMessage, body: string): boolean {
  const [, scope = '', names = '', signature] =
    /^HMAC-SHA256 Credential=AKLTexample\/([^,]+), SignedHeaders=([^,]+), Signature=(\w+)$/.exec(
      headers.authorization ?? '',
    ) ?? []
  const [day = '', region = '', service = ''] = scope.split('/')
  if (headers['x-content-sha256'] !== sha(body) || region !== 'cn-north-1' || service !== 'cv') return false
  const lines = names.split(';').map(name => `${name}:${headers[name]}\n`)
  const request = [method, '/', url.split('?')[1], lines.join(''), names, sha(body)].join('\n')
  const key = hmac(hmac(hmac(hmac(SECRET, day), region), service), 'request')
  const text = ['HMAC-SHA256', headers['x-date'], scope, sha(request)].join('\n')
  return hmac(key, text).toString('hex') === signature
}

type Answer = { readonly code: number; readonly message?: string; readonly data?: unknown }

describe('video jobs of Jimeng', () => {
  let relay: VideoRelay
  let vendor: Server
  let url: string
  let looks: Answer[] = []
  const submitted: Record<string, unknown>[] = []
  before(async () => {
    relay = await openVideos('sqlite')
    vendor = createServer((request, response) => {
      let body = ''
      request.on('data', chunk => {
        body += chunk
      })
      request.on('end', () => {
        if (request.url === '/film.mp4') return response.end('a film')
        const tell = (answer: Answer, status = 200) => {
          response.writeHead(status, { 'content-type': 'application/json' })
          response.end(JSON.stringify(answer))
        }
        if (!isProven(request, body)) return tell({ code: 50_400, message: 'the signature is wrong' }, 401)
        const parsedBody = JSON.parse(body)
        if (request.url?.includes('SubmitTask')) {
          submitted.push(parsedBody)
          if (parsedBody.prompt === 'forbidden') return tell({ code: 50_412, message: 'Text Risk Not Pass' })
          return tell({ code: 10_000, data: { task_id: '7392616336519610409' } })
        }
        assert.deepEqual(parsedBody, { req_key: REQ_KEY, task_id: '7392616336519610409' })
        const [now = { code: 50_500 }, ...later] = looks
        if (later.length > 0) looks = later
        return tell(now)
      })
    })
    await new Promise<void>(resolve => vendor.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`
  })
  after(async () => {
    await relay.gateway.close()
    vendor.close()
  })

  const offer = (key = `${ACCESS}|${SECRET}`) =>
    relay.offer(REQ_KEY, { per_second: 0.01 }, { type: 51, key, base_url: url })
  const good = { code: 10_000, data: { status: 'done', video_url: '' } }

  it('are signed, specified in frames, polled until they end, and downloaded', async () => {
    const { model } = await offer()
    const { id: tokenId, key, sdk } = await relay.open()
    looks = [
      { code: 10_000, data: { status: 'in_queue' } },
      { code: 50_429, message: 'too fast' },
      { ...good, data: { status: 'done', video_url: `${url}/film.mp4` } },
    ]
    const body = { model, prompt: 'A lake', duration: 10, width: 1280, height: 720, seed: 7 }
    const reply = await relay.api('POST', '/v1/videos', body, { token: key })
    assert.equal(reply.status, 200, reply.text)
    assert.deepEqual(submitted.at(-1), {
      req_key: REQ_KEY,
      prompt: 'A lake',
      frames: 241,
      aspect_ratio: '16:9',
      seed: 7,
    })
    assert.equal((await relay.untilEnded(sdk, reply.body.id)).status, 'completed')
    assert.equal(await (await sdk.videos.downloadContent(reply.body.id)).text(), 'a film')
    assert.equal((await relay.rowOf(tokenId)).cost, 10 * 10_000_000)
  })

  it('accept images as URLs or as base64, and not both', async () => {
    const { model } = await offer()
    const { key } = await relay.open()
    const png = Buffer.from('a picture, or so').toString('base64')
    const submit = (images: readonly string[]) =>
      relay.api('POST', '/v1/videos', { model, images }, { token: key })
    assert.equal((await submit(['https://h.example/a.png'])).status, 200)
    assert.deepEqual(submitted.at(-1)?.image_urls, ['https://h.example/a.png'])
    assert.equal((await submit([png])).status, 200)
    assert.deepEqual(submitted.at(-1)?.binary_data_base64, [png])
    const both = await submit(['https://h.example/a.png', png])
    assert.deepEqual([both.status, both.body.error.param], [400, 'image'])
  })

  it('that are rejected or expired report it, and an invalid key is an error of the key', async () => {
    const { model } = await offer()
    const { id: tokenId, key, sdk } = await relay.open()
    const refused = await relay.api('POST', '/v1/videos', { model, prompt: 'forbidden' }, { token: key })
    assert.deepEqual([refused.status, refused.body.error.code], [400, '50412'])
    assert.equal(await relay.usedBy(tokenId), 0)
    looks = [{ code: 10_000, data: { status: 'expired' } }]
    const late = await relay.api('POST', '/v1/videos', { model, prompt: 'late' }, { token: key })
    const ended = await relay.untilEnded(sdk, late.body.id)
    assert.deepEqual([ended.status, ended.error?.code], ['failed', 'expired'])
    const wrong = await offer(`${ACCESS}|not-the-secret`)
    const reply = await relay.api('POST', '/v1/videos', { model: wrong.model, prompt: 'x' }, { token: key })
    assert.equal(reply.status, 502)
  })
})
