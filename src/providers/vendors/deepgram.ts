import { EMPTY, wholeSeconds } from '../../domain/usage.ts'
import { AnswerError, presentFields } from '../../media/dialect.ts'
import type { SpeechDialect } from '../../media/speech.ts'
import type { Transcript, TranscriptionDialect } from '../../media/transcript.ts'
import { wordsOf } from '../../media/transcript-answer.ts'
import { authorization } from '../auth.ts'
import { memberOf } from '../member.ts'
import { allOf, namesAt } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// The voice is part of the model's name; the audio to transcribe is the body itself, or `{url}`.
export const deepgram = {
  type: 1014,
  name: 'Deepgram',
  baseUrl: 'https://api.deepgram.com',
  auth: authorization('Token'),
  speech: { native: '/v1/speak?model={model}' },
  transcription: { native: '/v1/listen?model={model}' },
  dialects: {
    speech: { native: { formats: ['mp3', 'wav', 'pcm', 'opus', 'aac', 'flac'], encode: encodeSpeech } },
    transcription: { native: { encode: encodeTranscription, decode: decodeTranscription } },
  },
  models: {
    path: '/v1/models',
    names: allOf(namesAt('stt', 'canonical_name'), namesAt('tts', 'canonical_name')),
  },
  keyHint: '40 hexadecimal digits',
} satisfies Provider

const ENCODINGS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  wav: { encoding: 'linear16', container: 'wav', sample_rate: '24000' },
  pcm: { encoding: 'linear16', container: 'none', sample_rate: '24000' },
}

function encodeSpeech(
  { input, voice, format = 'mp3', speed, body }: Parameters<SpeechDialect['encode']>[0],
  model: string,
) {
  const isModel = voice.startsWith('aura')
  // The client is billed for its model, so it must not name another one as its voice. A channel may map a voice to a model.
  const isMapped = isModel && voice !== (memberOf(body.voice, 'id') ?? body.voice)
  return {
    json: { text: input },
    query: {
      ...(ENCODINGS[format] ?? { encoding: format }),
      ...(isMapped && { model: voice }),
    },
    warnings: [
      ...(speed === 1 ? [] : ['speed is not supported']),
      ...(isModel && !isMapped && voice !== model ? [`voice is ${model}, because a voice is a model`] : []),
    ],
  }
}

function encodeTranscription(ask: Parameters<TranscriptionDialect['encode']>[0]) {
  return {
    file: ask.file,
    query: {
      smart_format: 'true',
      ...(ask.language ? { language: ask.language } : { detect_language: 'true' }),
    },
    warnings: Object.keys(presentFields({ prompt: ask.prompt, temperature: ask.temperature })).map(
      name => `${name} is not supported`,
    ),
  }
}

const first = (list: unknown): unknown => (Array.isArray(list) ? list[0] : undefined)

function decodeTranscription(answer: unknown): Transcript {
  const channel = first(memberOf(memberOf(answer, 'results'), 'channels'))
  const best = first(memberOf(channel, 'alternatives'))
  const text = memberOf(best, 'transcript')
  if (typeof text !== 'string') throw new AnswerError('the response has no transcript')
  const words = memberOf(best, 'words')
  const transcriptWords = (Array.isArray(words) ? words : []).map(word => ({
    text: memberOf(word, 'punctuated_word') ?? memberOf(word, 'word'),
    start: memberOf(word, 'start'),
    end: memberOf(word, 'end'),
  }))
  const duration = memberOf(memberOf(answer, 'metadata'), 'duration')
  const language = memberOf(channel, 'detected_language')
  return {
    text,
    words: wordsOf(transcriptWords, 'text'),
    ...(typeof language === 'string' && { language }),
    ...(typeof duration === 'number' && {
      duration,
      usage: { ...EMPTY, seconds: wholeSeconds(duration), calls: 1 },
    }),
  }
}
