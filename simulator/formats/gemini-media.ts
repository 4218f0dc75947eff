import { isObject } from '../json.ts'
import { Refusal } from '../refusal.ts'
import { SOUNDS } from '../sound.ts'
import { countTokens } from '../tokens.ts'
import type { Inquiry, Reply } from './format.ts'
import { PICTURE } from './openai-images.ts'
import { inHeader, vendor } from './vendor.ts'

const SECONDS = 2
const AUDIO_TOKENS = 50
const IMAGE_TOKENS = 1290

/** Speech or a picture, as `responseModalities` asks. */
function generate({ id, body, params: [model = ''] }: Inquiry): Reply {
  const request: unknown = JSON.parse(body)
  const config = isObject(request) && isObject(request.generationConfig) ? request.generationConfig : {}
  const modalities = Array.isArray(config.responseModalities) ? config.responseModalities : []
  const prompt = JSON.stringify(isObject(request) ? request.contents : '')
  const isSound = modalities.includes('AUDIO')
  if (isSound && !JSON.stringify(config.speechConfig ?? '').includes('voiceName'))
    throw new Refusal('missing_field', 'a voice is wanted', 'speechConfig')
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
