import { AnswerError, presentFields } from '../../media/dialect.ts'
import { geminiEmbedding } from '../../media/gemini-embedding.ts'
import { type ImageAsk, type ImageDialect, ratioOf } from '../../media/image.ts'
import { type SpeechDialect, wavOf } from '../../media/speech.ts'
import { readStill } from '../../media/still.ts'
import { type Embedded, embed } from '../../wire/embedded.ts'
import { keyHeader } from '../auth.ts'
import { googleTranscripts, MAX_INLINE_BYTES } from '../google-transcripts.ts'
import { memberOf } from '../member.ts'
import { geminiModels } from '../model-lists.ts'
import { googleUsage, pictureType } from '../pictures.ts'
import type { Provider } from '../provider.ts'
import { geminiVideos } from '../videos/veo.ts'

const generate = '/v1beta/models/{model}:generateContent'

// Speech is raw PCM (`audio/L16`, 24 kHz). Video jobs are polled at /v1beta/{name}. The URL of a video needs the key and
// redirects, and the headers of the redirect repeat the key: the gateway forwards the bytes and never those headers.
export const gemini = {
  type: 24,
  name: 'Gemini',
  telemetryName: 'gcp.gemini',
  baseUrl: 'https://generativelanguage.googleapis.com',
  auth: keyHeader('x-goog-api-key'),
  chat: { gemini: { whole: generate, streamed: '/v1beta/models/{model}:streamGenerateContent?alt=sse' } },
  embeddings: { gemini: '/v1beta/models/{model}:{method}' },
  speech: { gemini: generate },
  transcription: { gemini: generate },
  translation: { gemini: generate },
  images: { gemini: generate, native: '/v1beta/models/{model}:predict' },
  videos: { native: '/v1beta/models/{model}:predictLongRunning' },
  dialects: {
    embeddings: { gemini: geminiEmbedding },
    speech: { gemini: { formats: ['wav', 'pcm'], encode: encodeSpeech, decode: decodeSpeech } },
    transcription: { gemini: googleTranscripts },
    translation: { gemini: googleTranscripts },
    images: {
      gemini: { tasks: ['edits'], unfit: unfitEdit, encode: encodePictures, decode: decodePictures },
      native: { encode: encodeImagen, decode: decodeImagen },
    },
    videos: { native: geminiVideos },
  },
  voices: {
    standIns: {
      alloy: 'Kore',
      echo: 'Puck',
      fable: 'Charon',
      onyx: 'Orus',
      nova: 'Aoede',
      shimmer: 'Leda',
    },
  },
  models: { path: '/v1beta/models?pageSize=1000', names: geminiModels },
  // Image and video models use `predict` instead of `generateContent`.
  formatsOfModel: model => (/^(imagen|veo)-/.test(model) ? ['native'] : ['gemini']),
  isKeyError: (status, body) => status === 400 && reasonsOf(body).includes('API_KEY_INVALID'),
  keyHint: 'AIza…',
} satisfies Provider

function reasonsOf(body: unknown): unknown[] {
  const details = memberOf(memberOf(body, 'error'), 'details')
  return Array.isArray(details) ? details.map(detail => memberOf(detail, 'reason')) : []
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** The inline data of a response. */
const inlineIn = (answer: unknown): readonly { type: string; data: string }[] =>
  listOf(memberOf(answer, 'candidates'))
    .flatMap(candidate => listOf(memberOf(memberOf(candidate, 'content'), 'parts')))
    .map(part => memberOf(part, 'inlineData') ?? memberOf(part, 'inline_data'))
    .flatMap(inline => {
      const data = memberOf(inline, 'data')
      const type = memberOf(inline, 'mimeType') ?? memberOf(inline, 'mime_type')
      return typeof data === 'string' ? [{ type: String(type ?? ''), data }] : []
    })

function encodeSpeech(ask: Parameters<SpeechDialect['encode']>[0]) {
  const text = ask.instructions ? `${ask.instructions}:\n${ask.input}` : ask.input
  return {
    json: {
      contents: [{ role: 'user', parts: [{ text }] }],
      generationConfig: {
        responseModalities: ['AUDIO'],
        speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: ask.voice } } },
      },
    },
    warnings: ask.speed === 1 ? [] : ['speed is not supported'],
  }
}

const DEFAULT_RATE = 24_000

function decodeSpeech(answer: unknown, ask: Parameters<SpeechDialect['encode']>[0]) {
  const sounds = inlineIn(answer)
  const [first] = sounds
  if (!first) throw new AnswerError('the response has no audio')
  const samples = Buffer.concat(sounds.map(({ data }) => Buffer.from(data, 'base64')))
  const rate = Number(/rate=(\d+)/.exec(first.type)?.[1] ?? DEFAULT_RATE)
  const isRaw = ask.format === 'pcm'
  return {
    audio: isRaw ? samples : wavOf(samples, rate),
    contentType: isRaw ? 'audio/pcm' : 'audio/wav',
    usage: googleUsage([answer]),
  }
}

type Inline = { readonly mimeType: string; readonly data: Embedded | string }

/** The images to edit; undefined for one that is not inline. */
function picturesOf({ task, images, body }: ImageAsk): readonly (Inline | undefined)[] {
  if (task !== 'edits') return []
  if (images.length > 0) return images.map(file => ({ mimeType: pictureType(file), data: embed(file) }))
  return [body.image ?? body.images ?? []].flat().map(value => {
    const still = readStill(value)
    return still?.kind === 'data' ? { mimeType: still.type, data: still.base64 } : undefined
  })
}

function unfitEdit(ask: ImageAsk) {
  if (picturesOf(ask).includes(undefined))
    return {
      path: 'image',
      message: 'must be a base64 image: this provider accepts no URLs',
    }
  const bytes = ask.images.reduce((sum, { size }) => sum + size, 0)
  return bytes > MAX_INLINE_BYTES
    ? { path: 'image', message: `must have at most ${MAX_INLINE_BYTES} bytes in total for this model` }
    : undefined
}

/** One image per request, so several images are several requests. */
function encodePictures(ask: ImageAsk) {
  const aspectRatio = ratioOf(ask.size)
  const hasMask = (ask.mask ?? ask.body.mask ?? null) !== null
  const question = {
    contents: [
      { role: 'user', parts: [{ text: ask.prompt }, ...picturesOf(ask).map(inlineData => ({ inlineData }))] },
    ],
    generationConfig: {
      responseModalities: ['TEXT', 'IMAGE'],
      ...(aspectRatio && { imageConfig: { aspectRatio } }),
    },
  }
  return {
    several: Array.from({ length: ask.n }, () => question),
    warnings: [
      ...(ask.quality ? ['quality is not supported'] : []),
      ...(hasMask ? ['mask is not supported'] : []),
    ],
    ...(hasMask && { lostContent: { path: 'mask', reason: 'a mask cannot be sent' } }),
  }
}

const picturesIn = (answer: unknown) =>
  inlineIn(answer)
    .filter(({ type }) => type.startsWith('image/'))
    .map(({ data }) => ({ b64_json: data }))

function decodePictures(answer: unknown) {
  const answers = listOf(answer)
  // An answer without an image, such as a refused prompt, costs only what it reports.
  const isBilled = (each: unknown) =>
    memberOf(each, 'usageMetadata') !== undefined || picturesIn(each).length > 0
  return { pictures: answers.flatMap(picturesIn), usage: googleUsage(answers.filter(isBilled)) }
}

function encodeImagen(ask: Parameters<ImageDialect['encode']>[0]) {
  return {
    json: {
      instances: [{ prompt: ask.prompt }],
      parameters: presentFields({ sampleCount: ask.n, aspectRatio: ratioOf(ask.size) }),
    },
    warnings: ask.quality ? ['quality is not supported'] : [],
  }
}

function decodeImagen(answer: unknown) {
  const pictures = listOf(memberOf(answer, 'predictions')).flatMap(each => {
    const data = memberOf(each, 'bytesBase64Encoded')
    return typeof data === 'string' ? [{ b64_json: data }] : []
  })
  return { pictures }
}
