import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { startEndlessProvider } from '../support/endless-provider.ts'
import { oneEngine } from '../support/gateway.ts'
import { requestSpeech, suiteMedia } from '../support/media.ts'

const PER_CHARACTER = { per_character: 0.000015 }
const CHARACTER_NANOS = 15_000
const PIECE_BYTES = 65_536

for (const engine of oneEngine('postgres')) {
  describe(`speech through the gateway on ${engine} (docs/reference/relay-api.md: Speech)`, () => {
    const media = suiteMedia(engine)

    const say = (key: string, body: Record<string, unknown>) =>
      media.api('POST', '/v1/audio/speech', { input: 'Hello', voice: 'alloy', ...body }, { token: key })

    it('is a file of the requested format, with the type and length from the provider', async () => {
      const { model } = await media.offer('tts-1', PER_CHARACTER)
      const { sdk } = await media.open()
      const types = {
        mp3: 'audio/mpeg',
        opus: 'audio/ogg',
        aac: 'audio/aac',
        flac: 'audio/flac',
        wav: 'audio/wav',
        pcm: 'audio/pcm',
      } as const
      for (const [format, type] of Object.entries(types)) {
        const answer = await sdk.audio.speech.create({
          model,
          input: 'Hello there',
          voice: 'alloy',
          response_format: format as keyof typeof types,
        })
        assert.equal(answer.headers.get('content-type'), type)
        const bytes = Buffer.from(await answer.arrayBuffer())
        assert.equal(answer.headers.get('content-length'), String(bytes.length))
        assert.ok(bytes.length > 0)
      }
      const usual = await sdk.audio.speech.create({ model, input: 'Hello', voice: 'nova' })
      assert.equal(usual.headers.get('content-type'), 'audio/mpeg')
    })

    it('has the type of its format if the provider sends none', async () => {
      const provider = createServer((request, response) => {
        request.resume().on('end', () => {
          const isNamed = request.url?.includes('named')
          response.writeHead(200, isNamed ? { 'content-type': 'application/octet-stream' } : {}).end('sound')
        })
      })
      await new Promise<void>(resolve => provider.listen(0, '127.0.0.1', resolve))
      const { port } = provider.address() as AddressInfo
      try {
        for (const path of ['named', 'bare']) {
          const base_url = `http://127.0.0.1:${port}/${path}`
          const { model } = await media.offer('tts-1', PER_CHARACTER, { base_url })
          const { sdk } = await media.open()
          for (const [format, type] of [
            [undefined, 'audio/mpeg'],
            ['flac', 'audio/flac'],
            ['opus', 'audio/ogg'],
          ] as const) {
            const speechRequest = { model, input: 'Hello', voice: 'alloy' }
            const answer = await sdk.audio.speech.create(
              format ? { ...speechRequest, response_format: format } : speechRequest,
            )
            assert.equal(answer.headers.get('content-type'), type, path)
            assert.equal(await answer.text(), 'sound')
          }
        }
      } finally {
        provider.close()
      }
    })

    it('is charged per character, counted in code points', async () => {
      const { model } = await media.offer('tts-1', PER_CHARACTER)
      const { id, sdk } = await media.open()
      const answer = await sdk.audio.speech.create({ model, input: 'Grüße 👋🏽!', voice: 'alloy' })
      await answer.arrayBuffer()
      const row = await media.rowOf(id)
      assert.equal(row.other.characters, 9)
      assert.equal(row.cost, 9 * CHARACTER_NANOS)
      assert.equal(row.other.source, 'counted')
    })

    it('is charged by the length of the audio if the price is per second', async () => {
      for (const format of ['mp3', 'wav', 'pcm', 'opus', 'aac'] as const) {
        const { model } = await media.offer('sim-words-7', { per_minute: 0.06 })
        const { id, sdk } = await media.open()
        const speechRequest = { model, input: 'Hello', voice: 'alloy', response_format: format }
        await (await sdk.audio.speech.create(speechRequest)).arrayBuffer()
        const row = await media.rowOf(id)
        assert.equal(row.other.seconds, 7, format)
        assert.equal(row.cost, 7_000_000, format)
      }
    })

    it('forwards events if they are requested, and is charged by the tokens they report', async () => {
      const { model } = await media.offer('sim-words-3', { input: 1, output: 2, per_second: 1 })
      const { id, key } = await media.open({ remain_quota: 50_000_000 })
      const reply = await say(key, { model, stream_format: 'sse' })
      assert.equal(reply.headers.get('content-type'), 'text/event-stream; charset=utf-8')
      const events = reply.text
        .split('\n\n')
        .filter(Boolean)
        .map(event => JSON.parse(event.slice(6)))
      assert.deepEqual(
        [...new Set(events.map(({ type }) => type))],
        ['speech.audio.delta', 'speech.audio.done'],
      )
      const { usage } = events.at(-1)
      const row = await media.rowOf(id)
      assert.equal(row.other.source, 'provider')
      assert.equal(row.cost, usage.input_tokens * 1_000 + usage.output_tokens * 2_000)
    })

    it('is charged by the length of the audio in the events if the price is per second', async () => {
      const { model } = await media.offer('sim-words-3', { per_second: 0.001 })
      const { id, key } = await media.open()
      await say(key, { model, stream_format: 'sse' })
      const row = await media.rowOf(id)
      assert.deepEqual([row.other.seconds, row.cost], [3, 3_000_000])
    })

    it('accepts at most 4096 characters', async () => {
      const { model } = await media.offer('tts-1', PER_CHARACTER)
      const { id, key } = await media.open()
      assert.equal((await say(key, { model, input: '👋'.repeat(4096) })).status, 200)
      const { cost } = await media.rowOf(id)
      assert.equal(cost, 4096 * CHARACTER_NANOS)
      const reply = await say(key, { model, input: `${'👋'.repeat(4096)}!` })
      assert.deepEqual([reply.status, reply.body.error.param], [400, 'input'])
    })

    it('refuses fields that are missing or out of range before anything is sent or held', async () => {
      const { model } = await media.offer('tts-1', PER_CHARACTER)
      const { id, key } = await media.open()
      const requestsBefore = await media.seenInAll()
      const cases: [Record<string, unknown>, string, string][] = [
        [{ model: undefined }, 'model', 'missing_parameter'],
        [{ model: '' }, 'model', 'missing_parameter'],
        [{ input: undefined }, 'input', 'missing_parameter'],
        [{ input: '' }, 'input', 'missing_parameter'],
        [{ input: null }, 'input', 'missing_parameter'],
        [{ input: 7 }, 'input', 'invalid_parameter'],
        [{ input: ['Hello'] }, 'input', 'invalid_parameter'],
        [{ voice: undefined }, 'voice', 'missing_parameter'],
        [{ voice: 'nobody' }, 'voice', 'invalid_parameter'],
        [{ voice: 7 }, 'voice', 'invalid_parameter'],
        [{ voice: {} }, 'voice', 'invalid_parameter'],
        [{ voice: { id: '' } }, 'voice', 'invalid_parameter'],
        [{ voice: 'v'.repeat(300) }, 'voice', 'invalid_parameter'],
        [{ response_format: 'midi' }, 'response_format', 'invalid_parameter'],
        [{ response_format: 7 }, 'response_format', 'invalid_parameter'],
        [{ speed: 0.24 }, 'speed', 'invalid_parameter'],
        [{ speed: 4.01 }, 'speed', 'invalid_parameter'],
        [{ speed: '1' }, 'speed', 'invalid_parameter'],
        [{ stream_format: 'video' }, 'stream_format', 'invalid_parameter'],
        [{ instructions: 7 }, 'instructions', 'invalid_parameter'],
      ]
      for (const [fields, param, code] of cases) {
        const reply = await say(key, { model, ...fields })
        assert.deepEqual(
          [reply.status, reply.body.error.type, reply.body.error.param, reply.body.error.code],
          [400, 'invalid_request_error', param, code],
          JSON.stringify(fields),
        )
      }
      assert.equal(await media.seenInAll(), requestsBefore)
      assert.equal(await media.usedBy(id), 0)
    })

    it('accepts the ends of its ranges, every common voice and those of the provider', async () => {
      const { model } = await media.offer('tts-1', PER_CHARACTER)
      const { key } = await media.open()
      for (const speed of [0.25, 1, 4])
        assert.equal((await say(key, { model, speed })).status, 200, `speed ${speed}`)
      for (const voice of ['alloy', 'echo', 'fable', 'onyx', 'nova', 'shimmer', 'marin'])
        assert.equal((await say(key, { model, voice })).status, 200, voice)
    })

    it('maps voices as the channel does', async () => {
      const { model } = await media.offer('tts-1', PER_CHARACTER, {
        setting: { voices: { nobody: 'ash', alloy: 'coral' } },
      })
      const { key } = await media.open()
      assert.equal((await say(key, { model, voice: 'nobody' })).status, 200)
      assert.equal((await say(key, { model, voice: 'somebody' })).status, 400)
    })

    it('is refused if the balance is insufficient, with nothing sent', async () => {
      const { model } = await media.offer('tts-1', PER_CHARACTER)
      const { id, key } = await media.open({ remain_quota: 30 })
      const requestsBefore = await media.seenInAll()
      const reply = await say(key, { model, input: 'five!' })
      assert.deepEqual([reply.status, reply.body.error.code], [429, 'insufficient_quota'])
      assert.equal(await media.seenInAll(), requestsBefore)
      assert.equal((await say(key, { model, input: 'four' })).status, 200)
      assert.equal(await media.usedBy(id), 30)
    })

    it('fails over to the next channel if the first returns a page, JSON or an error in place of audio', async () => {
      for (const fault of ['html', 'empty', 'array', 'status-500', 'status-401', 'reset']) {
        const { model } = await media.offer(`sim-${fault}`, PER_CHARACTER, { priority: 9 })
        await media.addChannel({ models: [model], model_mapping: { [model]: 'tts-1' }, priority: 1 })
        const { id, key } = await media.open()
        const reply = await say(key, { model })
        assert.equal(reply.status, 200, fault)
        assert.equal(reply.headers.get('content-type'), 'audio/mpeg', fault)
        assert.equal((await media.rowOf(id)).cost, 5 * CHARACTER_NANOS, fault)
      }
    })

    it('forwards a rejection with the provider’s message, and charges nothing', async () => {
      const { model } = await media.offer('sim-status-400', PER_CHARACTER)
      const { id, key } = await media.open()
      const reply = await say(key, { model })
      assert.equal(reply.status, 400)
      assert.equal((await media.rowOf(id)).cost, 0)
    })

    it('breaks the connection if the provider breaks off, and the request is charged', async () => {
      const { model } = await media.offer('sim-words-9-cut-3', PER_CHARACTER)
      const { id, key } = await media.open()
      await assert.rejects(say(key, { model }))
      const row = await media.rowOf(id)
      assert.equal(row.cost, 5 * CHARACTER_NANOS)
      assert.equal(row.type, 2)
    })

    it('cancels the provider’s response when the client disconnects in the middle, and the request is charged', async () => {
      const { model } = await media.offer('sim-words-60-pace-50', { per_second: 0.001 })
      const { id, key } = await media.open()
      const response = await requestSpeech(media.gateway.url, key, model)
      await once(response, 'data')
      response.destroy()
      const row = await media.rowOf(id)
      assert.ok(row.other.seconds >= 1 && row.other.seconds < 60, `${row.other.seconds} s`)
      assert.equal(row.cost, row.other.seconds * 1_000_000)
    })
  })
}

describe('speech without end', () => {
  const media = suiteMedia('sqlite')
  /** What the buffers of sockets hold between the provider and a client that does not read, and the gateway between them. */
  const MOST_BYTES = 64 * 2 ** 20

  it('waits for a client that does not read, without filling the memory', async t => {
    const endless = await startEndlessProvider({
      headers: { 'content-type': 'audio/mpeg' },
      piece: Buffer.alloc(PIECE_BYTES),
    })
    t.after(endless.close)
    const { model } = await media.offer('tts-1', { per_character: 0.000015 }, { base_url: endless.url })
    const { id, key } = await media.open()
    const response = await requestSpeech(media.gateway.url, key, model)
    response.pause()
    await endless.untilStill()
    const bytes = endless.pieces() * PIECE_BYTES
    assert.ok(bytes < MOST_BYTES, `${bytes} bytes were sent`)
    response.destroy()
    assert.equal((await media.rowOf(id)).cost, 5 * CHARACTER_NANOS)
  })
})
