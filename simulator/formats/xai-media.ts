import { readForm } from '../form.ts'
import { isObject, textOf } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { isSoundName, SOUNDS } from '../sound.ts'
import type { Inquiry, Reply } from './format.ts'
import { answerImageEdits, answerImages } from './openai-images.ts'
import { missing } from './openai-request.ts'
import { lengthOf, timedWords, transcriptOf } from './openai-transcription.ts'
import { schemeKey, vendor } from './vendor.ts'

const MODEL = 'grok-voice'

function speak({ id, body }: Inquiry): Reply {
  const request: unknown = JSON.parse(body)
  const text = isObject(request) ? textOf(request.text) : undefined
  if (!isObject(request) || !text) throw missing('text')
  if (!['ara', 'eve', 'leo', 'rex', 'sal'].includes(String(request.voice_id)))
    throw new ProviderError('bad_value', 'no such voice', 'voice_id')
  const codec = isObject(request.output_format) ? String(request.output_format.codec) : 'mp3'
  const { type, pieces } = SOUNDS[isSoundName(codec) ? codec : 'mp3']
  const bill = { id, model: MODEL, promptTokens: 0, units: { characters: [...text].length } }
  return { kind: 'stream', contentType: type, frames: pieces(2).map(data => ({ data, tokens: 1 })), bill }
}

function transcribe({ id, bytes, headers }: Inquiry): Reply {
  const [file] = readForm(bytes, headers).files.get('file') ?? []
  if (!file) throw missing('file')
  const text = transcriptOf(file.name, file.bytes)
  const duration = lengthOf(file.bytes)
  const words = timedWords(text).map(({ word, ...times }) => ({ text: word, ...times }))
  const bill = { id, model: MODEL, promptTokens: 0, units: { seconds: Math.ceil(duration) } }
  const body = JSON.stringify({ text, language: 'en', duration, words })
  return { kind: 'whole', body, tokens: 0, bill }
}

/** Aspect ratios instead of sizes. */
function draw(inquiry: Inquiry): Reply {
  const request: unknown = JSON.parse(inquiry.body)
  if (isObject(request) && ('size' in request || 'quality' in request))
    throw new ProviderError('bad_value', 'Argument not supported: size', 'size')
  return answerImages(inquiry)
}

/** JSON only, one image or up to three in a list, as URLs or data URLs. */
function redraw(inquiry: Inquiry): Reply {
  const request: unknown = JSON.parse(inquiry.body)
  if (!isObject(request)) throw missing('prompt')
  const { image, images, size } = request
  if (size !== undefined) throw new ProviderError('bad_value', 'Argument not supported: size', 'size')
  const sources = Array.isArray(images) ? images : [image]
  if (sources.length > 3 || (image !== undefined && images !== undefined))
    throw new ProviderError('bad_value', 'one image, or up to three images', 'images')
  for (const each of sources) {
    const url = isObject(each) ? textOf(each.url) : undefined
    if (!url || !/^(https?:|data:image\/[a-z]+;base64,[A-Za-z0-9+/]+=*$)/.test(url)) throw missing('image')
  }
  return answerImageEdits(inquiry)
}

export const xaiMedia = vendor('xAI', schemeKey('Bearer'), [
  { method: 'POST', path: /^\/xai\/v1\/tts$/, answer: speak },
  { method: 'POST', path: /^\/xai\/v1\/stt$/, answer: transcribe },
  { method: 'POST', path: /^\/xai\/v1\/images\/generations$/, answer: draw },
  { method: 'POST', path: /^\/xai\/v1\/images\/edits$/, answer: redraw },
])
