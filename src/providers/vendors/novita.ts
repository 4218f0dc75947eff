import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const novita = {
  type: 1007,
  name: 'Novita',
  baseUrl: 'https://api.novita.ai',
  auth: bearer,
  chat: { 'openai-chat': '/openai/v1/chat/completions', anthropic: '/anthropic/v1/messages' },
  completions: { openai: '/openai/v1/completions' },
  embeddings: { openai: '/openai/v1/embeddings' },
  rerank: { cohere: '/openai/v1/rerank' },
  models: { path: '/openai/v1/models', names: openaiModels },
  keyHint: 'sk_…',
} satisfies Provider
