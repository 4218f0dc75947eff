import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const sambanova = {
  type: 1005,
  name: 'SambaNova',
  baseUrl: 'https://api.sambanova.ai',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  embeddings: { openai: '/v1/embeddings' },
  transcription: { openai: '/v1/audio/transcriptions' },
  translation: { openai: '/v1/audio/translations' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'the API key of the cloud console',
} satisfies Provider
