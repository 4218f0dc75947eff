import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'
import { openaiVideos } from '../videos/openai.ts'

/** Any server with the common format. */
export const custom = {
  type: 8,
  name: 'Custom',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
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
  fields: [
    baseUrlField(
      'URL of the server, with or without /v1, or of its chat endpoint. A URL that ends in # is used unchanged.',
    ),
  ],
  keyHint: 'the bearer token that the server expects',
} satisfies Provider
