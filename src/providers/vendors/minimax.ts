import { AnswerError, presentFields } from '../../media/dialect.ts'
import { type ImageDialect, ratioOf } from '../../media/image.ts'
import type { SpeechDialect } from '../../media/speech.ts'
import { SPEECH_TYPES } from '../../media/speech-request.ts'
import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { memberOf } from '../member.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'
import { minimaxVideos } from '../videos/minimax.ts'

// Speech is hexadecimal text inside JSON. Video jobs are polled at /v1/query/video_generation?task_id=, and a third call,
// /v1/files/retrieve?file_id=, returns the URL of the file.
export const minimax = {
  type: 35,
  name: 'MiniMax',
  baseUrl: 'https://api.minimax.chat',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', anthropic: '/anthropic/v1/messages' },
  speech: { native: '/v1/t2a_v2' },
  images: { native: '/v1/image_generation' },
  videos: { native: '/v1/video_generation' },
  dialects: {
    speech: {
      native: { formats: ['mp3', 'wav', 'pcm', 'flac'], encode: encodeSpeech, decode: decodeSpeech },
    },
    images: { native: { encode: encodeImages, decode: decodeImages } },
    videos: { native: minimaxVideos },
  },
  voices: {
    standIns: {
      alloy: 'English_Graceful_Lady',
      echo: 'English_Trustworthy_Man',
      fable: 'English_expressive_narrator',
      onyx: 'English_Persuasive_Man',
      nova: 'English_radiant_girl',
      shimmer: 'English_Insightful_Speaker',
    },
  },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('Leave blank for China; elsewhere https://api.minimax.io')],
  // Errors have status 200 and a code: no permission, no balance, a wrong key.
  isKeyError: (_, body) =>
    [1004, 1008, 2049].some(code => memberOf(memberOf(body, 'base_resp'), 'status_code') === code),
  keyHint: 'eyJ… or sk-…',
} satisfies Provider

const [SLOWEST, FASTEST] = [0.5, 2]
const RATE = 24_000

/** Errors have status 200 and a code in the body. */
function mustSucceed(answer: unknown): void {
  const code = memberOf(memberOf(answer, 'base_resp'), 'status_code')
  if (code !== undefined && code !== 0) throw new AnswerError(`The provider returned code ${code}.`)
}

function encodeSpeech(ask: Parameters<SpeechDialect['encode']>[0], model: string) {
  const speed = Math.min(FASTEST, Math.max(SLOWEST, ask.speed))
  return {
    json: {
      model,
      text: ask.input,
      stream: false,
      output_format: 'hex',
      voice_setting: { voice_id: ask.voice, speed },
      audio_setting: { format: ask.format ?? 'mp3', sample_rate: RATE },
    },
    warnings: [
      ...(speed === ask.speed ? [] : [`speed is ${speed}`]),
      ...(ask.instructions ? ['instructions are not supported'] : []),
    ],
  }
}

function decodeSpeech(answer: unknown, ask: Parameters<SpeechDialect['encode']>[0]) {
  mustSucceed(answer)
  const audio = memberOf(memberOf(answer, 'data'), 'audio')
  if (typeof audio !== 'string' || audio === '') throw new AnswerError('the response has no audio')
  return { audio: Buffer.from(audio, 'hex'), contentType: SPEECH_TYPES[ask.format ?? 'mp3'] }
}

function encodeImages(ask: Parameters<ImageDialect['encode']>[0], model: string) {
  return {
    json: presentFields({
      model,
      prompt: ask.prompt,
      n: ask.n,
      aspect_ratio: ratioOf(ask.size),
      response_format: ask.format === 'b64_json' ? 'base64' : 'url',
      seed: ask.body.seed,
    }),
    warnings: ask.quality ? ['quality is not supported'] : [],
  }
}

function decodeImages(answer: unknown) {
  mustSucceed(answer)
  const data = memberOf(answer, 'data')
  const texts = (name: string) => {
    const list = memberOf(data, name)
    return Array.isArray(list) ? list.filter(each => typeof each === 'string') : []
  }
  return {
    pictures: [
      ...texts('image_urls').map(url => ({ url })),
      ...texts('image_base64').map(b64_json => ({ b64_json })),
    ],
  }
}
