import type { ChatDialect } from '../../chat/hub/dialect.ts'
import { AnswerError, presentFields } from '../../media/dialect.ts'
import { type ModerationDialect, readCommonModeration } from '../../media/moderation.ts'
import type { SpeechDialect } from '../../media/speech.ts'
import { SPEECH_TYPES } from '../../media/speech-request.ts'
import type { TranscriptionDialect } from '../../media/transcript.ts'
import { readCommonTranscript } from '../../media/transcript-answer.ts'
import { bearer } from '../auth.ts'
import { memberOf } from '../member.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

const CHAT = {
  renamed: { seed: 'random_seed', max_completion_tokens: 'max_tokens' },
  refused: [
    'audio',
    'logit_bias',
    'logprobs',
    'modalities',
    'service_tier',
    'top_logprobs',
    'user',
    'verbosity',
  ],
  // The usage is always in the last chunk.
  needless: ['store', 'stream_options'],
  required: 'any',
  ids: { maxLength: 9, pattern: /^[a-zA-Z0-9]{9}$/ },
} satisfies ChatDialect

// Unknown fields are rejected (422): `random_seed` instead of `seed`, only `max_tokens`, `any` for a required tool, no
// `stream_options`. Ids of tool calls are nine letters or digits. Speech is base64 inside JSON, moderation has no `flagged`,
// and content may be a list that contains thinking.
export const mistral = {
  type: 42,
  name: 'Mistral',
  telemetryName: 'mistral_ai',
  baseUrl: 'https://api.mistral.ai',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  encoding: { dialect: CHAT },
  completions: { native: '/v1/fim/completions' },
  embeddings: { openai: '/v1/embeddings' },
  speech: { native: '/v1/audio/speech' },
  transcription: { openai: '/v1/audio/transcriptions' },
  moderation: { native: '/v1/moderations' },
  dialects: {
    speech: {
      native: { formats: ['mp3', 'wav', 'pcm', 'flac', 'opus'], encode: encodeSpeech, decode: decodeSpeech },
    },
    transcription: { openai: { encode: encodeTranscription, decode: readCommonTranscript } },
    moderation: { native: { encode: encodeModeration, decode: decodeModeration } },
  },
  voices: {
    standIns: {
      alloy: 'en_paul_neutral',
      echo: 'en_paul_neutral',
      fable: 'gb_oliver_neutral',
      onyx: 'en_paul_confident',
      nova: 'gb_jane_neutral',
      shimmer: 'gb_jane_neutral',
    },
  },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: '32 letters and digits',
} satisfies Provider

function encodeSpeech(ask: Parameters<SpeechDialect['encode']>[0], model: string) {
  return {
    json: { model, input: ask.input, voice_id: ask.voice, response_format: ask.format ?? 'mp3' },
    warnings: Object.keys(
      presentFields({ speed: ask.speed === 1 ? undefined : ask.speed, instructions: ask.instructions }),
    ).map(name => `${name} is not supported`),
  }
}

function decodeSpeech(answer: unknown, ask: Parameters<SpeechDialect['encode']>[0]) {
  const audio = memberOf(answer, 'audio_data')
  if (typeof audio !== 'string') throw new AnswerError('the response has no audio')
  return { audio: Buffer.from(audio, 'base64'), contentType: SPEECH_TYPES[ask.format ?? 'mp3'] }
}

/** Segment timestamps and a language exclude each other; timestamps win if the response format needs them. */
function encodeTranscription(ask: Parameters<TranscriptionDialect['encode']>[0], model: string) {
  const needsTimes = ask.format !== 'json' && ask.format !== 'text'
  const fields = {
    model,
    language: needsTimes ? undefined : ask.language,
    temperature: ask.temperature,
    timestamp_granularities: needsTimes ? 'segment' : undefined,
  }
  return {
    parts: [
      ...Object.entries(presentFields(fields)).map(([name, value]) => ({ name, value: String(value) })),
      { name: 'file', file: ask.file },
    ],
    warnings: ask.prompt ? ['prompt is not supported'] : [],
  }
}

/** The vendor's names of the common categories; its other categories are kept. */
const CATEGORIES: Readonly<Record<string, string>> = {
  hate_and_discrimination: 'hate',
  violence_and_threats: 'violence',
  selfharm: 'self-harm',
}

const renamed = <Value>(values: Readonly<Record<string, Value>>): Record<string, Value> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [CATEGORIES[name] ?? name, value]))

function encodeModeration({ inputs, body }: Parameters<ModerationDialect['encode']>[0], model: string) {
  return { json: { model, input: inputs ?? body.input } }
}

function decodeModeration(answer: unknown) {
  const read = readCommonModeration(answer)
  return {
    ...read,
    results: read.results.map(result => ({
      ...result,
      categories: renamed(result.categories),
      scores: renamed(result.scores),
    })),
  }
}
