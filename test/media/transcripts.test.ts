import assert from 'node:assert/strict'
import { describe } from 'node:test'
import { type EmbeddingAsk, readCommonVectors } from '../../src/media/embedding.ts'
import { createEventMeter } from '../../src/media/event-meter.ts'
import { readImages } from '../../src/media/image.ts'
import { readCommonModeration } from '../../src/media/moderation.ts'
import { readCommonRanking } from '../../src/media/rerank.ts'
import type { SpeechAsk } from '../../src/media/speech-request.ts'
import { type TranscriptionAsk, writeTranscript } from '../../src/media/transcript.ts'
import { readCommonTranscript } from '../../src/media/transcript-answer.ts'
import { dashscope } from '../../src/providers/vendors/dashscope.ts'
import { deepgram } from '../../src/providers/vendors/deepgram.ts'
import { elevenlabs } from '../../src/providers/vendors/elevenlabs.ts'
import { gemini } from '../../src/providers/vendors/gemini.ts'
import { minimax } from '../../src/providers/vendors/minimax.ts'
import { mistral } from '../../src/providers/vendors/mistral.ts'
import { textEmbeddingsInference } from '../../src/providers/vendors/text-embeddings-inference.ts'
import { vertex } from '../../src/providers/vendors/vertex.ts'
import { voyage } from '../../src/providers/vendors/voyage.ts'
import { xai } from '../../src/providers/vendors/xai.ts'
import { type Transcript, transcriptsIn } from '../support/corpus.ts'
import { law } from '../support/laws.ts'

const SPEECH = { format: 'wav' } as SpeechAsk
const SUBTITLES = {
  task: 'transcribe',
  granularities: [],
  isStream: false,
  format: 'srt',
} as unknown as TranscriptionAsk

/** A decoder of one vendor, called with what it needs beside the response. */
type Reader = (answer: unknown, request: object) => unknown

type Speech = { readonly audio: Buffer; readonly contentType?: string | undefined; readonly usage?: unknown }
const soundOf = ({ audio, contentType, usage }: Speech) => ({
  head: audio.toString('latin1', 0, 4),
  bytes: audio.length,
  contentType,
  usage,
})

const embeddingAsk = (request: object): EmbeddingAsk => {
  const { model, input, dimensions } = request as {
    model: string
    input: string | string[]
    dimensions?: number
  }
  return { model, inputs: [input].flat(), ...(dimensions && { dimensions }) } as EmbeddingAsk
}

/** How each vendor's responses are parsed; `common` if the transcript names none. */
const READERS: Readonly<Record<string, Readonly<Record<string, Reader>>>> = {
  transcription: {
    common: readCommonTranscript,
    deepgram: deepgram.dialects.transcription.native.decode,
    elevenlabs: elevenlabs.dialects.transcription.native.decode,
    mistral: mistral.dialects.transcription.openai.decode,
    xai: xai.dialects.transcription.native.decode,
  },
  rerank: {
    common: readCommonRanking,
    voyage: voyage.dialects.rerank.native.decode,
    dashscope: dashscope.dialects.rerank.native.decode,
    textEmbeddingsInference: answer => textEmbeddingsInference.dialects.rerank.native.decode(answer),
  },
  moderation: { common: readCommonModeration, mistral: mistral.dialects.moderation.native.decode },
  images: {
    common: answer => readImages(answer),
    // These two make one image per call: a request for several is several calls.
    gemini: answer => gemini.dialects.images.gemini.decode([answer]),
    imagen: gemini.dialects.images.native.decode,
    minimax: minimax.dialects.images.native.decode,
    dashscope: answer => dashscope.dialects.images.native.decode([answer]),
  },
  speech: {
    gemini: answer => soundOf(gemini.dialects.speech.gemini.decode(answer, SPEECH)),
    mistral: answer => soundOf(mistral.dialects.speech.native.decode(answer, SPEECH)),
    minimax: answer => soundOf(minimax.dialects.speech.native.decode(answer, SPEECH)),
  },
  embeddings: {
    common: (answer, request) => readCommonVectors(answer, embeddingAsk(request)),
    voyage: (answer, request) => voyage.dialects.embeddings.openai.decode(answer, embeddingAsk(request)),
    gemini: (answer, request) => gemini.dialects.embeddings.gemini.decode(answer, embeddingAsk(request)),
    vertex: (answer, request) => vertex.dialects.embeddings.native.decode(answer, embeddingAsk(request)),
  },
}

/** The last event of a stream, which is held back until the request is settled. */
const LAST: Readonly<Record<string, string>> = {
  transcription: 'transcript.text.done',
  images: 'image_generation.completed',
  speech: 'speech.audio.done',
}

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

for (const [folder, readers] of Object.entries(READERS)) {
  describe(`transcripts of ${folder}`, () => {
    for (const transcript of transcriptsIn(folder)) {
      const { name, vendor = 'common', request = {}, answer, expected } = transcript
      const reader = readers[vendor]
      if (transcript.stream !== undefined) metersStream(folder, transcript)
      else
        law(`${name} is parsed with the vendor’s meaning`, { transcript: name }, () => {
          assert.ok(reader, `${vendor} has a reader`)
          assert.ok(expected, 'the transcript says what must be read')
          const reading = plain(reader(answer, request))
          assert.partialDeepStrictEqual(reading, expected)
        })
    }
  })
}

describe('subtitles', () => {
  for (const { name, vendor = 'common', answer } of transcriptsIn('transcription')) {
    if (answer === undefined) continue
    law(`are made from ${name}`, { transcript: name }, () => {
      const reader = READERS.transcription?.[vendor] as (
        answer: unknown,
      ) => ReturnType<typeof readCommonTranscript>
      const reading = reader(answer)
      const transcript = { ...reading, duration: reading.duration ?? 2 }
      const subtitles = writeTranscript(transcript, SUBTITLES).body.toString()
      assert.match(subtitles, /^1\n00:00:0\d,\d{3} --> 00:00:0[12],\d{3}\nLock/)
      assert.ok(!subtitles.includes('NaN'))
    })
  }
})

function metersStream(folder: string, { name, stream = Buffer.alloc(0), expected }: Transcript): void {
  law(`${name} is forwarded unchanged, with its last event held back`, { transcript: name }, () => {
    const last = LAST[folder]
    assert.ok(last)
    for (const size of [1, 13, stream.length]) {
      const meter = createEventMeter({ last: [last] })
      const output: Buffer[] = []
      for (let at = 0; at < stream.length; at += size)
        output.push(...meter.push(stream.subarray(at, at + size)))
      output.push(...meter.end())
      assert.equal(meter.ending(), 'complete')
      assert.ok(!Buffer.concat(output).includes(last), 'the last event waits for the settlement')
      assert.equal(Buffer.concat([...output, ...meter.closing()]).toString(), stream.toString())
      assert.partialDeepStrictEqual(plain(meter.reading.usage), expected)
    }
  })
}
