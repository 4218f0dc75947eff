import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { newGround, type Server, type ServerOptions, startServer, until } from '../../support/process.ts'
import { wavFile } from '../../support/wav.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const AT_ONCE = isCampaign ? 50 : 10
const MEGABYTES = isCampaign ? 99 : 20
/** Whole uploads would be five times as much. */
const MOST_HELD_BYTES = (AT_ONCE * MEGABYTES * 1_048_576) / 5
/** More than all uploads together. A tenth of the disk, as is usual, may be less. */
const DISK_MIB = AT_ONCE * MEGABYTES * 2

const PATH = '/v1/audio/transcriptions'
const megabyte = Buffer.alloc(1_048_576)
const tail = Buffer.from('\r\n--b--\r\n')
const headFor = (model: string) =>
  Buffer.concat([
    Buffer.from(
      `--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n` +
        '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n',
    ),
    wavFile(1),
  ])

/** A provider that counts the bytes it receives and stores nothing. */
async function startSink() {
  const server = createServer((request, response) => {
    let bytes = 0
    request.on('data', chunk => {
      bytes += chunk.length
    })
    request.on('end', () => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ text: String(bytes) }))
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() }
}

describe('large concurrent uploads', () => {
  const model = 'whisper-1'
  let ground: ServerOptions
  let server: Server
  let sink: Awaited<ReturnType<typeof startSink>>
  let token: { id: number; key: string }
  before(async () => {
    ground = await newGround('sqlite', { SLUICE_MAX_TMP_MB: String(DISK_MIB) })
    server = await startServer(ground)
    sink = await startSink()
    const channel = { name: 'sink', type: 1, key: 'a-key-0001', base_url: sink.url, models: [model] }
    const { status, text } = await server.api('POST', '/api/channel/', { mode: 'single', channel })
    assert.equal(status, 200, text)
    const tokenFields = { name: 'app', remain_quota: 4_000_000_000 }
    token = (await server.api('POST', '/api/token/', tokenFields)).body.data
  })
  after(async () => {
    sink.close()
    await server.kill()
  })

  /** The bytes of bodies that the gateway holds in memory. */
  async function bodyBytes(): Promise<number> {
    const { text } = await server.api('GET', '/metrics')
    return Number(/^sluice_memory_bytes\{part="bodies"\} (\S+)$/m.exec(text)?.[1])
  }

  type Progress = { readonly leavesAfter?: number; readonly look?: () => Promise<void> }
  /** Sends a form of this many megabytes; the client disconnects after `leavesAfter` of them, and looks before each. */
  function upload(megabytes: number, { leavesAfter, look }: Progress = {}): Promise<string> {
    const head = headFor(model)
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const request = httpRequest(
      `${server.url}${PATH}`,
      {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token.key}`,
          'content-type': 'multipart/form-data; boundary=b',
          'content-length': head.length + megabytes * megabyte.length + tail.length,
        },
      },
      response => {
        let text = ''
        response.on('data', chunk => {
          text += chunk
        })
        response.on('end', () => resolve(text))
      },
    )
    request.on('error', reject)
    const pieces = async function* () {
      yield head
      for (let at = 0; at < megabytes; at += 1) {
        if (at === leavesAfter) request.destroy(new Error('left'))
        await look?.()
        yield megabyte
      }
      yield tail
    }
    Readable.from(pieces(), { objectMode: false }).pipe(request)
    return promise
  }

  const tempFiles = () => readdirSync(join(ground.dataDir, 'tmp'))
  const openFiles = () => readdirSync(`/proc/${server.pid}/fd`).length

  it('are not buffered in memory, and arrive intact', async t => {
    let most = 0
    const look = async () => {
      most = Math.max(most, await bodyBytes())
    }
    const uploads = Array.from({ length: AT_ONCE }, (_, index) =>
      upload(MEGABYTES, index === 0 ? { look } : {}),
    )
    for (const answer of await Promise.all(uploads))
      assert.ok(Number(JSON.parse(answer).text) > MEGABYTES * megabyte.length, answer)
    const line = `${AT_ONCE} uploads of ${MEGABYTES} MB at once: at most ${Math.ceil(most / 1_048_576)} MiB in memory`
    t.diagnostic(line)
    if (isCampaign) console.log(line)
    assert.ok(most < MOST_HELD_BYTES, line)
  })

  it('that stop in the middle leave no file, no descriptor and no hold', async () => {
    const before = openFiles()
    const half = Math.floor(MEGABYTES / 2)
    const uploads = await Promise.allSettled(
      Array.from({ length: AT_ONCE }, () => upload(MEGABYTES, { leavesAfter: half })),
    )
    assert.ok(uploads.every(({ status }) => status === 'rejected'))
    await until('what they opened to be closed', () => (openFiles() <= before ? true : undefined))
    assert.deepEqual(tempFiles(), [])
    const { body } = await server.api('GET', `/api/token/${token.id}`)
    assert.equal(body.data.held_quota, 0)
  })
})
