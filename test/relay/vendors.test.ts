import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { PICTURE } from '../../simulator/formats/openai-images.ts'
import { soundKind } from '../../src/media/audio/kind.ts'
import { SPEECH_TYPES } from '../../src/media/speech-request.ts'
import { gemini } from '../../src/providers/vendors/gemini.ts'
import type { UpstreamOutcome, UpstreamRequest } from '../../src/relay/upstream/exchange.ts'
import { send } from '../../src/relay/upstream/send.ts'
import { soundForm, suiteMedia, wavOf } from '../support/media.ts'
import { type Json, type Replay, startReplay } from '../support/replay.ts'
import { startVendor } from '../support/scripted-vendor.ts'
import { wavFile } from '../support/wav.ts'

const QUERY = 'capital of France'
const DOCUMENTS = [
  'Berlin is a capital.',
  { text: 'Nothing here' },
  { text: 'Paris is the capital of France.' },
]

describe('a vendor with its own protocol', () => {
  const media = suiteMedia('sqlite')

  /** A model on a channel of this type, whose vendor is simulated at this path. */
  const at = (type: number, path: string, sentModel: string, price: Record<string, unknown>, setting = {}) =>
    media.offer(sentModel, price, { type, base_url: `${media.upstream}/${path}`, setting })

  const post = (key: string, path: string, body: unknown) => media.api('POST', path, body, { token: key })

  async function speak(
    model: string,
    fields: Record<string, unknown> = {},
  ): Promise<{ id: number; status: number; type: string; bytes: Buffer; warnings: string; error: unknown }> {
    const { id, key } = await media.open()
    const response = await fetch(`${media.gateway.url}/v1/audio/speech`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, input: 'Hello', voice: 'alloy', ...fields }),
    })
    const bytes = Buffer.from(await response.arrayBuffer())
    const type = response.headers.get('content-type') ?? ''
    return {
      id,
      status: response.status,
      type,
      bytes,
      warnings: response.headers.get('x-sluice-warnings') ?? '',
      error: type.includes('json') ? JSON.parse(bytes.toString()).error : undefined,
    }
  }

  const CHARACTERS = { per_character: 0.000015 }
  const SPEAKERS: [string, number, string, string, string][] = [
    ['ElevenLabs', 1013, 'elevenlabs', 'eleven_multilingual_v2', 'mp3'],
    ['Deepgram', 1014, 'deepgram', 'aura-2-thalia-en', 'mp3'],
    ['xAI', 48, 'xai', 'grok-voice-tts-1.0', 'mp3'],
    ['MiniMax', 35, 'minimax', 'speech-02-hd', 'mp3'],
    ['Mistral', 42, 'mistral', 'voxtral-mini-tts-latest', 'mp3'],
  ]

  for (const [name, type, path, sentModel, format] of SPEAKERS) {
    it(`synthesizes speech: ${name}`, async () => {
      const { model } = await at(type, path, sentModel, CHARACTERS)
      const speech = await speak(model)
      assert.equal(speech.status, 200, speech.bytes.toString())
      assert.equal(speech.type, 'audio/mpeg')
      assert.equal(soundKind(speech.bytes), format)
      assert.equal((await media.rowOf(speech.id)).cost, 5 * 15_000)
      const raw = await speak(model, { response_format: 'pcm' })
      assert.equal(raw.type, 'audio/pcm')
    })
  }

  it('synthesizes speech: Gemini, which has no mp3 and reports that', async () => {
    const { model } = await at(24, 'gemini-media', 'gemini-2.5-flash-preview-tts', {
      input: 1,
      output: 2,
      audio_output: 3,
    })
    const speech = await speak(model)
    assert.deepEqual([speech.status, speech.type], [200, 'audio/wav'])
    assert.equal(soundKind(speech.bytes), 'wav')
    assert.match(speech.warnings, /response_format is wav/)
    const row = await media.rowOf(speech.id)
    assert.equal(row.other.audio_output, 50)
    assert.equal(row.cost, row.prompt_tokens * 1_000 + 50 * 3_000)
    const mp3 = await speak(model, { response_format: 'mp3' })
    assert.deepEqual([mp3.status, (mp3.error as { param: string }).param], [400, 'response_format'])
    const pcm = await speak(model, { response_format: 'pcm', speed: 2 })
    assert.deepEqual(
      [pcm.type, pcm.bytes.length, pcm.warnings],
      ['audio/pcm', 96_000, 'speed is not supported'],
    )
  })

  it('synthesizes speech: DashScope, whose audio arrives in pieces', async () => {
    const { model } = await at(17, 'dashscope', 'qwen3-tts-flash', { input: 1, audio_output: 3 })
    const speech = await speak(model, { instructions: 'softly' })
    assert.deepEqual([speech.status, speech.type], [200, 'audio/wav'], speech.bytes.toString())
    assert.equal(soundKind(speech.bytes), 'wav')
    assert.match(speech.warnings, /instructions is not supported.*response_format is wav/)
    const row = await media.rowOf(speech.id)
    assert.equal(row.other.audio_output, 100)
    assert.equal(row.cost, row.prompt_tokens * 1_000 + 100 * 3_000)
    const pcm = await speak(model, { response_format: 'pcm', voice: 'Vivian' })
    assert.deepEqual([pcm.type, pcm.bytes.length], ['audio/pcm', 96_000])
    const byLength = await at(17, 'dashscope', 'qwen-tts', { per_second: 0.001 })
    const timed = await speak(byLength.model)
    assert.equal((await media.rowOf(timed.id)).other.seconds, 2)
  })

  it('synthesizes speech: CosyVoice of DashScope, at its own path, with its own voices', async () => {
    const setting = { voices: { alloy: 'longanyang' } }
    const { model } = await at(17, 'dashscope', 'cosyvoice-v3-flash', CHARACTERS, setting)
    for (const format of ['mp3', 'wav', 'pcm', 'opus'] as const) {
      const speech = await speak(model, { response_format: format, input: '你好' })
      assert.deepEqual([speech.status, speech.type], [200, SPEECH_TYPES[format]], speech.bytes.toString())
      if (format !== 'pcm') assert.equal(soundKind(speech.bytes), format === 'opus' ? 'ogg' : format)
      const row = await media.rowOf(speech.id)
      assert.deepEqual([row.other.characters, row.cost], [2, 30_000])
    }
    assert.equal((await speak(model, { speed: 4, instructions: 'softly' })).warnings, 'speed is 2')
    assert.equal((await speak(model, { response_format: 'flac' })).status, 400)
    const byLength = await at(17, 'dashscope', 'qwen-audio-3.0-tts-flash', { per_second: 0.001 })
    const timed = await speak(byLength.model, { voice: 'longanlingxin' })
    assert.equal((await media.rowOf(timed.id)).other.seconds, 2)
    const cut = await at(17, 'dashscope', 'cosyvoice-v2', CHARACTERS)
    await fetch(`${media.upstream}/sim/faults`, { method: 'POST', body: '{"fault":"eof-1"}' })
    const broken = await speak(cut.model)
    await fetch(`${media.upstream}/sim/faults`, { method: 'POST', body: '{"fault":null}' })
    assert.equal(broken.status, 502)
    assert.equal((await media.rowOf(broken.id)).cost, 0)
  })

  it('is not called for a strict client if it does not support a field', async () => {
    const { model } = await at(24, 'gemini-media', 'gemini-2.5-flash-preview-tts', { input: 1, output: 2 })
    const { id, key } = await media.open()
    const ask = (fields: object, strict: string) =>
      media.api(
        'POST',
        '/v1/audio/speech',
        { model, input: 'Hello', voice: 'alloy', response_format: 'wav', ...fields },
        { token: key, headers: { 'x-sluice-strict': strict } },
      )
    const refused = await ask({ speed: 2 }, 'true')
    assert.deepEqual([refused.status, refused.body.error.code], [400, 'invalid_parameter'])
    assert.match(refused.body.error.message, /speed is not supported/)
    assert.equal(await media.usedBy(id), 0)
    assert.equal((await ask({}, 'true')).status, 200)
    assert.equal((await ask({ speed: 2 }, 'false')).status, 200)
  })

  it('is sent voices as the channel maps them', async () => {
    const voices = { narrator: 'a'.repeat(20) }
    const { model } = await at(1013, 'elevenlabs', 'eleven_v3', CHARACTERS, { voices })
    assert.equal((await speak(model, { voice: 'narrator' })).status, 200)
    assert.equal((await speak(model, { voice: 'nobody' })).status, 400)
    const grok = await at(48, 'xai', 'grok-voice-tts-1.0', CHARACTERS)
    assert.equal((await speak(grok.model, { voice: 'rex' })).status, 200)
    const unknown = await speak(grok.model, { voice: 'marin' })
    assert.deepEqual([unknown.status, (unknown.error as { param: string }).param], [400, 'voice'])
  })

  it('that fails with status 200 causes a failover', async () => {
    const { model } = await at(35, 'minimax', 'speech-02-hd', CHARACTERS, { voices: { alloy: 'broke' } })
    const speech = await speak(model)
    assert.equal(speech.status, 502)
    assert.equal((await media.rowOf(speech.id)).cost, 0)
  })

  const LISTENERS: [string, number, string, string][] = [
    ['ElevenLabs', 1013, 'elevenlabs', 'scribe_v1'],
    ['Deepgram', 1014, 'deepgram', 'nova-3'],
    ['xAI', 48, 'xai', 'grok-voice-transcribe-1.0'],
    ['Mistral', 42, 'mistral', 'voxtral-mini-latest'],
    ['Gemini', 24, 'gemini-media', 'gemini-2.5-flash'],
    ['Gemini, by a model for nothing else', 24, 'gemini-media', 'gemini-3.5-transcribe'],
  ]

  for (const [name, type, path, sentModel] of LISTENERS) {
    it(`transcribes in all five response formats: ${name}`, async () => {
      const { model } = await at(type, path, sentModel, { per_second: 0.0001 })
      const { id, sdk } = await media.open()
      const file = wavOf(3)
      const size = wavFile(3).length
      const { text } = await sdk.audio.transcriptions.create({ model, file })
      assert.match(text, new RegExp(`^I heard .* of ${size} bytes\\.$`))
      assert.equal(
        await sdk.audio.transcriptions.create({ model, file, response_format: 'text' }),
        `${text}\n`,
      )
      const srt = await sdk.audio.transcriptions.create({ model, file, response_format: 'srt' })
      assert.match(srt, /^1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\nI heard/)
      const vtt = await sdk.audio.transcriptions.create({ model, file, response_format: 'vtt' })
      assert.match(vtt, /^WEBVTT\n\n00:00:0\d\.\d{3} --> 00:00:0\d\.\d{3}\nI heard/)
      const verbose = await sdk.audio.transcriptions.create({ model, file, response_format: 'verbose_json' })
      assert.equal(verbose.duration, 3)
      assert.ok((verbose.segments?.length ?? 0) > 0)
      const rows = await media.rowsOf(id, 5)
      for (const row of rows) assert.deepEqual([row.cost, row.other.seconds], [300_000, 3])
    })
  }

  it('is paid by its audio tokens, translates, and accepts only what fits a request: Gemini', async () => {
    const price = { input: 1, audio_input: 2, output: 3 }
    const { model } = await at(24, 'gemini-media', 'gemini-2.5-flash', price)
    const { id, key, sdk } = await media.open()
    const { text } = await sdk.audio.translations.create({ model, file: wavOf(3) })
    assert.match(text, /^I heard audio\/wav of/)
    const row = await media.rowOf(id)
    assert.equal(row.other.audio_input, 3 * 32)
    assert.equal(row.cost, 40 * 1_000 + 3 * 32 * 2_000 + row.completion_tokens * 3_000)
    const scribe = await at(24, 'gemini-media', 'gemini-3.5-transcribe', price)
    const form = soundForm({ model: scribe.model }, wavOf(1))
    const refused = await media.post('/v1/audio/translations', key, form)
    assert.deepEqual([refused.status, refused.body.error.param], [400, 'model'])
    const long = await media.post('/v1/audio/transcriptions', key, soundForm({ model }, wavOf(1_900)))
    assert.deepEqual([long.status, long.body.error.param], [400, 'file'])
    const verbose = soundForm({ model, response_format: 'verbose_json' }, wavOf(1))
    const untimed = await media.post('/v1/audio/transcriptions', key, verbose)
    assert.match(untimed.headers.get('x-sluice-warnings') ?? '', /no timestamps/)
  })

  it('transcribes into a stream although it does not stream', async () => {
    const { model } = await at(1014, 'deepgram', 'nova-3', { per_second: 0.0001 })
    const { sdk } = await media.open()
    const stream = await sdk.audio.transcriptions.create({ model, file: wavOf(3), stream: true })
    let text = ''
    for await (const event of stream) if (event.type === 'transcript.text.delta') text += event.delta
    assert.match(text, /^I heard/)
  })

  it('returns words if they are requested', async () => {
    const { model } = await at(1014, 'deepgram', 'nova-3', { per_second: 0.0001 })
    const { sdk } = await media.open()
    const answer = await sdk.audio.transcriptions.create({
      model,
      file: wavOf(3),
      response_format: 'verbose_json',
      timestamp_granularities: ['word'],
    })
    assert.deepEqual(answer.words?.[0], { word: 'I', start: 0, end: 0.5 })
    assert.equal(answer.segments?.[0]?.text, answer.text)
  })

  it('does not translate if it only transcribes', async () => {
    const { model } = await at(1014, 'deepgram', 'nova-3', { per_second: 0.0001 })
    const { key } = await media.open()
    const reply = await media.post('/v1/audio/translations', key, soundForm({ model }, wavOf(1)))
    assert.deepEqual([reply.status, reply.body.error.code], [503, 'no_channel_available'])
  })

  it('moderates with its own category names: Mistral', async () => {
    const { model } = await at(42, 'mistral', 'mistral-moderation-latest', { input: 0 })
    const { key } = await media.open()
    const reply = await post(key, '/v1/moderations', { model, input: ['well', 'kill'] })
    const [good, bad] = reply.body.results
    assert.deepEqual([good.flagged, bad.flagged], [false, true])
    assert.deepEqual(
      [bad.categories.violence, bad.categories.pii, bad.categories['self-harm']],
      [true, false, false],
    )
    assert.equal(bad.category_scores.violence, 0.9)
  })

  const RANKERS: [string, number, string, string, boolean][] = [
    ['Voyage', 1015, 'voyage', 'rerank-2', true],
    ['Text Embeddings Inference', 1023, 'tei', 'bge-reranker', false],
    ['DashScope', 17, 'dashscope', 'gte-rerank-v2', true],
  ]

  for (const [name, type, path, sentModel, tellsTokens] of RANKERS) {
    it(`reranks: ${name}`, async () => {
      const { model } = await at(type, path, sentModel, { input: 1 })
      const { id, key } = await media.open()
      const request = { model, query: QUERY, documents: DOCUMENTS, top_n: 2, return_documents: true }
      const reply = await post(key, '/v1/rerank', request)
      assert.equal(reply.status, 200, reply.text)
      assert.deepEqual(
        reply.body.results.map((each: { index: number; document: { text: string } }) => [
          each.index,
          each.document.text,
        ]),
        [
          [2, 'Paris is the capital of France.'],
          [0, 'Berlin is a capital.'],
        ],
      )
      assert.equal(typeof reply.body.id, 'string')
      assert.ok(reply.body.meta.billed_units)
      const row = await media.rowOf(id)
      assert.equal(row.other.source, tellsTokens ? 'provider' : 'counted')
      assert.equal(row.cost, row.prompt_tokens * 1_000)
      assert.ok(row.cost > 0)
    })
  }

  const PAINTERS: [string, number, string, string, Record<string, unknown>][] = [
    ['Gemini', 24, 'gemini-media', 'gemini-2.5-flash-image', {}],
    ['Imagen', 24, 'gemini-media', 'imagen-3.0-generate-001', {}],
    ['xAI', 48, 'xai', 'grok-imagine-image', { size: '1024x1024', quality: 'high' }],
    ['VolcEngine', 45, 'volcengine', 'doubao-seedream-4-0', {}],
    ['DashScope', 17, 'dashscope', 'qwen-image-plus', { size: '1328x1328' }],
    ['MiniMax', 35, 'minimax', 'image-01', {}],
    ['SiliconFlow', 40, 'siliconflow', 'Kwai-Kolors/Kolors', { size: '1024x1024' }],
  ]

  for (const [name, type, path, sentModel, fields] of PAINTERS) {
    it(`makes as many images as are requested: ${name}`, async () => {
      const { model } = await at(type, path, sentModel, { image: 0.02 })
      const { id, key } = await media.open()
      const reply = await post(key, '/v1/images/generations', { model, prompt: 'a cat', n: 3, ...fields })
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.body.data.length, 3)
      for (const { url, b64_json } of reply.body.data)
        assert.ok(b64_json === PICTURE || /^https:/.test(url), JSON.stringify(reply.body.data))
      assert.equal((await media.rowOf(id)).cost, 60_000_000)
    })
  }

  const file = (name: string) => new File([Buffer.from(PICTURE, 'base64')], name, { type: 'image/png' })

  it('speaks with the billed model, and with another one only if the channel maps the voice to it: Deepgram', async () => {
    const vendor = await startVendor(() => ({ type: 'audio/mpeg', body: 'sound' }))
    try {
      const setting = { voices: { nova: 'aura-2-luna-en' } }
      const fields = { type: 1014, base_url: vendor.url, setting }
      const { model } = await media.offer('aura-asteria-en', CHARACTERS, fields)
      const { key } = await media.open()
      const modelFor = async (voice: string | object) => {
        const reply = await post(key, '/v1/audio/speech', { model, input: 'Hi', voice })
        assert.equal(reply.status, 200, reply.text)
        const sentModel = new URL(vendor.seen.at(-1)?.path ?? '', vendor.url).searchParams.get('model')
        return [sentModel, reply.headers.get('x-sluice-warnings')]
      }
      assert.deepEqual(await modelFor('alloy'), ['aura-asteria-en', null])
      assert.deepEqual(await modelFor('nova'), ['aura-2-luna-en', null])
      const warning = 'voice is aura-asteria-en, because a voice is a model'
      assert.deepEqual(await modelFor('aura-2-thalia-en'), ['aura-asteria-en', warning])
      assert.deepEqual(await modelFor({ id: 'aura-2-thalia-en' }), ['aura-asteria-en', warning])
      assert.deepEqual(await modelFor('aura-asteria-en'), ['aura-asteria-en', null])
    } finally {
      await vendor.close()
    }
  })

  it('counts a response without usage like another one to the same request: Gemini', () => {
    const part = { inlineData: { mimeType: 'image/png', data: PICTURE } }
    const onePicture = { candidates: [{ content: { parts: [part] }, finishReason: 'STOP' }] }
    const refused = { candidates: [{ finishReason: 'IMAGE_SAFETY' }] }
    const usageMetadata = {
      promptTokenCount: 10,
      candidatesTokenCount: 1_290,
      candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: 1_290 }],
    }
    const usageOf = (...answers: readonly object[]) => {
      const { usage } = gemini.dialects.images.gemini.decode(answers)
      return usage && [usage.input, usage.imageOutput, usage.calls]
    }
    const reported = { ...onePicture, usageMetadata }
    assert.deepEqual(usageOf(reported, reported), [20, 2_580, 1])
    assert.deepEqual(usageOf(onePicture, reported, onePicture), [30, 3_870, 1])
    // A response without an image and without usage is not billed.
    assert.deepEqual(usageOf(reported, refused), [10, 1_290, 1])
    assert.equal(usageOf(onePicture, onePicture), undefined)
  })

  it('edits images that are sent inline in each request: Gemini', async () => {
    const { model } = await at(24, 'gemini-media', 'gemini-2.5-flash-image', { image: 0.02 })
    const { id, key, sdk } = await media.open()
    const request = { model, prompt: 'a cat', n: 2 }
    const response = await sdk.images.edit({ ...request, image: [file('a.png'), file('b.png')] })
    assert.deepEqual(
      response.data?.map(({ b64_json }) => b64_json),
      [PICTURE, PICTURE],
    )
    const [row] = await media.rowsOf(id)
    assert.equal(row?.cost, 40_000_000)
    assert.equal((await post(key, '/v1/images/edits', { ...request, image: PICTURE })).status, 200)
    const address = { ...request, image: 'https://pictures.example/a.png' }
    const refused = await post(key, '/v1/images/edits', address)
    assert.deepEqual([refused.status, refused.body.error.param], [400, 'image'])
  })

  it('does not edit an image without the mask that the client sent, unless the client accepts that: Gemini', async () => {
    const { model } = await at(24, 'gemini-media', 'gemini-2.5-flash-image', { image: 0.02 })
    const { sdk } = await media.open()
    const request = { model, prompt: 'a cat', image: file('a.png'), mask: file('mask.png') }
    await assert.rejects(sdk.images.edit(request), {
      status: 400,
      code: 'unsupported_content',
      param: 'mask',
    })
    const lossy = { headers: { 'x-sluice-strict': 'false' } }
    const { data, response } = await sdk.images.edit(request, lossy).withResponse()
    assert.equal(data.data?.length, 1)
    assert.equal(response.headers.get('x-sluice-warnings'), 'mask is not supported')
  })

  it('edits images sent as files or as URLs: xAI', async () => {
    const { model } = await at(48, 'xai', 'grok-imagine-image', { image: 0.02 })
    const { id, key, sdk } = await media.open()
    const request = { model, prompt: 'a cat', size: '1024x1536' as const, n: 2 }
    const one = await sdk.images.edit({ ...request, image: file('a.png') })
    const several = await sdk.images.edit({ ...request, image: [file('a.png'), file('b.png')] })
    assert.deepEqual([one.data?.length, several.data?.length], [2, 2])
    const json = { ...request, image: 'https://pictures.example/a.png' }
    assert.equal((await post(key, '/v1/images/edits', json)).status, 200)
    const [row] = await media.rowsOf(id, 3)
    assert.equal(row?.cost, 40_000_000)
    for (const image of ['not a picture', Array(4).fill('https://pictures.example/a.png')]) {
      const refused = await post(key, '/v1/images/edits', { ...request, image })
      assert.deepEqual([refused.status, refused.body.error.param], [400, 'image'])
    }
  })

  it('receives the channel overrides, in JSON and in forms', async () => {
    const { model } = await media.offer('tts-1', CHARACTERS, { param_override: { response_format: 'wav' } })
    assert.equal((await speak(model)).type, 'audio/wav')
    const transcription = await media.offer(
      'whisper-1',
      { per_second: 0.0001 },
      { param_override: { response_format: 'verbose_json' } },
    )
    const { key } = await media.open()
    const reply = await media.post(
      '/v1/audio/transcriptions',
      key,
      soundForm({ model: transcription.model }, wavOf(1)),
    )
    assert.equal(reply.body.task, 'transcribe')
  })

  it('causes a warning if it returns URLs and the client requested the image itself', async () => {
    const { model } = await at(17, 'dashscope', 'qwen-image-plus', { image: 0.02 })
    const { key } = await media.open()
    const request = { model, prompt: 'a cat', response_format: 'b64_json' }
    const reply = await post(key, '/v1/images/generations', request)
    assert.equal(reply.headers.get('x-sluice-warnings'), 'response_format is url')
  })

  it('is tested with the operation of its model', async () => {
    const cases: [number, string, string][] = [
      [1, '', 'tts-1'],
      [1, '', 'whisper-1'],
      [1, '', 'text-moderation-latest'],
      [1, '', 'bge-reranker-v2-m3'],
      [1, '', 'gpt-image-1'],
      [1013, '/elevenlabs', 'eleven_v3'],
      [1014, '/deepgram', 'nova-3'],
    ]
    for (const [type, path, name] of cases) {
      const id = await media.addChannel({ type, base_url: `${media.upstream}${path}`, models: [name] })
      const { body } = await media.api('GET', `/api/channel/test/${id}`)
      assert.equal(body.success, true, `${name}: ${body.message}`)
    }
    const page = await media.addChannel({ models: ['tts-9'], model_mapping: { 'tts-9': 'sim-html-tts' } })
    const { body } = await media.api('GET', `/api/channel/test/${page}`)
    assert.equal(body.success, false)
  })

  it('is paid by the tokens of all upstream requests', async () => {
    const { model } = await at(24, 'gemini-media', 'gemini-2.5-flash-image', {
      input: 1,
      output: 2,
      image_output: 30,
    })
    const { id, key } = await media.open()
    await post(key, '/v1/images/generations', { model, prompt: 'a cat', n: 2, response_format: 'url' })
    const row = await media.rowOf(id)
    assert.equal(row.other.image_output, 2 * 1290)
    assert.equal(row.cost, row.prompt_tokens * 1_000 + 2 * 1290 * 30_000)
  })
})

describe('a self-hosted server with unusual responses', () => {
  const media = suiteMedia('sqlite')
  let replay: Replay
  before(async () => {
    replay = await startReplay()
  })
  after(async () => {
    replay.close()
  })

  /** Calls a channel that returns these bodies in turn. */
  async function callChannel(
    { path, price }: { path: string; price: Readonly<Record<string, unknown>> },
    answers: readonly { body: Json; type?: string }[],
    ask: (key: string, model: string) => Promise<{ status: number; text: string }>,
  ) {
    let at = 0
    replay.play([{ method: 'POST', path, answer: () => answers[at++] ?? { body: null } }])
    const { model } = await media.offer('odd', price, { base_url: replay.url })
    const { id, key } = await media.open()
    const replies: [number, string, number][] = []
    for (const _each of answers) {
      const { status, text } = await ask(key, model)
      const { cost = 0 } = (await media.rowsOf(id, replies.length + 1)).at(-1) ?? {}
      replies.push([status, status === 200 ? text : '', cost])
    }
    return replies
  }
  const post = (path: string, body: object) => async (key: string, model: string) =>
    media.api('POST', path, { model, ...body }, { token: key })
  const hear = (response_format: string) => (key: string, model: string) =>
    media.post('/v1/audio/transcriptions', key, soundForm({ model, response_format }, wavOf(6)))
  const HEARING = { path: '/v1/audio/transcriptions', price: { per_second: 0.01 } }

  it('sends a text as a JSON string, or with a text content type: it is that text', async () => {
    const [quoted] = await callChannel(HEARING, [{ body: 'two\nlines' }], hear('text'))
    assert.deepEqual(quoted, [200, 'two\nlines', 60_000_000])
    const [nothing] = await callChannel(HEARING, [{ body: [] }], hear('vtt'))
    assert.equal(nothing?.[0], 502)
  })

  it('writes paragraphs, arrows and scripts without spaces: its subtitles stay intact', async () => {
    const text = 'One.\n\n  Two --> three.\r\n'
    const words = [...'你好。', 'hi', 'you'].map((word, at) => ({ word, start: at, end: at + 1 }))
    const bodies = [{ text }, { text: '你好。 hi you', words }].map(body => ({ body }))
    const [paragraphs, spaced] = await callChannel(HEARING, bodies, hear('srt'))
    assert.equal(paragraphs?.[1], '1\n00:00:00,000 --> 00:00:06,000\nOne.\nTwo -> three.\n\n')
    assert.equal(
      spaced?.[1],
      '1\n00:00:00,000 --> 00:00:03,000\n你好。\n\n2\n00:00:03,000 --> 00:00:05,000\nhi you\n\n',
    )
  })

  it('reports a length of zero: nothing is charged', async () => {
    const usage = { type: 'duration', seconds: 0 }
    const [reply] = await callChannel(HEARING, [{ body: { text: 'a', usage } }], hear('json'))
    assert.deepEqual([reply?.[0], reply?.[2]], [200, 0])
  })

  it('returns fewer vectors than texts: that is a failure, and costs nothing', async () => {
    const embedding = { path: '/v1/embeddings', price: { input: 1 } }
    const vector = { object: 'embedding', index: 0, embedding: [1] }
    const usage = { prompt_tokens: 2, total_tokens: 2 }
    const bodies = [
      { data: [], usage },
      { data: [vector], usage },
      { data: [vector, vector], usage },
    ]
    const replies = await callChannel(
      embedding,
      bodies.map(body => ({ body })),
      post('/v1/embeddings', { input: ['a', 'b'] }),
    )
    assert.deepEqual(
      replies.map(([status, , cost]) => [status, cost]),
      [
        [502, 0],
        [502, 0],
        [200, 2_000],
      ],
    )
  })

  it('returns null in place of an image: only actual images are charged', async () => {
    const drawing = { path: '/v1/images/generations', price: { image: 0.01 } }
    const none = { url: null, b64_json: null }
    const replies = await callChannel(
      drawing,
      [{ body: { data: [none] } }, { body: { data: [none, { url: 'https://a.example/b' }] } }],
      post('/v1/images/generations', { prompt: 'p', n: 2 }),
    )
    assert.deepEqual(
      replies.map(([status, , cost]) => [status, cost]),
      [
        [502, 0],
        [200, 10_000_000],
      ],
    )
  })

  it('returns a document or an image in place of audio: that is a failure', async () => {
    const speaking = { path: '/v1/audio/speech', price: { per_character: 0.001 } }
    const types = ['application/xml', 'application/problem+xml', 'image/svg+xml']
    const replies = await callChannel(
      speaking,
      types.map(type => ({ type, body: 'x' })),
      post('/v1/audio/speech', { input: 'Hello', voice: 'alloy' }),
    )
    assert.deepEqual(
      replies.map(([status, , cost]) => [status, cost]),
      types.map(() => [502, 0]),
    )
  })
})

it('several responses to one request together are at most as long as one may be', async () => {
  const answer = { kind: 'buffered', status: 200, headers: {}, body: Buffer.from('12345') } as const
  const upstream = { exchange: () => ({ outcome: Promise.resolve(answer), abort() {} }) }
  const timeouts = { connectMs: 1, firstByteMs: 1, idleMs: 1, totalMs: 1 }
  const ask = { url: new URL('http://a.example'), headers: {}, timeouts, isStream: false }
  const outcomeOf = (maxAnswerBytes: number) => {
    const body = [Buffer.from('1'), Buffer.from('2')]
    return send(upstream, { body }, { ...ask, maxAnswerBytes }).outcome
  }
  assert.deepEqual(await outcomeOf(10), { ...answer, body: Buffer.from('[12345,12345]') })
  const { kind } = await outcomeOf(9)
  assert.equal(kind, 'failure')
})

it('only the first of several bodies of one request are sent at the end of a turn', async () => {
  const answer = { kind: 'buffered', status: 200, headers: {}, body: Buffer.from('1') } as const
  const turnEnds: (boolean | undefined)[] = []
  const upstream = {
    exchange({ isEndOfTurn }: UpstreamRequest) {
      turnEnds.push(isEndOfTurn)
      return { outcome: Promise.resolve(answer), abort() {} }
    },
  }
  const timeouts = { connectMs: 1, firstByteMs: 1, idleMs: 1, totalMs: 1 }
  const ask = { url: new URL('http://a.example'), headers: {}, timeouts, isStream: false, isEndOfTurn: true }
  const body = Array.from({ length: 6 }, (_, index) => Buffer.from(String(index)))
  await send(upstream, { body }, ask).outcome
  assert.deepEqual(turnEnds, [true, true, true, true, false, false])
})

describe('several bodies of one request, one of which fails', () => {
  const answer = { kind: 'buffered', status: 200, headers: {}, body: Buffer.from('1') } as const
  const error = { ...answer, status: 400 } as const
  const cut = { kind: 'failure', reason: 'cut', message: 'aborted', wasSent: true } as const
  const unsent = { ...cut, wasSent: false } as const
  const refused = { ...cut, reason: 'connect', wasSent: false } as const
  const timeouts = { connectMs: 1, firstByteMs: 1, idleMs: 1, totalMs: 1 }
  const ask = { url: new URL('http://a.example'), headers: {}, timeouts, isStream: false }

  /** The outcome if the bodies are answered so; a list: when the exchange is aborted. */
  const outcomeOf = (...outcomes: readonly (UpstreamOutcome | readonly [UpstreamOutcome])[]) => {
    let next = 0
    const upstream = {
      exchange() {
        const outcome = outcomes[next++] as UpstreamOutcome | readonly [UpstreamOutcome]
        const { promise, resolve } = Promise.withResolvers<UpstreamOutcome>()
        if (!Array.isArray(outcome)) resolve(outcome as UpstreamOutcome)
        return { outcome: promise, abort: () => resolve((outcome as readonly [UpstreamOutcome])[0]) }
      },
    }
    return send(upstream, { body: outcomes.map(() => Buffer.from('x')) }, ask).outcome
  }

  it('may be billed if another body was answered or in flight', async () => {
    for (const others of [
      [answer],
      [[answer]],
      [[cut]],
      [error, [cut]],
      [answer, answer, answer, answer],
    ] as const)
      for (const failed of [error, refused])
        assert.deepEqual(await outcomeOf(...others.slice(1), failed, others[0]), {
          ...failed,
          othersMayBeBilled: true,
        })
  })

  it('are not billed if no other body was sent, or all of them failed', async () => {
    for (const others of [[], [[unsent]], [[refused]], [error], [[error], error]] as const)
      assert.deepEqual(await outcomeOf(error, ...others), error)
  })
})
