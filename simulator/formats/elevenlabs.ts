import { fieldIn, readForm } from '../form.ts'
import { isObject, textOf } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { SOUNDS } from '../sound.ts'
import type { Inquiry, Reply } from './format.ts'
import { timedWords, transcriptOf } from './openai-transcription.ts'
import { inHeader, vendor } from './vendor.ts'

const SECONDS_PER_CHARACTER = 0.1

/** Speech by the id of a voice; the query has the format. */
function speak({ id, body, params: [voice = ''], query }: Inquiry): Reply {
  const request: unknown = JSON.parse(body)
  const text = isObject(request) ? textOf(request.text) : undefined
  const model = isObject(request) ? textOf(request.model_id) : undefined
  if (!text || !model) throw new ProviderError('missing_field', 'text and model_id are required', 'text')
  // The names of voices are no ids.
  if (!/^[A-Za-z0-9]{20}$/.test(voice)) throw new ProviderError('bad_value', `no voice ${voice}`, 'voice')
  const name = query.get('output_format')?.split('_')[0] ?? 'mp3'
  const sound = SOUNDS[name as keyof typeof SOUNDS]
  const characters = [...text].length
  const pieces = sound.pieces(characters * SECONDS_PER_CHARACTER)
  const bill = { id, model, promptTokens: 0, units: { characters } }
  return {
    kind: 'stream',
    contentType: sound.type,
    frames: pieces.map(data => ({ data, tokens: 1 })),
    bill,
  }
}

function transcribe({ id, bytes, headers }: Inquiry): Reply {
  const form = readForm(bytes, headers)
  const model = fieldIn(form, 'model_id')
  const [file] = form.files.get('file') ?? []
  if (!model || !file) throw new ProviderError('missing_field', 'model_id and file are required', 'file')
  const text = transcriptOf(file.name, file.bytes)
  const words = timedWords(text).flatMap(({ word, start, end }) => [
    { text: word, start, end, type: 'word' },
    { text: ' ', start: end, end, type: 'spacing' },
  ])
  const body = JSON.stringify({ language_code: 'eng', language_probability: 0.9, text, words })
  return { kind: 'whole', body, tokens: 0, bill: { id, model, promptTokens: 0 } }
}

export const elevenlabs = vendor('ElevenLabs', inHeader('xi-api-key'), [
  { method: 'POST', path: /^\/elevenlabs\/v1\/text-to-speech\/([^/]+)\/stream$/, answer: speak },
  { method: 'POST', path: /^\/elevenlabs\/v1\/speech-to-text$/, answer: transcribe },
])
