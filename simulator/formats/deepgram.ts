import { isObject, textOf } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { SOUNDS } from '../sound.ts'
import type { Inquiry, Reply } from './format.ts'
import { lengthOf, timedWords, transcriptOf } from './openai-transcription.ts'
import { schemeKey, vendor } from './vendor.ts'

const ENCODINGS: Readonly<Record<string, keyof typeof SOUNDS>> = {
  mp3: 'mp3',
  opus: 'opus',
  aac: 'aac',
  flac: 'flac',
}

/** The query has the model, and the model has the voice. */
function speak({ id, body, query }: Inquiry): Reply {
  const request: unknown = JSON.parse(body)
  const text = isObject(request) ? textOf(request.text) : undefined
  const model = query.get('model')
  if (!text || !model) throw new ProviderError('missing_field', 'text and model are required', 'text')
  const encoding = query.get('encoding') ?? 'mp3'
  const name =
    encoding === 'linear16' ? (query.get('container') === 'wav' ? 'wav' : 'pcm') : ENCODINGS[encoding]
  if (name === undefined) throw new ProviderError('bad_value', 'no such encoding', 'encoding')
  const { type, pieces } = SOUNDS[name]
  const characters = [...text].length
  const frames = pieces(characters / 10).map(data => ({ data, tokens: 1 }))
  return {
    kind: 'stream',
    contentType: type,
    frames,
    bill: { id, model, promptTokens: 0, units: { characters } },
  }
}

/** The body is the file itself. */
function listen({ id, bytes, query }: Inquiry): Reply {
  const model = query.get('model')
  if (!model || bytes.length === 0)
    throw new ProviderError('missing_field', 'model and audio are required', 'model')
  const duration = lengthOf(bytes)
  const transcript = transcriptOf('sound', bytes)
  const words = timedWords(transcript).map(({ word, ...times }) => ({
    word: word.toLowerCase(),
    punctuated_word: word,
    ...times,
  }))
  const channels = [{ detected_language: 'en', alternatives: [{ transcript, confidence: 1, words }] }]
  const body = JSON.stringify({ metadata: { request_id: id, duration, channels: 1 }, results: { channels } })
  const units = { seconds: Math.ceil(duration) }
  return { kind: 'whole', body, tokens: 0, bill: { id, model, promptTokens: 0, units } }
}

export const deepgram = vendor('Deepgram', schemeKey('Token'), [
  { method: 'POST', path: /^\/deepgram\/v1\/speak$/, answer: speak },
  { method: 'POST', path: /^\/deepgram\/v1\/listen$/, answer: listen },
])
