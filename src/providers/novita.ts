import { bearer } from './auth.ts'
import { openaiModels } from './model-lists.ts'
import type { Provider } from './provider.ts'

export const novita = {
  type: 1007,
  name: 'Novita',
  baseUrl: 'https://api.novita.ai/openai',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  rerank: { cohere: '/v1/rerank' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'sk_…',
} satisfies Provider
