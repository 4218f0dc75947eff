import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'
import { openaiVideos } from '../videos/openai.ts'

const generate = '/v1beta/models/{model}:generateContent'

/** Another gateway: New API or One API. */
export const newApi = {
  type: 60,
  name: 'New API',
  auth: bearer,
  chat: {
    'openai-chat': '/v1/chat/completions',
    responses: '/v1/responses',
    anthropic: '/v1/messages',
    gemini: { whole: generate, streamed: '/v1beta/models/{model}:streamGenerateContent?alt=sse' },
  },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  speech: { openai: '/v1/audio/speech' },
  transcription: { openai: '/v1/audio/transcriptions' },
  translation: { openai: '/v1/audio/translations' },
  moderation: { openai: '/v1/moderations' },
  rerank: { cohere: '/v1/rerank' },
  images: { openai: '/v1/images/generations' },
  videos: { openai: '/v1/videos' },
  dialects: { videos: { openai: openaiVideos({ takesAll: true }) } },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('URL of the other gateway.')],
  keyHint: 'sk-…',
} satisfies Provider
