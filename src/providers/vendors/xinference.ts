import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const xinference = {
  type: 47,
  name: 'Xinference',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  speech: { openai: '/v1/audio/speech' },
  transcription: { openai: '/v1/audio/transcriptions' },
  translation: { openai: '/v1/audio/translations' },
  rerank: { cohere: '/v1/rerank' },
  images: { openai: '/v1/images/generations' },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('URL of the server, usually http://<host>:9997')],
  keyHint: 'any text, unless the server was started with authentication',
} satisfies Provider
