import { textOf } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { isSoundName, SOUNDS } from '../sound.ts'
import { steer } from '../steering.ts'
import { countTokens } from '../tokens.ts'
import type { Inquiry, Reply, StreamFrame } from './format.ts'
import { decodeRequest, missing } from './openai-request.ts'
import { eventOf } from './openai-stream.ts'

const SECONDS_PER_CHARACTER = 0.06
const TOKENS_PER_SECOND = 20

/** Seconds of silence for a text, or as many as the model's name has in `words`. */
export function answerSpeech({ id, body, headers }: Inquiry): Reply {
  const { request, model } = decodeRequest(body)
  const input = textOf(request.input)
  if (input === undefined || input === '') throw missing('input')
  if (textOf(request.voice) === undefined) throw missing('voice')
  const name = textOf(request.response_format) ?? 'mp3'
  if (!isSoundName(name)) throw new ProviderError('bad_value', 'There is no such format.', 'response_format')
  const characters = [...input].length
  const seconds = steer('words', headers, model) ?? characters * SECONDS_PER_CHARACTER
  const promptTokens = countTokens(input)
  const bill = { id: `req_${id}`, model, promptTokens, units: { characters, seconds } }
  const { type, pieces } = SOUNDS[name]
  const sound = pieces(seconds)
  if (request.stream_format === 'sse') {
    const tokens = Math.ceil(seconds * TOKENS_PER_SECOND)
    const usage = { input_tokens: promptTokens, output_tokens: tokens, total_tokens: promptTokens + tokens }
    return { kind: 'stream', contentType: 'text/event-stream', frames: events(sound, usage), bill }
  }
  const length = sound.reduce((sum, piece) => sum + piece.length, 0)
  const frames = sound.map(data => ({ data, tokens: 1 }))
  return { kind: 'stream', contentType: type, length, frames, bill }
}

function* events(sound: readonly Buffer[], usage: object): Generator<StreamFrame> {
  for (const piece of sound)
    yield { data: eventOf({ type: 'speech.audio.delta', audio: piece.toString('base64') }), tokens: 1 }
  yield { data: eventOf({ type: 'speech.audio.done', usage }), tokens: 0 }
}
