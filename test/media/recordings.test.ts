import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { EMPTY } from '../../src/domain/usage.ts'
import { createEventMeter } from '../../src/media/event-meter.ts'
import { readImages } from '../../src/media/image.ts'
import { readCommonModeration } from '../../src/media/moderation.ts'
import { readCommonRanking } from '../../src/media/rerank.ts'
import type { SpeechAsk } from '../../src/media/speech-request.ts'
import type { TranscriptionAsk } from '../../src/media/transcript.ts'
import { writeTranscript } from '../../src/media/transcript.ts'
import { readCommonTranscript } from '../../src/media/transcript-answer.ts'
import { deepgram } from '../../src/providers/vendors/deepgram.ts'
import { elevenlabs } from '../../src/providers/vendors/elevenlabs.ts'
import { gemini } from '../../src/providers/vendors/gemini.ts'
import { mistral } from '../../src/providers/vendors/mistral.ts'
import { voyage } from '../../src/providers/vendors/voyage.ts'
import { xai } from '../../src/providers/vendors/xai.ts'
import { hasRecordings, WITHOUT_RECORDINGS } from '../support/recordings.ts'

const FOLDER = join(import.meta.dirname, '../../../shared/fixtures')
const read = (path: string) => JSON.parse(readFileSync(join(FOLDER, path), 'utf8'))
const recorded = (path: string) => read(path).interactions[0].response.body

const ask = {
  task: 'transcribe',
  granularities: [],
  isStream: false,
  format: 'srt',
} as unknown as TranscriptionAsk

describe('recorded vendor responses beside chat', () => {
  if (!hasRecordings) {
    it('are parsed like the corpus', t => t.skip(WITHOUT_RECORDINGS))
    return
  }

  it('are transcripts', () => {
    const words = read('openai-audio/openai-transcription.json')
    const transcript = readCommonTranscript(words)
    assert.equal(transcript.words?.[0]?.word, 'Galileo')
    assert.deepEqual(transcript.usage, { ...EMPTY, seconds: 37, calls: 1 })
    const whisper = recorded(
      'openai-audio/transcription_basic_functionality_openai_whisper-1_can_transcribe_audio.cassette.json',
    )
    assert.equal(readCommonTranscript(whisper).usage?.seconds, 4)
    const translated = recorded('openai-audio/audio_whisper-1_translate.cassette.json')
    assert.equal(readCommonTranscript(translated).usage, undefined)
    for (const name of ['transcription-verbose-segments', 'transcription-verbose-words'])
      assert.ok(readCommonTranscript(read(`openai-spec/${name}.json`)).text.length > 0)
  })

  it('are transcripts of vendors with their own format, from which subtitles are made', () => {
    const cases = [
      [deepgram.dialects.transcription.native, read('deepgram/deepgram-transcription.json'), 37],
      [elevenlabs.dialects.transcription.native, read('elevenlabs/elevenlabs-transcription.json'), undefined],
      [mistral.dialects.transcription.openai, read('mistral/mistral-transcription.json'), undefined],
      [
        xai.dialects.transcription.native,
        recorded('xai/transcription_basic_functionality_xai_grok-stt_can_transcribe_audio.cassette.json'),
        4,
      ],
    ] as const
    for (const [dialect, answer, seconds] of cases) {
      const transcript = (
        dialect.decode as (answer: unknown, ask: TranscriptionAsk) => ReturnType<typeof readCommonTranscript>
      )(answer, ask)
      assert.ok(transcript.text.length > 0)
      if (seconds !== undefined) assert.equal(transcript.usage?.seconds, seconds)
      const srt = writeTranscript(transcript, ask).body.toString()
      assert.match(srt, /^1\n00:00:0\d,\d{3} --> 00:00:\d\d,\d{3}\n\S/)
      assert.ok(!srt.includes('NaN'))
    }
  })

  it('are streams of transcripts', () => {
    for (const [name, usage] of [
      ['gpt-4o-transcribe-diarize_streams_segments_labelled_with_speakers', { audioInput: 37, output: 145 }],
      ['gpt-4o-transcribe_streams_text_deltas_and_returns_the_final_transcription', {}],
    ] as const) {
      const body = recorded(`openai-audio/transcription_basic_functionality_openai_${name}.cassette.json`)
      for (const size of [1, 13, body.length]) {
        const meter = createEventMeter({ last: ['transcript.text.done'] })
        const bytes = Buffer.from(body)
        const forwardedChunks: Buffer[] = []
        for (let at = 0; at < bytes.length; at += size)
          forwardedChunks.push(...meter.push(bytes.subarray(at, at + size)))
        forwardedChunks.push(...meter.end())
        assert.equal(meter.ending(), 'complete')
        assert.equal(Buffer.concat([...forwardedChunks, ...meter.closing()]).toString(), body)
        assert.ok(
          !Buffer.concat(forwardedChunks).includes('transcript.text.done'),
          'the last event waits for the books',
        )
        assert.ok(meter.reading.usage)
        for (const [count, value] of Object.entries(usage))
          assert.equal(meter.reading.usage?.[count as 'output'], value)
      }
    }
  })

  it('are rerank results', () => {
    const cohere = recorded(
      'cohere/rerank_reranking_with_cohere_rerank-v3_5_orders_documents_by_relevance_and_resolves_them_from_the_request.cassette.json',
    )
    const read = readCommonRanking(cohere)
    assert.deepEqual([read.searches, read.ranked[0]?.index], [1, 1])
    const ranking = voyage.dialects.rerank.native.decode(
      recorded('voyage/test_voyageai_rerank_legacy.cassette.json'),
    )
    assert.equal(ranking.ranked[0]?.index, 3)
    assert.ok((ranking.tokens ?? 0) > 0)
  })

  it('are moderations', () => {
    for (const name of [
      'moderation',
      'moderation_moderate_with_openai_provider_moderates_content_and_returns_a_moderation_instance',
      'moderation_moderate_with_openai_provider_moderates_text_with_an_image_attachment',
    ]) {
      const { results } = readCommonModeration(recorded(`openai-moderation/${name}.cassette.json`))
      assert.ok(results.every(({ categories }) => typeof categories.violence === 'boolean'))
    }
    assert.equal(readCommonModeration(read('openai-spec/moderation-image.json')).results.length, 1)
  })

  it('are images', () => {
    const inside = readImages(
      recorded('openai-images/image_basic_functionality_openai_gpt-image-1_can_paint_images.cassette.json'),
    )
    assert.equal(inside.count, 1)
    assert.ok((inside.usage?.imageOutput ?? 0) > 0)
    assert.equal(typeof inside.imageProperties.quality, 'string')
    const address = readImages(
      recorded(
        'openai-images/images_generate_A_springer_spaniel_cooking_pasta_wearing_a_hat_of_some_sort.cassette.json',
      ),
    )
    assert.deepEqual([address.count, address.usage], [1, undefined])
    const stream = Buffer.from(readFileSync(join(FOLDER, 'openai-spec/images-stream.txt')))
    const meter = createEventMeter({ last: ['image_generation.completed'] })
    meter.push(stream)
    meter.end()
    assert.equal(meter.ending(), 'complete')
  })

  it('are speech inside JSON', () => {
    const answer = recorded(
      'gemini/speech_basic_functionality_gemini_gemini-2_5-flash-preview-tts_can_speak.cassette.json',
    )
    const speech = gemini.dialects.speech.gemini.decode(answer, { format: 'wav' } as SpeechAsk)
    assert.equal(speech.audio.toString('latin1', 0, 4), 'RIFF')
    assert.deepEqual([speech.usage?.input, speech.usage?.audioOutput], [11, 111])
  })

  it('are embeddings of vendors with their own format', () => {
    const request = { model: 'm', inputs: ['a', 'b'] }
    const recorded = (path: string) => read(path).interactions.at(-1).response.body
    const embeddings = voyage.dialects.embeddings.openai.decode(
      recorded('voyage/test_voyageai_embed_async_legacy.cassette.json'),
      request,
    )
    assert.deepEqual(
      embeddings.vectors.map(vector => vector.length),
      [512, 512],
    )
    assert.equal(embeddings.tokens, 12)
    const { vectors, tokens } = gemini.dialects.embeddings.gemini.decode(
      recorded(
        'gemini/embedding_basic_functionality_gemini_gemini-embedding-001_can_handle_multiple_texts_with_custom_dimensions.cassette.json',
      ),
      { ...request, inputs: ['a', 'b', 'c'], dimensions: 8 },
    )
    assert.equal(tokens, undefined)
    for (const vector of vectors) assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-9)
  })
})
