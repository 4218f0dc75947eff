import { presentFields } from '../../media/dialect.ts'
import { type ImageAsk, ratioOf } from '../../media/image.ts'
import type { SpeechDialect } from '../../media/speech.ts'
import { readStill } from '../../media/still.ts'
import type { TranscriptionDialect } from '../../media/transcript.ts'
import { readCommonTranscript, wordsOf } from '../../media/transcript-answer.ts'
import { embed } from '../../wire/embedded.ts'
import type { StoredFile } from '../../wire/multipart.ts'
import { bearer } from '../auth.ts'
import { memberOf } from '../member.ts'
import { openaiModels } from '../model-lists.ts'
import { pictureType, readPictures } from '../pictures.ts'
import type { Provider } from '../provider.ts'
import { xaiVideos } from '../videos/xai.ts'

// Reasoning tokens are not part of `completion_tokens`; a tool call is complete in one chunk; errors are plain strings. Video
// jobs are polled at /v1/videos/{request_id}, which returns 202 until they end.
export const xai = {
  type: 48,
  name: 'xAI',
  telemetryName: 'x_ai',
  baseUrl: 'https://api.x.ai',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', responses: '/v1/responses' },
  speech: { native: '/v1/tts' },
  transcription: { native: '/v1/stt' },
  images: { openai: '/v1/images/generations' },
  videos: { native: '/v1/videos/generations' },
  dialects: {
    speech: { native: { formats: ['mp3', 'wav', 'pcm'], encode: encodeSpeech } },
    transcription: { native: { encode: encodeTranscription, decode: decodeTranscription } },
    images: { openai: { tasks: ['edits'], unfit: unfitEdit, encode: encodeImages, decode: readPictures } },
    videos: { native: xaiVideos },
  },
  voices: {
    names: ['ara', 'eve', 'leo', 'rex', 'sal'],
    standIns: { alloy: 'eve', echo: 'rex', fable: 'sal', onyx: 'leo', nova: 'ara', shimmer: 'eve' },
  },
  models: { path: '/v1/models', names: openaiModels },
  // A wrong key is a 400 with the code of any invalid argument: only the message differs.
  isKeyError: (status, body) => status === 400 && String(memberOf(body, 'error')).includes('API key'),
  usage: { reasoningOutside: true },
  keyHint: 'xai-…',
} satisfies Provider

const RATE = 24_000

function encodeSpeech(ask: Parameters<SpeechDialect['encode']>[0]) {
  const { language } = ask.body
  return {
    json: {
      text: ask.input,
      voice_id: ask.voice,
      language: typeof language === 'string' ? language : 'auto',
      output_format: { codec: ask.format ?? 'mp3', sample_rate: RATE },
    },
    warnings: Object.keys(
      presentFields({ speed: ask.speed === 1 ? undefined : ask.speed, instructions: ask.instructions }),
    ).map(name => `${name} is not supported`),
  }
}

function encodeTranscription(ask: Parameters<TranscriptionDialect['encode']>[0]) {
  return {
    parts: [
      ...(ask.language ? [{ name: 'language', value: ask.language }] : []),
      { name: 'file', file: ask.file },
    ],
    warnings: Object.keys(presentFields({ prompt: ask.prompt, temperature: ask.temperature })).map(
      name => `${name} is not supported`,
    ),
  }
}

function decodeTranscription(answer: unknown) {
  return { ...readCommonTranscript(answer), words: wordsOf(memberOf(answer, 'words'), 'text') }
}

/** Aspect ratios instead of sizes, and one quality. */
function encodeImages(ask: ImageAsk, model: string) {
  const { size, quality, ...body } = ask.body
  return {
    json: presentFields({
      aspect_ratio: ratioOf(ask.size),
      ...body,
      ...(ask.task === 'edits' && sourcesOf(ask)),
      model,
    }),
    warnings: quality === undefined ? [] : ['quality is not supported'],
  }
}

const MAX_SOURCES = 3

const fileAddress = (file: StoredFile) => ({ url: embed(file, `data:${pictureType(file)};base64,`) })

/** A URL or a data URL; undefined if it is neither. */
function addressIn(value: unknown) {
  const still = readStill(value)
  if (still?.kind === 'url') return { url: still.url }
  return still?.kind === 'data' ? { url: `data:${still.type};base64,${still.base64}` } : undefined
}

const addressesOf = ({ images, body }: ImageAsk) =>
  images.length > 0 ? images.map(fileAddress) : [body.image ?? body.images ?? []].flat().map(addressIn)

/** One image is in `image`, several are in `images`, never both. */
function sourcesOf(ask: ImageAsk) {
  const addresses = addressesOf(ask)
  const isOne = addresses.length === 1
  return {
    image: isOne ? addresses[0] : undefined,
    images: isOne ? undefined : addresses,
    mask: ask.mask ? fileAddress(ask.mask) : addressIn(ask.body.mask),
  }
}

function unfitEdit(ask: ImageAsk) {
  if (ask.task !== 'edits') return undefined
  const addresses = addressesOf(ask)
  if (addresses.some(address => address === undefined))
    return { path: 'image', message: 'must be a URL (http or https) or a base64 image' }
  return addresses.length > MAX_SOURCES
    ? { path: 'image', message: `must be at most ${MAX_SOURCES} images for this model` }
    : undefined
}
