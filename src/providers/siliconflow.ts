import { bearer } from './auth.ts'
import { baseUrlField } from './fields.ts'
import { openaiModels } from './model-lists.ts'
import type { Provider } from './provider.ts'

// Pictures take `image_size` and `batch_size` and answer `images`. Video jobs are polled by POST
// /v1/video/status.
export const siliconflow = {
  type: 40,
  name: 'SiliconFlow',
  baseUrl: 'https://api.siliconflow.cn',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', anthropic: '/v1/messages' },
  embeddings: { openai: '/v1/embeddings' },
  speech: { openai: '/v1/audio/speech' },
  transcription: { openai: '/v1/audio/transcriptions' },
  rerank: { cohere: '/v1/rerank' },
  images: { native: '/v1/images/generations' },
  videos: { native: '/v1/video/submit' },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('Empty for China; elsewhere https://api.siliconflow.com')],
  keyHint: 'sk-…',
} satisfies Provider
