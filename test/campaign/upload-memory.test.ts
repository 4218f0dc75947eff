import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { suiteMedia } from '../support/media.ts'
import { createRandom } from '../support/request-bytes.ts'
import { wavFile } from '../support/wav.ts'

const isCampaign = process.env.SLUICE_CAMPAIGN !== undefined
const UPLOADS = isCampaign ? 4_000 : 150
const AT_ONCE = 24
const SEED = Number(process.env.SLUICE_SEED ?? (isCampaign ? Date.now() % 2 ** 32 : 20_261_118))
const PATH = '/v1/audio/transcriptions'
const MARK = /upload-\d{6};/g

/** A file that consists of its number, after the header of a sound. */
const contentOf = (number: number, bytes: number) =>
  Buffer.concat([wavFile(0.1), Buffer.alloc(bytes, `upload-${String(number).padStart(6, '0')};`)])

/**
 * A provider that reads at its own pace, sometimes answers before it has read the request, and checks that no request, also not the
 * rest of one that is answered, has bytes of another upload.
 */
async function startProvider(random: () => number) {
  const mixed: string[] = []
  let requests = 0
  let early = 0

  async function serve(request: IncomingMessage, response: ServerResponse) {
    requests += 1
    const chance = random()
    const answersEarly = chance < 0.2
    const answer = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(body))
    }
    if (chance > 0.7) await delay(random() * 40)
    if (answersEarly) {
      early += 1
      answer(random() < 0.5 ? 200 : 400, { text: 'early', error: { message: 'early' } })
      await delay(random() * 40)
    }
    const marks = new Set<string>()
    let bytes = 0
    let rest = ''
    try {
      for await (const chunk of request) {
        bytes += (chunk as Buffer).length
        const piece = rest + (chunk as Buffer).toString('latin1')
        for (const [mark] of piece.matchAll(MARK)) marks.add(mark)
        rest = piece.slice(-13)
      }
    } catch {
      // The gateway closed the connection. What arrived is checked.
    }
    if (marks.size > 1) mixed.push([...marks].join(' '))
    if (!answersEarly && !response.destroyed) answer(200, { text: `${[...marks].join(' ')} ${bytes}` })
  }
  const server = createServer((request, response) => void serve(request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mixed,
    counts: () => ({ requests, early }),
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

describe(`${UPLOADS} small uploads with seed ${SEED}, ${AT_ONCE} at once`, () => {
  const media = suiteMedia('sqlite')
  const random = createRandom(SEED)
  let provider: Awaited<ReturnType<typeof startProvider>>
  before(async () => {
    provider = await startProvider(random)
  })
  after(() => provider?.close())

  it('contain only their own bytes, whatever else is sent, left or answered early', async () => {
    const { model } = await media.offer('whisper-1', { per_second: 0.0001 }, { base_url: provider.url })
    const { key } = await media.open({ remain_quota: 500_000_000 })
    const counts = { whole: 0, left: 0 }

    async function upload(number: number) {
      const head = Buffer.from(
        `--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n` +
          '--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n',
      )
      const content = contentOf(number, Math.floor(random() ** 2 * 2_000_000))
      const body = Buffer.concat([head, content, Buffer.from('\r\n--b--\r\n')])
      const leavesAt = random() < 0.15 ? Math.floor(random() * body.length) : undefined
      const pieceBytes = 1 + Math.floor(random() * body.length)
      const request = httpRequest(`${media.gateway.url}${PATH}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'multipart/form-data; boundary=b',
          'content-length': body.length,
        },
      })
      const ended = new Promise<IncomingMessage | undefined>(resolve => {
        request.on('response', resolve).on('error', () => resolve(undefined))
      })
      for (let at = 0; at < body.length; at += pieceBytes) {
        if (leavesAt !== undefined && at + pieceBytes > leavesAt) break
        request.write(body.subarray(at, at + pieceBytes))
        if (random() < 0.5) await delay(random() * 5)
      }
      if (leavesAt !== undefined) {
        counts.left += 1
        request.destroy()
        await ended
        return
      }
      request.end()
      const response = await ended
      assert.ok(response, 'the gateway closed the connection')
      const answer = JSON.parse(await text(response)) as { text?: string; error?: { message: string } }
      if (answer.text === undefined || answer.text === 'early') return
      counts.whole += 1
      const mark =
        content.length > wavFile(0.1).length + 13 ? `upload-${String(number).padStart(6, '0')};` : ''
      assert.ok(answer.text.startsWith(mark), `${answer.text.slice(0, 100)} instead of ${mark}`)
    }

    let next = 0
    async function lane() {
      while (next < UPLOADS) await upload(next++)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, lane))
    assert.deepEqual(provider.mixed, [])
    assert.ok(counts.whole > UPLOADS / 3, `${counts.whole} complete uploads`)
    assert.ok(counts.left > 0 && provider.counts().early > 0)
  })
})
