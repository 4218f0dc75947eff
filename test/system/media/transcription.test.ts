import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { gzipSync } from 'node:zlib'
import { soundForm, suiteMedia } from '../../support/media.ts'
import { wavFile } from '../../support/wav.ts'

const PER_SECOND = { per_second: 0.0001 }
const PATH = '/v1/audio/transcriptions'
const FORM = 'multipart/form-data; boundary=b'
const part = (name: string, value: string) =>
  `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`

describe('a large form', () => {
  const media = suiteMedia('sqlite')

  const tempFiles = () => readdirSync(join(media.gateway.dataDir, 'tmp'))
  /** The bytes of bodies that the gateway holds in memory. */
  async function bodyBytes(): Promise<number> {
    const { text } = await media.api('GET', '/metrics')
    return Number(/^sluice_memory_bytes\{part="bodies"\} (\S+)$/m.exec(text)?.[1])
  }

  it('is refused if its content is larger than the limit when decompressed, also after its last part', async () => {
    const { model } = await media.offer('whisper-1', PER_SECOND)
    const { key } = await media.open()
    const head = `${part('model', model)}--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n`
    const body = gzipSync(Buffer.concat([Buffer.from(head), wavFile(3), Buffer.from('\r\n--b--\r\n')]))
    // One gzip member each: little to send, and more than the limit, after the last part.
    const behind = Array<Buffer>(270).fill(gzipSync(Buffer.alloc(1_048_576)))
    const reply = await media.api('POST', PATH, undefined, {
      token: key,
      raw: Buffer.concat([body, ...behind]),
      headers: { 'content-type': FORM, 'content-encoding': 'gzip' },
    })
    assert.deepEqual([reply.status, reply.body.error.code], [413, 'request_too_large'])
  })

  it('with a file of more than 100 MB is refused during the upload', async () => {
    const { model } = await media.offer('whisper-1', PER_SECOND)
    const { key } = await media.open()
    const chunk = new Uint8Array(1_048_576)
    const file = new File(Array(101).fill(chunk), 'a.wav')
    const reply = await media.post(PATH, key, soundForm({ model }, file)).catch(() => undefined)
    // The refusal may arrive before the upload ends, and the connection may end before the client has read
    // it.
    if (reply) assert.deepEqual([reply.status, reply.body.error.code], [413, 'request_too_large'])
    assert.deepEqual(tempFiles(), [])
  })

  it('is not buffered in memory, twelve concurrent ones of thirty megabytes', async () => {
    const sink = createServer((request, response) => {
      let bytes = 0
      request.on('data', chunk => {
        bytes += chunk.length
      })
      request.on('end', () => {
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify({ text: String(bytes) }))
      })
    })
    await new Promise<void>(resolve => sink.listen(0, '127.0.0.1', resolve))
    const { port } = sink.address() as AddressInfo
    const { model } = await media.offer('whisper-1', PER_SECOND, { base_url: `http://127.0.0.1:${port}` })
    const { key } = await media.open({ remain_quota: 500_000_000 })
    const head = Buffer.concat([
      Buffer.from(
        `${part('model', model)}--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n`,
      ),
      wavFile(1),
    ])
    const megabyte = Buffer.alloc(1_048_576)
    const tail = Buffer.from('\r\n--b--\r\n')
    const upload = () =>
      new Promise<string>((resolve, reject) => {
        const request = httpRequest(
          `${media.gateway.url}${PATH}`,
          {
            method: 'POST',
            headers: {
              authorization: `Bearer ${key}`,
              'content-type': FORM,
              'content-length': head.length + 30 * megabyte.length + tail.length,
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
        Readable.from(
          (async function* () {
            yield head
            for (let at = 0; at < 30; at += 1) {
              yield megabyte
              heldBytes.push(await bodyBytes())
            }
            yield tail
          })(),
          { objectMode: false },
        ).pipe(request)
      })
    const heldBytes: number[] = []
    const answers = await Promise.all(Array.from({ length: 12 }, upload))
    for (const answer of answers) assert.ok(Number(JSON.parse(answer).text) > 30 * megabyte.length, answer)
    sink.close()
    const most = Math.max(...heldBytes)
    assert.ok(most < 150 * 1_048_576, `${Math.round(most / 1_048_576)} MiB of 360 were in memory`)
    assert.deepEqual(tempFiles(), [])
  })
})
