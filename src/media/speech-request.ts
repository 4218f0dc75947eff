import type { JsonObject } from '../domain/json-value.ts'
import { isObject, member } from '../domain/json-value.ts'
import { codePoints } from '../domain/text.ts'
import { type RequestReading, readRequest } from '../requests/request-fields.ts'

/** Content types of the formats that a client may request (docs/reference/relay-api.md: Speech). */
export const SPEECH_TYPES = {
  mp3: 'audio/mpeg',
  opus: 'audio/ogg',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
} as const
export type SpeechFormat = keyof typeof SPEECH_TYPES

/** The voices that every provider accepts or maps (docs/reference/relay-api.md: Speech). */
export const VOICES = ['alloy', 'echo', 'fable', 'onyx', 'nova', 'shimmer'] as const

const MAX_SPEECH_CHARACTERS = 4096
const SPEED = [0.25, 4] as const
const MAX_VOICE = 200

/** A speech request (docs/reference/relay-api.md: Speech). */
export type SpeechAsk = {
  readonly model: string
  readonly input: string
  /** Counted in code points. */
  readonly characters: number
  readonly voice: string
  /** Undefined: the vendor's default, which is mp3 if the vendor supports it. */
  readonly format: SpeechFormat | undefined
  readonly speed: number
  readonly instructions: string | undefined
  /** The client requests events with pieces of audio instead of a file. */
  readonly isEvents: boolean
  readonly body: JsonObject
}

const FORMATS = Object.keys(SPEECH_TYPES) as SpeechFormat[]

export function readSpeechRequest(parsed: unknown): RequestReading<SpeechAsk> {
  return readRequest(parsed, (fields, body) => {
    const model = fields.model()
    const input = fields.required('input')
    const characters = typeof input === 'string' ? codePoints(input) : 0
    if (input !== undefined && typeof input !== 'string') fields.refuse('input', 'must be a string')
    else if (characters > MAX_SPEECH_CHARACTERS)
      fields.refuse('input', `must have at most ${MAX_SPEECH_CHARACTERS} characters`)
    const voiceField = fields.required('voice')
    const voice = voiceIn(voiceField)
    if (isObject(voiceField) && voice === '')
      fields.refuse('voice', 'must be a string, or an object with an id')
    if (voice === undefined) fields.refuse('voice', `must be a string of at most ${MAX_VOICE} characters`)
    const format = fields.choice('response_format', FORMATS)
    const speed = fields.number('speed', ...SPEED) ?? 1
    const instructions = fields.text('instructions')
    const isEvents = fields.choice('stream_format', ['audio', 'sse']) === 'sse'
    if (typeof input !== 'string' || voice === undefined) return undefined
    return { model, input, characters, voice, format, speed, instructions, isEvents, body }
  })
}

/** A name, or the id of a voice that an account has created. */
function voiceIn(value: unknown): string | undefined {
  const voice = isObject(value) ? member(value, 'id') : value
  // A missing voice has already been refused.
  if (voice === undefined || voice === '') return ''
  return typeof voice === 'string' && codePoints(voice) <= MAX_VOICE ? voice : undefined
}
