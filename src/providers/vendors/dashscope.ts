import { AnswerError, presentFields } from '../../media/dialect.ts'
import { addressesOnly, type ImageDialect, pixelsOf } from '../../media/image.ts'
import { type RerankDialect, readRanked } from '../../media/rerank.ts'
import { type SpeechDialect, wavOf } from '../../media/speech.ts'
import { SPEECH_TYPES } from '../../media/speech-request.ts'
import { readMediaUsage } from '../../metering/media-usage.ts'
import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { memberOf } from '../member.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'
import { dashscopeVideos } from '../videos/dashscope.ts'

const SYNTHESIZERS = /^(?:cosyvoice-|qwen-audio-[\d.]+-tts-(?:flash|plus))/

// Anthropic's cache marks work in every format. Later tool deltas repeat `id: ""`; some models support `enable_thinking` only
// in streams; usage in streams must be requested. Jobs (images, videos) need the header `X-DashScope-Async: enable` and are
// polled at /api/v1/tasks/{id}.
export const dashscope = {
  type: 17,
  name: 'Ali (DashScope)',
  baseUrl: 'https://dashscope.aliyuncs.com',
  auth: bearer,
  chat: {
    'openai-chat': '/compatible-mode/v1/chat/completions',
    responses: '/compatible-mode/v1/responses',
    anthropic: '/apps/anthropic/v1/messages',
  },
  encoding: { keepCacheMarks: true },
  limitsAnswerOnly: true,
  completions: { openai: '/compatible-mode/v1/completions' },
  embeddings: { openai: '/compatible-mode/v1/embeddings' },
  speech: {
    native: '/api/v1/services/aigc/multimodal-generation/generation',
    cosyvoice: '/api/v1/services/audio/tts/SpeechSynthesizer',
  },
  rerank: { cohere: '/compatible-api/v1/reranks', native: '/api/v1/services/rerank/text-rerank/text-rerank' },
  images: { native: '/api/v1/services/aigc/multimodal-generation/generation' },
  videos: { native: '/api/v1/services/aigc/video-generation/video-synthesis' },
  dialects: {
    speech: {
      native: { formats: ['wav', 'pcm'], isEvents: true, encode: encodeSpeech, decode: decodeSpeech },
      cosyvoice: {
        formats: ['mp3', 'wav', 'pcm', 'opus'],
        isEvents: true,
        encode: encodeSynthesis,
        decode: decodeSynthesis,
        // Each model has voices of its own, so there are no defaults: the channel maps them.
        voices: {},
      },
    },
    rerank: { native: { encode: encodeRerank, decode: decodeRerank } },
    images: { native: { encode: encodeImages, decode: decodeImages } },
    videos: { native: dashscopeVideos },
  },
  voices: {
    standIns: {
      alloy: 'Cherry',
      echo: 'Ethan',
      fable: 'Chelsie',
      onyx: 'Ethan',
      nova: 'Serena',
      shimmer: 'Chelsie',
    },
  },
  // Older rerankers are available at the older path only, and speech-only models at another one.
  formatsOfModel: model =>
    SYNTHESIZERS.test(model)
      ? ['cosyvoice']
      : /^(gte-rerank|qwen3-vl-rerank)/.test(model)
        ? ['native']
        : ['openai-chat', 'responses', 'anthropic', 'openai', 'cohere', 'native'],
  models: { path: '/compatible-mode/v1/models', names: openaiModels },
  fields: [baseUrlField('Leave blank for Beijing; Singapore is https://dashscope-intl.aliyuncs.com')],
  // An account in arrears answers 400.
  isKeyError: (status, body) => status === 400 && codeOf(body) === 'Arrearage',
  keyHint: 'sk-…',
} satisfies Provider

const codeOf = (body: unknown) => memberOf(body, 'code') ?? memberOf(memberOf(body, 'error'), 'code')

function encodeRerank(ask: Parameters<RerankDialect['encode']>[0], model: string) {
  return {
    json: {
      model,
      input: { query: ask.query, documents: ask.texts },
      parameters: presentFields({ top_n: ask.topN, return_documents: false }),
    },
  }
}

function decodeRerank(answer: unknown) {
  const tokens = memberOf(memberOf(answer, 'usage'), 'total_tokens')
  const id = memberOf(answer, 'request_id')
  return {
    ranked: readRanked(memberOf(memberOf(answer, 'output'), 'results')),
    ...(typeof id === 'string' && { id }),
    ...(Number.isSafeInteger(tokens) && { tokens: tokens as number }),
  }
}

const RATE = 24_000

/** A whole response has a URL of the audio; events contain the audio itself. */
function encodeSpeech(ask: Parameters<SpeechDialect['encode']>[0], model: string) {
  const { language_type } = ask.body
  return {
    json: { model, input: presentFields({ text: ask.input, voice: ask.voice, language_type }) },
    headers: { 'x-dashscope-sse': 'enable' },
    warnings: Object.keys(
      presentFields({ speed: ask.speed === 1 ? undefined : ask.speed, instructions: ask.instructions }),
    ).map(name => `${name} is not supported`),
  }
}

/** The audio chunks of the events. */
function soundIn(events: readonly unknown[]): Buffer {
  const failed = events.find(event => memberOf(event, 'output') === undefined)
  if (failed) throw new AnswerError(`the provider ended the stream with an error: ${String(codeOf(failed))}`)
  const pieces = events.map(event => memberOf(memberOf(memberOf(event, 'output'), 'audio'), 'data'))
  const sound = Buffer.concat(
    pieces.filter(piece => typeof piece === 'string').map(piece => Buffer.from(piece, 'base64')),
  )
  if (sound.length === 0) throw new AnswerError('the response has no audio')
  return sound
}

/** Raw 16-bit mono samples, a chunk in each event; the last event has the usage. */
function decodeSpeech(answer: unknown, ask: Parameters<SpeechDialect['encode']>[0]) {
  const events = listOf(answer)
  const samples = soundIn(events)
  const isRaw = ask.format === 'pcm'
  return {
    audio: isRaw ? samples : wavOf(samples, RATE),
    contentType: isRaw ? 'audio/pcm' : 'audio/wav',
    usage: readMediaUsage(memberOf(events.at(-1), 'usage')),
  }
}

const [SLOWEST, FASTEST] = [0.5, 2]

/** A streamed WAV file cannot know its length, so the gateway writes the header. */
function encodeSynthesis(ask: Parameters<SpeechDialect['encode']>[0], model: string) {
  const rate = Math.min(FASTEST, Math.max(SLOWEST, ask.speed))
  const { volume, pitch, seed, language_hints } = ask.body
  return {
    json: {
      model,
      input: presentFields({
        text: ask.input,
        voice: ask.voice,
        format: ask.format === 'wav' ? 'pcm' : (ask.format ?? 'mp3'),
        sample_rate: RATE,
        rate: rate === 1 ? undefined : rate,
        instruction: ask.instructions,
        volume,
        pitch,
        seed,
        language_hints,
      }),
    },
    headers: { 'x-dashscope-sse': 'enable' },
    warnings: rate === ask.speed ? [] : [`speed is ${rate}`],
  }
}

/** Characters are charged as requested, although the vendor counts characters of some scripts twice. */
function decodeSynthesis(answer: unknown, { format = 'mp3' }: Parameters<SpeechDialect['encode']>[0]) {
  const events = listOf(answer)
  const isWhole = memberOf(memberOf(events.at(-1), 'output'), 'finish_reason') === 'stop'
  if (!isWhole) throw new AnswerError('the provider ended the stream too early')
  const sound = soundIn(events)
  return { audio: format === 'wav' ? wavOf(sound, RATE) : sound, contentType: SPEECH_TYPES[format] }
}

/** One image per request: not every model returns more. */
function encodeImages(ask: Parameters<ImageDialect['encode']>[0], model: string) {
  const pixels = pixelsOf(ask.size)
  const { negative_prompt, prompt_extend, watermark, seed } = ask.body
  const question = {
    model,
    input: { messages: [{ role: 'user', content: [{ text: ask.prompt }] }] },
    parameters: presentFields({
      size: pixels && `${pixels.width}*${pixels.height}`,
      n: 1,
      negative_prompt,
      prompt_extend,
      watermark: watermark ?? false,
      seed,
    }),
  }
  return {
    several: Array.from({ length: ask.n }, () => question),
    warnings: addressesOnly(ask),
  }
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function decodeImages(answer: unknown) {
  const contents = listOf(answer)
    .flatMap(each => listOf(memberOf(memberOf(each, 'output'), 'choices')))
    .flatMap(choice => listOf(memberOf(memberOf(choice, 'message'), 'content')))
  const urls = contents.map(content => memberOf(content, 'image')).filter(url => typeof url === 'string')
  return { pictures: urls.map(url => ({ url })) }
}
