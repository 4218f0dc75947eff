import { isObject, textOf } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { SOUNDS } from '../sound.ts'
import { countTokens } from '../tokens.ts'
import type { Inquiry, Reply } from './format.ts'
import { inOneSpelling } from './gemini-names.ts'
import { PICTURE } from './openai-images.ts'
import { lengthOf, timedWords, transcriptOf } from './openai-transcription.ts'
import { inHeader, vendor } from './vendor.ts'

const SECONDS = 2
const AUDIO_TOKENS = 50
const IMAGE_TOKENS = 1290

const partsIn = (request: unknown): readonly unknown[] => {
  const contents = isObject(request) && Array.isArray(request.contents) ? request.contents : []
  return contents.flatMap(content => (isObject(content) && Array.isArray(content.parts) ? content.parts : []))
}

/** The audio in the request. */
function recordingIn(request: unknown): { readonly type: string; readonly bytes: Buffer } | undefined {
  for (const part of partsIn(request)) {
    const inline = isObject(part) && isObject(part.inlineData) ? part.inlineData : {}
    const type = textOf(inline.mimeType) ?? ''
    if (type.startsWith('audio/')) return { type, bytes: Buffer.from(textOf(inline.data) ?? '', 'base64') }
  }
  return undefined
}

const AUDIO_TOKENS_PER_SECOND = 32

/** The transcript; pure transcription models add word timestamps on request. */
function listen({ id, params: [model = ''] }: Inquiry, request: unknown): Reply | undefined {
  const recording = recordingIn(request)
  if (!recording) return undefined
  const isScribe = model.includes('transcribe')
  const hasWords = partsIn(request).some(part => isObject(part) && part.text !== undefined)
  if (isScribe === hasWords) throw new ProviderError('bad_value', 'an instruction is required', 'contents')
  const text = transcriptOf(recording.type, recording.bytes)
  const config = JSON.stringify(isObject(request) ? (request.generationConfig ?? {}) : {})
  const words = timedWords(text).map(({ word, start, end }) => ({
    word,
    startOffset: `${start}s`,
    endOffset: `${end}s`,
  }))
  const isTimed = config.includes('"wordTimestamp":true')
  const part = isScribe ? { audioTranscription: { text, ...(isTimed && { words }) } } : { text }
  const audioTokens = Math.ceil(lengthOf(recording.bytes)) * AUDIO_TOKENS_PER_SECOND
  const promptTokens = audioTokens + (isScribe ? 0 : 40)
  const tokenCount = countTokens(text)
  const answer = {
    candidates: [{ content: { parts: [part], role: 'model' }, finishReason: 'STOP' }],
    usageMetadata: {
      promptTokenCount: promptTokens,
      promptTokensDetails: [{ modality: 'AUDIO', tokenCount: audioTokens }],
      candidatesTokenCount: tokenCount,
      totalTokenCount: promptTokens + tokenCount,
    },
  }
  return {
    kind: 'whole',
    body: JSON.stringify(answer),
    tokens: tokenCount,
    bill: { id, model, promptTokens },
  }
}

/** A transcript, speech or an image, by the input and `responseModalities`. */
function generate(inquiry: Inquiry): Reply {
  const {
    id,
    body,
    params: [model = ''],
  } = inquiry
  const request = inOneSpelling(JSON.parse(body))
  const transcript = listen(inquiry, request)
  if (transcript) return transcript
  const config = isObject(request) && isObject(request.generationConfig) ? request.generationConfig : {}
  const modalities = Array.isArray(config.responseModalities) ? config.responseModalities : []
  const prompt = JSON.stringify(isObject(request) ? request.contents : '')
  const isSound = modalities.includes('AUDIO')
  for (const part of partsIn(request)) {
    const inline = isObject(part) && isObject(part.inlineData) ? part.inlineData : undefined
    if (inline && inline.data !== PICTURE) throw new ProviderError('bad_value', 'not an image', 'contents')
  }
  if (isSound && !JSON.stringify(config.speechConfig ?? '').includes('voiceName'))
    throw new ProviderError('missing_field', 'a voice is required', 'speechConfig')
  const promptTokens = countTokens(prompt)
  const tokenCount = isSound ? AUDIO_TOKENS : IMAGE_TOKENS
  const inlineData = isSound
    ? {
        mimeType: 'audio/L16;codec=pcm;rate=24000',
        data: Buffer.concat(SOUNDS.pcm.pieces(SECONDS)).toString('base64'),
      }
    : { mimeType: 'image/png', data: PICTURE }
  const answer = {
    candidates: [
      { content: { parts: [{ text: 'Here it is.' }, { inlineData }], role: 'model' }, finishReason: 'STOP' },
    ],
    usageMetadata: {
      promptTokenCount: promptTokens,
      candidatesTokenCount: tokenCount,
      totalTokenCount: promptTokens + tokenCount,
      candidatesTokensDetails: [{ modality: isSound ? 'AUDIO' : 'IMAGE', tokenCount }],
    },
  }
  const bill = { id, model, promptTokens, units: isSound ? { seconds: SECONDS } : { images: 1 } }
  return { kind: 'whole', body: JSON.stringify(answer), tokens: tokenCount, bill }
}

function predict({ id, body, params: [model = ''] }: Inquiry): Reply {
  const request: unknown = JSON.parse(body)
  const { sampleCount = 1 } = (
    isObject(request) && isObject(request.parameters) ? request.parameters : {}
  ) as {
    sampleCount?: number
  }
  const predictions = Array.from({ length: sampleCount }, () => ({
    mimeType: 'image/png',
    bytesBase64Encoded: PICTURE,
  }))
  const bill = { id, model, promptTokens: 0, units: { images: sampleCount } }
  return { kind: 'whole', body: JSON.stringify({ predictions }), tokens: 0, bill }
}

export const geminiMedia = vendor('Gemini', inHeader('x-goog-api-key'), [
  { method: 'POST', path: /^\/gemini-media\/v1beta\/models\/([^/:]+):generateContent$/, answer: generate },
  { method: 'POST', path: /^\/gemini-media\/v1beta\/models\/([^/:]+):predict$/, answer: predict },
])
