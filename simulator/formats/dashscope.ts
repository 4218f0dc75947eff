import { isObject } from '../json.ts'
import { SOUNDS } from '../sound.ts'
import { countTokens } from '../tokens.ts'
import type { Inquiry, Reply } from './format.ts'
import { decodeRequest, missing } from './openai-request.ts'
import { EVENT_STREAM } from './openai-stream.ts'
import { rank } from './rerank.ts'
import { schemeKey, vendor } from './vendor.ts'

const objectOf = (value: unknown) => (isObject(value) ? value : {})

function rankNative({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const { scores, tokens } = rank(JSON.stringify({ model, ...objectOf(request.input) }))
  const results = scores.map((relevance_score, index) => ({ index, relevance_score }))
  const answer = { output: { results }, usage: { total_tokens: tokens }, request_id: `ds-${id}` }
  return { kind: 'whole', body: JSON.stringify(answer), tokens: 0, bill: { id, model, promptTokens: tokens } }
}

/** Always one image. */
function draw({ id, body }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  if (!Array.isArray(objectOf(request.input).messages)) throw missing('input')
  const content = [{ image: `https://pictures.example/${id}.png` }]
  const answer = {
    output: { choices: [{ finish_reason: 'stop', message: { role: 'assistant', content } }] },
    usage: { image_count: 1, width: 1024, height: 1024 },
    request_id: id,
  }
  const bill = { id, model, promptTokens: 0, units: { images: 1 } }
  return { kind: 'whole', body: JSON.stringify(answer), tokens: 0, bill }
}

const PIECES = 3
const SECONDS = 2
const AUDIO_TOKENS_PER_SECOND = 50

const isSpeech = (model: string) => /-tts/.test(model)

/** Raw samples in base64, a chunk per event; the last event has a URL instead of audio. */
function speak({ id, body, headers }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const { text, voice } = objectOf(request.input)
  if (typeof text !== 'string' || typeof voice !== 'string') throw missing('input')
  if (headers['x-dashscope-sse'] !== 'enable') throw missing('X-DashScope-SSE')
  const samples = Buffer.concat(SOUNDS.pcm.pieces(SECONDS))
  const size = Math.ceil(samples.length / PIECES)
  const usage = {
    input_tokens: countTokens(text),
    output_tokens: SECONDS * AUDIO_TOKENS_PER_SECOND,
    output_tokens_details: { audio_tokens: SECONDS * AUDIO_TOKENS_PER_SECOND },
    characters: [...text].length,
  }
  const event = (audio: object, isLast: boolean, at: number) => ({
    data: Buffer.from(
      `id:${at}\nevent:result\n:HTTP_STATUS/200\ndata:${JSON.stringify({
        output: { finish_reason: isLast ? 'stop' : 'null', audio: { id: `audio_${id}`, ...audio } },
        usage,
        request_id: id,
      })}\n\n`,
    ),
    tokens: 1,
  })
  const pieces = Array.from({ length: PIECES }, (_each, at) =>
    event({ data: samples.subarray(at * size, (at + 1) * size).toString('base64'), url: '' }, false, at + 1),
  )
  const last = event({ data: '', url: `https://sounds.example/${id}.wav` }, true, PIECES + 1)
  const bill = { id, model, promptTokens: usage.input_tokens, units: { seconds: SECONDS } }
  return { kind: 'stream', contentType: EVENT_STREAM, frames: [...pieces, last], bill }
}

/** Audio files in chunks, between events for sentences; the last one has a URL instead of audio. */
function synthesize({ id, body, headers }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const { text, voice, format } = objectOf(request.input)
  if (typeof text !== 'string' || typeof voice !== 'string') throw missing('input')
  if (headers['x-dashscope-sse'] !== 'enable') throw missing('X-DashScope-SSE')
  const sound = format === 'pcm' || format === 'opus' ? SOUNDS[format] : SOUNDS.mp3
  const usage = { characters: [...text].length }
  const event = (output: object, tokens = 0) => ({
    data: Buffer.from(
      `event:result\n:HTTP_STATUS/200\ndata:${JSON.stringify({ output, usage, request_id: id })}\n\n`,
    ),
    tokens,
  })
  const opening = event({ finish_reason: 'null', type: 'sentence-begin', audio: { data: '' } })
  const pieces = sound
    .pieces(SECONDS)
    .map(piece =>
      event(
        { finish_reason: 'null', type: 'sentence-synthesis', audio: { data: piece.toString('base64') } },
        1,
      ),
    )
  const last = event({ finish_reason: 'stop', audio: { data: '', url: `https://sounds.example/${id}` } })
  const bill = { id, model, promptTokens: 0, units: { characters: usage.characters } }
  return { kind: 'stream', contentType: EVENT_STREAM, frames: [opening, ...pieces, last], bill }
}

/** One path for images and speech; the model decides. */
function generate(inquiry: Inquiry): Reply {
  return isSpeech(decodeRequest(inquiry.body).model) ? speak(inquiry) : draw(inquiry)
}

export const dashscope = vendor('DashScope', schemeKey('Bearer'), [
  {
    method: 'POST',
    path: /^\/dashscope\/api\/v1\/services\/rerank\/text-rerank\/text-rerank$/,
    answer: rankNative,
  },
  {
    method: 'POST',
    path: /^\/dashscope\/api\/v1\/services\/aigc\/multimodal-generation\/generation$/,
    answer: generate,
  },
  {
    method: 'POST',
    path: /^\/dashscope\/api\/v1\/services\/audio\/tts\/SpeechSynthesizer$/,
    answer: synthesize,
  },
])
