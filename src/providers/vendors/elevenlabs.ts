import { presentFields } from '../../media/dialect.ts'
import type { SpeechDialect } from '../../media/speech.ts'
import type { TranscriptionDialect } from '../../media/transcript.ts'
import { readCommonTranscript, wordsOf } from '../../media/transcript-answer.ts'
import { keyHeader } from '../auth.ts'
import { memberOf } from '../member.ts'
import { namesAt } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// The audio format is the query parameter `output_format`, such as mp3_44100_128. Entries of type `spacing` in a transcript
// are no words.
export const elevenlabs = {
  type: 1013,
  name: 'ElevenLabs',
  baseUrl: 'https://api.elevenlabs.io',
  auth: keyHeader('xi-api-key'),
  speech: { native: '/v1/text-to-speech/{voice}/stream' },
  transcription: { native: '/v1/speech-to-text' },
  dialects: {
    speech: { native: { formats: ['mp3', 'pcm', 'opus'], encode: encodeSpeech } },
    transcription: { native: { encode: encodeTranscription, decode: decodeTranscription } },
  },
  // A voice is an id of an account; every account has these.
  voices: {
    standIns: {
      alloy: '21m00Tcm4TlvDq8ikWAM',
      echo: 'TxGEqnHWrfWFTfGW9XjX',
      fable: 'ErXwobaYiN019PkySvjV',
      onyx: 'pNInz6obpgDQGcFmaJgB',
      nova: 'EXAVITQu4vr4xnSDxMaL',
      shimmer: 'MF3mGyEYCl7XYWbV9V6O',
    },
  },
  models: { path: '/v1/models', names: namesAt(undefined, 'model_id') },
  keyHint: 'sk_…',
} satisfies Provider

const OUTPUTS: Readonly<Record<string, string>> = {
  mp3: 'mp3_44100_128',
  pcm: 'pcm_24000',
  opus: 'opus_48000_64',
}
const [SLOWEST, FASTEST] = [0.7, 1.2]

function encodeSpeech(ask: Parameters<SpeechDialect['encode']>[0], model: string) {
  const speed = Math.min(FASTEST, Math.max(SLOWEST, ask.speed))
  return {
    json: presentFields({
      text: ask.input,
      model_id: model,
      voice_settings: speed === 1 ? undefined : { speed },
      language_code: ask.body.language_code,
      seed: ask.body.seed,
    }),
    query: { output_format: OUTPUTS[ask.format ?? 'mp3'] ?? 'mp3_44100_128' },
    warnings: [
      ...(speed === ask.speed ? [] : [`speed is ${speed}`]),
      ...(ask.instructions ? ['instructions are not supported'] : []),
    ],
  }
}

function encodeTranscription(ask: Parameters<TranscriptionDialect['encode']>[0], model: string) {
  return {
    parts: [
      { name: 'model_id', value: model },
      ...(ask.language ? [{ name: 'language_code', value: ask.language }] : []),
      ...(ask.temperature === undefined ? [] : [{ name: 'temperature', value: String(ask.temperature) }]),
      { name: 'tag_audio_events', value: 'false' },
      { name: 'file', file: ask.file },
    ],
    warnings: ask.prompt ? ['prompt is not supported'] : [],
  }
}

function decodeTranscription(answer: unknown) {
  const { text } = readCommonTranscript(answer)
  const words = memberOf(answer, 'words')
  const spokenWords = Array.isArray(words) ? words.filter(word => memberOf(word, 'type') === 'word') : []
  const language = memberOf(answer, 'language_code')
  return {
    text,
    words: wordsOf(spokenWords, 'text'),
    ...(typeof language === 'string' && { language }),
  }
}
