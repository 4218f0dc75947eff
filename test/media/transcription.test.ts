import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { oneEngine } from '../support/gateway.ts'
import { soundForm, suiteMedia, wavOf } from '../support/media.ts'
import '../support/own-process.ts'
import { until } from '../support/process.ts'
import { wavFile } from '../support/wav.ts'

const PER_SECOND = { per_second: 0.0001 }
const SECOND_NANOS = 100_000
const PATH = '/v1/audio/transcriptions'

for (const engine of oneEngine('sqlite')) {
  describe(`transcription through the gateway on ${engine} (docs/reference/relay-api.md: Transcription)`, () => {
    const media = suiteMedia(engine)

    it('is returned in each of the five formats, from a provider that supports them all', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND)
      const { id, sdk } = await media.open()
      const file = wavOf(3.2)
      const expectedText = `I heard speech.wav of ${wavFile(3.2).length} bytes.`
      const json = await sdk.audio.transcriptions.create({ model, file })
      assert.equal(json.text, expectedText)
      const text = await sdk.audio.transcriptions.create({ model, file, response_format: 'text' })
      assert.equal(text, `${expectedText}\n`)
      const srt = await sdk.audio.transcriptions.create({ model, file, response_format: 'srt' })
      assert.match(srt, /^1\n00:00:00,000 --> 00:00:03,000\nI heard/)
      const vtt = await sdk.audio.transcriptions.create({ model, file, response_format: 'vtt' })
      assert.match(vtt, /^WEBVTT\n\n00:00:00\.000 --> /)
      const verbose = await sdk.audio.transcriptions.create({
        model,
        file,
        response_format: 'verbose_json',
        timestamp_granularities: ['word', 'segment'],
      })
      assert.equal(verbose.language, 'english')
      assert.equal(verbose.duration, 3.2)
      assert.equal(verbose.words?.length, 6)
      assert.equal(verbose.segments?.length, 1)
      const rows = await media.rowsOf(id, 5)
      assert.deepEqual(
        rows.map(({ cost }) => cost),
        Array(5).fill(4 * SECOND_NANOS),
      )
      assert.deepEqual(
        rows.map(({ other }) => [other.source, other.seconds]),
        Array(5).fill(['provider', 4]),
      )
    })

    it('is returned in each of the five formats, from a provider that returns only JSON', async () => {
      const { model } = await media.offer('gpt-4o-transcribe', { input: 1, audio_input: 2, output: 3 })
      const { id, sdk } = await media.open()
      const file = wavOf(2)
      const text = await sdk.audio.transcriptions.create({ model, file, response_format: 'text' })
      assert.match(String(text), /^I heard speech\.wav/)
      const srt = await sdk.audio.transcriptions.create({ model, file, response_format: 'srt' })
      assert.match(srt, /^1\n00:00:00,000 --> 00:00:02,000\nI heard speech\.wav of \d+ bytes\.\n/)
      const vtt = await sdk.audio.transcriptions.create({ model, file, response_format: 'vtt' })
      assert.match(vtt, /^WEBVTT\n\n00:00:00\.000 --> 00:00:02\.000\nI heard/)
      const verbose = await sdk.audio.transcriptions.create({
        model,
        file,
        response_format: 'verbose_json',
        language: 'en',
      })
      assert.deepEqual([verbose.language, verbose.duration], ['en', 2])
      assert.equal(verbose.segments?.length, 1)
      const rows = await media.rowsOf(id, 4)
      // 20 audio tokens at 2 USD, and the text tokens at 3 USD, per million.
      for (const row of rows) assert.equal(row.cost, 20 * 2_000 + row.completion_tokens * 3_000)
    })

    it('is charged by its length if the price is per second, also if tokens are reported', async () => {
      const { model } = await media.offer('gpt-4o-transcribe', PER_SECOND)
      const { id, sdk } = await media.open()
      await sdk.audio.transcriptions.create({ model, file: wavOf(2) })
      const stream = await sdk.audio.transcriptions.create({ model, file: wavOf(2), stream: true })
      for await (const _event of stream);
      for (const row of await media.rowsOf(id, 2))
        assert.deepEqual([row.other.seconds, row.cost], [2, 200_000])
    })

    it('streams like the provider, and is charged by the tokens reported at the end', async () => {
      const { model } = await media.offer('gpt-4o-transcribe', { input: 1, audio_input: 2, output: 3 })
      const { id, sdk } = await media.open()
      const stream = await sdk.audio.transcriptions.create({ model, file: wavOf(2), stream: true })
      let text = ''
      let done = ''
      for await (const event of stream) {
        if (event.type === 'transcript.text.delta') text += event.delta
        if (event.type === 'transcript.text.done') done = event.text
      }
      assert.equal(text, done)
      assert.match(done, /^I heard speech\.wav/)
      const row = await media.rowOf(id)
      assert.equal(row.other.audio_input, 20)
      assert.equal(row.cost, 20 * 2_000 + row.completion_tokens * 3_000)
      assert.equal(row.other.source, 'provider')
    })

    it('streams a non-streamed response of the provider too', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND)
      const { id, sdk } = await media.open()
      const stream = await sdk.audio.transcriptions.create({ model, file: wavOf(2), stream: true })
      const types: string[] = []
      for await (const event of stream) types.push(event.type)
      assert.deepEqual(types, ['transcript.text.delta', 'transcript.text.done'])
      assert.equal((await media.rowOf(id)).cost, 2 * SECOND_NANOS)
    })

    it('translates in each format', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND)
      const { id, sdk } = await media.open()
      const file = wavOf(5)
      const json = await sdk.audio.translations.create({ model, file })
      assert.match(json.text, /^I heard/)
      const formats = ['json', 'text', 'srt', 'verbose_json', 'vtt'] as const
      for (const response_format of formats)
        assert.match(
          JSON.stringify(await sdk.audio.translations.create({ model, file, response_format })),
          /I heard speech/,
        )
      assert.equal((await media.rowsOf(id, 6)).length, 6)
    })

    it('accepts fields before and after the file, and sends the file intact under its name', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND)
      const { key } = await media.open()
      const form = new FormData()
      form.append('prompt', 'some guidance')
      form.append('file', wavOf(40, 'große "Rede".wav'))
      form.append('model', model)
      const reply = await media.post(PATH, key, form)
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.body.text, `I heard große %22Rede%22.wav of ${wavFile(40).length} bytes.`)
    })

    it('sends the same file to the next channel', async () => {
      const { model } = await media.offer('sim-status-500', PER_SECOND, { priority: 9 })
      await media.addChannel({ models: [model], model_mapping: { [model]: 'sim-reset' }, priority: 8 })
      await media.addChannel({ models: [model], model_mapping: { [model]: 'whisper-1' }, priority: 1 })
      const { id, key } = await media.open()
      const reply = await media.post(PATH, key, soundForm({ model }, wavOf(40)))
      assert.equal(reply.body?.text, `I heard speech.wav of ${wavFile(40).length} bytes.`, reply.text)
      assert.equal((await media.rowOf(id)).cost, 40 * SECOND_NANOS)
    })

    it('accepts every documented file name and value', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND)
      const { key } = await media.open()
      for (const ending of ['flac', 'mp3', 'mp4', 'mpeg', 'mpga', 'm4a', 'ogg', 'wav', 'webm', 'WAV']) {
        const reply = await media.post(PATH, key, soundForm({ model }, wavOf(1, `a.${ending}`)))
        assert.equal(reply.status, 200, `${ending}: ${reply.text}`)
      }
      for (const fields of [
        { temperature: '0' },
        { temperature: '1' },
        { language: 'de' },
        { prompt: 'Names: Ada' },
        { response_format: 'verbose_json', 'timestamp_granularities[]': ['word'] },
        { response_format: 'verbose_json', 'timestamp_granularities[]': ['segment'] },
        { response_format: 'verbose_json', timestamp_granularities: '["word","segment"]' },
      ]) {
        const reply = await media.post(PATH, key, soundForm({ model, ...fields } as never, wavOf(1)))
        assert.equal(reply.status, 200, `${JSON.stringify(fields)}: ${reply.text}`)
      }
    })

    it('refuses fields that are missing or out of range before anything is sent or held', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND)
      const { id, key } = await media.open()
      const requestsBefore = await media.seenInAll()
      const wav = wavOf(1)
      const cases: [string, FormData, string, string][] = [
        ['no file', soundForm({ model }), 'file', 'missing_parameter'],
        ['a file as text', soundForm({ model, file: 'hello' }), 'file', 'missing_parameter'],
        ['no model', soundForm({}, wav), 'model', 'missing_parameter'],
        ['an empty file', soundForm({ model }, new File([], 'a.wav')), 'file', 'invalid_parameter'],
        ['another name', soundForm({ model }, wavOf(1, 'a.txt')), 'file', 'invalid_parameter'],
        ['no ending', soundForm({ model }, wavOf(1, 'speech')), 'file', 'invalid_parameter'],
        [
          'other content',
          soundForm({ model }, new File(['hello '.repeat(999)], 'a.mp3')),
          'file',
          'invalid_parameter',
        ],
        ['a form', soundForm({ model, response_format: 'xml' }, wav), 'response_format', 'invalid_parameter'],
        ['cold', soundForm({ model, temperature: '-0.1' }, wav), 'temperature', 'invalid_parameter'],
        ['hot', soundForm({ model, temperature: '1.1' }, wav), 'temperature', 'invalid_parameter'],
        ['no number', soundForm({ model, temperature: 'warm' }, wav), 'temperature', 'invalid_parameter'],
        ['a language', soundForm({ model, language: 'english' }, wav), 'language', 'invalid_parameter'],
        ['no language', soundForm({ model, language: 'xx' }, wav), 'language', 'invalid_parameter'],
        [
          'times without their form',
          soundForm({ model, 'timestamp_granularities[]': 'word' }, wav),
          'timestamp_granularities',
          'invalid_parameter',
        ],
        [
          'other times',
          soundForm({ model, response_format: 'verbose_json', 'timestamp_granularities[]': 'page' }, wav),
          'timestamp_granularities',
          'invalid_parameter',
        ],
        ['a stream', soundForm({ model, stream: 'maybe' }, wav), 'stream', 'invalid_parameter'],
      ]
      for (const [name, form, param, code] of cases) {
        const reply = await media.post(PATH, key, form)
        const { error } = reply.body
        assert.deepEqual([reply.status, error.param, error.code], [400, param, code], name)
      }
      const two = soundForm({ model }, wav)
      two.append('file', wav)
      assert.equal((await media.post(PATH, key, two)).status, 400)
      const json = await media.api('POST', PATH, { model }, { token: key })
      assert.deepEqual([json.status, json.body.error.code], [415, 'unsupported_media_type'])
      assert.equal(await media.seenInAll(), requestsBefore)
      assert.equal(await media.usedBy(id), 0)
    })

    it('is charged for the sent request if the client disconnects before the response', async () => {
      const { model } = await media.offer('sim-latency-5000', PER_SECOND)
      const { id, key } = await media.open()
      const leaving = new AbortController()
      const pendingResponse = fetch(`${media.gateway.url}${PATH}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: soundForm({ model }, wavOf(12)),
        signal: leaving.signal,
      })
      await until('the request to arrive', async () =>
        (await media.seen('sim-latency-5000')).length > 0 ? true : undefined,
      )
      leaving.abort()
      await assert.rejects(pendingResponse)
      const row = await media.rowOf(id)
      assert.deepEqual([row.cost, row.other.source], [12 * SECOND_NANOS, 'input_only'])
    })

    it('fails over to the next channel if the first returns a page, a partial response or none', async () => {
      for (const fault of ['html', 'badjson', 'cut-1', 'array', 'status-429', 'bigerror']) {
        const { model } = await media.offer(`sim-${fault}`, PER_SECOND, { priority: 9 })
        await media.addChannel({ models: [model], model_mapping: { [model]: 'whisper-1' }, priority: 1 })
        const { id, key } = await media.open()
        const reply = await media.post(PATH, key, soundForm({ model }, wavOf(20)))
        assert.equal(reply.status, 200, `${fault}: ${reply.text}`)
        assert.equal((await media.rowOf(id)).cost, 20 * SECOND_NANOS, fault)
      }
    })

    it('forwards a rejection that arrives while the file is still being sent', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND)
      const { id, key } = await media.open()
      const turn = (fault: string | null) =>
        fetch(`${media.upstream}/sim/faults`, { method: 'POST', body: JSON.stringify({ fault }) })
      await turn('early-413')
      try {
        const reply = await media.post(PATH, key, soundForm({ model }, wavOf(600)))
        assert.ok([413, 502].includes(reply.status), reply.text)
      } finally {
        await turn(null)
      }
      assert.equal((await media.rowOf(id)).cost, 0)
      assert.equal((await media.post(PATH, key, soundForm({ model }, wavOf(1)))).status, 200)
    })

    it('refuses a file that the balance does not cover', async () => {
      const { model } = await media.offer('whisper-1', PER_SECOND)
      const { key } = await media.open({ remain_quota: 1_000 })
      const reply = await media.post(PATH, key, soundForm({ model }, wavOf(30)))
      assert.deepEqual([reply.status, reply.body.error.code], [429, 'insufficient_quota'])
    })
  })
}

describe('a form', () => {
  const media = suiteMedia('sqlite')

  const tempFiles = () => readdirSync(join(media.gateway.dataDir, 'tmp'))
  /** Empty if the link is gone. */
  function linkOf(path: string): string {
    try {
      return readlinkSync(path)
    } catch {
      return ''
    }
  }
  /** Open sockets and files of uploads. Not of threads, which the gateway may start meanwhile. */
  const descriptors = () =>
    readdirSync('/proc/self/fd').filter(descriptor => {
      const target = linkOf(`/proc/self/fd/${descriptor}`)
      return target.startsWith('socket:') || target.startsWith(join(media.gateway.dataDir, 'tmp'))
    }).length

  async function raw(key: string, contentType: string, body: string | Buffer, headers = {}) {
    const reply = await media.api('POST', PATH, undefined, {
      token: key,
      raw: body,
      headers: { 'content-type': contentType, ...headers },
    })
    return [reply.status, reply.body?.error?.code]
  }

  const part = (name: string, value: string) =>
    `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
  const FORM = 'multipart/form-data; boundary=b'

  it('that is malformed or exceeds a limit is refused', async () => {
    const { key } = await media.open()
    const bad = [400, 'invalid_parameter']
    assert.deepEqual(await raw(key, 'multipart/form-data', 'x'), bad, 'no boundary')
    assert.deepEqual(await raw(key, `multipart/form-data; boundary=${'b'.repeat(200)}`, 'x'), bad)
    assert.deepEqual(await raw(key, FORM, part('model', 'x')), bad, 'no end')
    assert.deepEqual(await raw(key, FORM, 'rubbish'), bad, 'no part')
    assert.deepEqual(await raw(key, FORM, `${part('', 'x')}--b--\r\n`), bad, 'no name')
    assert.deepEqual(await raw(key, FORM, `${part('n'.repeat(500), 'x')}--b--\r\n`), bad, 'a long name')
    assert.deepEqual(await raw(key, FORM, `${part('a', 'x').repeat(200)}--b--\r\n`), bad, 'many fields')
    const large = `${part('prompt', 'x'.repeat(1_100_000))}--b--\r\n`
    assert.deepEqual(await raw(key, FORM, large), [413, 'request_too_large'])
    assert.deepEqual(await raw(key, FORM, Buffer.from('not gzip'), { 'content-encoding': 'gzip' }), bad)
    assert.deepEqual(await raw(key, FORM, 'x', { 'content-encoding': 'rot13' }), [
      415,
      'unsupported_media_type',
    ])
    assert.deepEqual(await raw(key, FORM, `${part('__proto__', 'x')}--b--\r\n`), [400, 'missing_parameter'])
    assert.equal(({} as Record<string, unknown>).x, undefined)
  })

  it('is read however a client writes it, in one piece or two', async () => {
    const { model } = await media.offer('whisper-1', PER_SECOND)
    const { key } = await media.open()
    const sound = wavFile(3)
    const fileHead = 'Content-Disposition: form-data; name="file"; filename="a.wav"'
    const heads = {
      browser: ['Content-Disposition: form-data; name="model"', `${fileHead}\r\nContent-Type: audio/wav`],
      'with lengths': [
        'Content-Disposition: form-data; name="model"\r\nContent-Length: 20',
        `${fileHead}\r\nContent-Type: audio/wav\r\nContent-Length: ${sound.length}`,
      ],
      'without quotes, the type first': [
        'Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=model',
        'Content-Type: audio/wav\r\nContent-Disposition: form-data; name=file; filename=a.wav',
      ],
      // Its first part is common, its second is not.
      'an encoded file name': [
        'Content-Disposition: form-data; name="model"',
        `Content-Disposition: form-data; name="file"; filename*=utf-8''a.wav\r\nContent-Type: audio/wav`,
      ],
    }
    for (const [client, [modelHead, soundHead]] of Object.entries(heads))
      for (const pause of [0, 20]) {
        const body = Buffer.concat([
          Buffer.from(`--b\r\n${modelHead}\r\n\r\n${model}\r\n--b\r\n${soundHead}\r\n\r\n`),
          sound,
          Buffer.from('\r\n--b--\r\n'),
        ])
        const request = httpRequest(`${media.gateway.url}${PATH}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': FORM, 'content-length': body.length },
        })
        if (pause > 0) {
          request.write(body.subarray(0, 7))
          await delay(pause)
        }
        request.end(body.subarray(pause > 0 ? 7 : 0))
        const [response] = await once(request, 'response')
        const reply = (await json(response)) as { text?: string }
        assert.equal(
          reply.text,
          `I heard a.wav of ${sound.length} bytes.`,
          `${client}: ${JSON.stringify(reply)}`,
        )
      }
  })

  it('is decompressed if it was compressed', async () => {
    const { model } = await media.offer('whisper-1', PER_SECOND)
    const { key } = await media.open()
    const sound = wavFile(3)
    const head = `${part('model', model)}--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n`
    const body = gzipSync(Buffer.concat([Buffer.from(head), sound, Buffer.from('\r\n--b--\r\n')]))
    const reply = await media.api('POST', PATH, undefined, {
      token: key,
      raw: body,
      headers: { 'content-type': FORM, 'content-encoding': 'gzip' },
    })
    assert.equal(reply.body?.text, `I heard a.wav of ${sound.length} bytes.`, reply.text)
  })

  it('that a client does not finish leaves no file, no open descriptor and no hold', async () => {
    const { model } = await media.offer('whisper-1', PER_SECOND)
    const { id, key } = await media.open()
    const { hostname, port } = new URL(media.gateway.url)
    const before = descriptors()
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        const socket = connect(Number(port), hostname)
        const head = `${part('model', model)}--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n`
        socket.write(
          `POST ${PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n` +
            `content-type: ${FORM}\r\ncontent-length: 9000000\r\n\r\n${head}`,
        )
        socket.write(wavFile(60))
        await delay(100)
        socket.destroy()
      }),
    )
    await until('all descriptors to be closed', () => (descriptors() <= before ? true : undefined))
    assert.deepEqual(tempFiles(), [])
    assert.equal(await media.usedBy(id), 0)
    const { held_quota } = await media.must(media.api('GET', `/api/token/${id}`))
    assert.equal(held_quota ?? 0, 0)
  })

  it('needs a token before any of its bytes are read', async () => {
    const reply = await media.post(PATH, 'sk-nobody', soundForm({ model: 'x' }, wavOf(1)))
    assert.deepEqual([reply.status, reply.body.error.code], [401, 'invalid_api_key'])
  })
})
