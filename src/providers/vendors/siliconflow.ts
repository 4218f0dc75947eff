import { presentFields } from '../../media/dialect.ts'
import { addressesOnly, type ImageDialect } from '../../media/image.ts'
import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { memberOf } from '../member.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'
import { siliconflowVideos } from '../videos/siliconflow.ts'

// Image requests have `image_size` and `batch_size`, and responses have `images`. Video jobs are polled by POST
// /v1/video/status.
export const siliconflow = {
  type: 40,
  name: 'SiliconFlow',
  baseUrl: 'https://api.siliconflow.cn',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', anthropic: '/v1/messages' },
  limitsAnswerOnly: true,
  embeddings: { openai: '/v1/embeddings' },
  speech: { openai: '/v1/audio/speech' },
  transcription: { openai: '/v1/audio/transcriptions' },
  rerank: { cohere: '/v1/rerank' },
  images: { native: '/v1/images/generations' },
  videos: { native: '/v1/video/submit' },
  dialects: {
    images: { native: { encode: encodeImages, decode: decodeImages } },
    videos: { native: siliconflowVideos },
  },
  transcripts: () => ['json'],
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('Leave blank for China; elsewhere https://api.siliconflow.com')],
  keyHint: 'sk-…',
} satisfies Provider

function encodeImages(ask: Parameters<ImageDialect['encode']>[0], model: string) {
  const { prompt, n, size, body } = ask
  const { negative_prompt, seed, num_inference_steps, guidance_scale } = body
  return {
    json: presentFields({
      model,
      prompt,
      image_size: size === 'auto' ? undefined : size,
      batch_size: n,
      negative_prompt,
      seed,
      num_inference_steps,
      guidance_scale,
    }),
    warnings: addressesOnly(ask),
  }
}

function decodeImages(answer: unknown) {
  const images = memberOf(answer, 'images') ?? memberOf(answer, 'data')
  const urls = (Array.isArray(images) ? images : []).map(each => memberOf(each, 'url'))
  return { pictures: urls.filter(url => typeof url === 'string').map(url => ({ url })) }
}
