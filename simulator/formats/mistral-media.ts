import { fieldIn, readForm } from '../form.ts'
import { textOf } from '../json.ts'
import { isSoundName, SOUNDS } from '../sound.ts'
import type { Inquiry, Reply } from './format.ts'
import { decodeRequest, missing } from './openai-request.ts'
import { lengthOf, transcriptOf } from './openai-transcription.ts'
import { schemeKey, vendor } from './vendor.ts'

function speak({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const input = textOf(request.input)
  if (!input) throw missing('input')
  if (!textOf(request.voice_id)) throw missing('voice_id')
  const format = String(request.response_format)
  const sound = SOUNDS[isSoundName(format) ? format : 'mp3'].pieces(2)
  const bill = { id, model, promptTokens: 0, units: { characters: [...input].length } }
  const answer = JSON.stringify({ audio_data: Buffer.concat(sound).toString('base64') })
  return { kind: 'whole', body: answer, tokens: 0, bill }
}

/** JSON only; segments if timestamps are requested. */
function transcribe({ id, bytes, headers }: Inquiry): Reply {
  const form = readForm(bytes, headers)
  const model = fieldIn(form, 'model')
  const [file] = form.files.get('file') ?? []
  if (!model) throw missing('model')
  if (!file) throw missing('file')
  const text = transcriptOf(file.name, file.bytes)
  const seconds = Math.ceil(lengthOf(file.bytes))
  const segments = fieldIn(form, 'timestamp_granularities')
    ? [{ type: 'transcription_segment', text, start: 0.1, end: 1.5 }]
    : []
  const usage = { prompt_audio_seconds: seconds, prompt_tokens: 4, completion_tokens: 9, total_tokens: 300 }
  const body = JSON.stringify({ model, text, language: null, segments, usage })
  return { kind: 'whole', body, tokens: 9, bill: { id, model, promptTokens: 4, units: { seconds } } }
}

/** Categories of its own, and no `flagged`. */
function moderate({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const inputs = Array.isArray(request.input) ? request.input : [request.input]
  const results = inputs.map(input => {
    const isViolent = /kill/.test(String(input))
    return {
      categories: {
        sexual: false,
        hate_and_discrimination: false,
        violence_and_threats: isViolent,
        pii: false,
      },
      category_scores: {
        sexual: 0,
        hate_and_discrimination: 0,
        violence_and_threats: isViolent ? 0.9 : 0,
        pii: 0,
      },
    }
  })
  const bill = { id, model, promptTokens: 0, units: { inputs: inputs.length } }
  return { kind: 'whole', body: JSON.stringify({ id, model, results }), tokens: 0, bill }
}

export const mistralMedia = vendor('Mistral', schemeKey('Bearer'), [
  { method: 'POST', path: /^\/mistral\/v1\/audio\/speech$/, answer: speak },
  { method: 'POST', path: /^\/mistral\/v1\/audio\/transcriptions$/, answer: transcribe },
  { method: 'POST', path: /^\/mistral\/v1\/moderations$/, answer: moderate },
])
