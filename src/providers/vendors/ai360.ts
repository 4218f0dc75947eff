import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const ai360 = {
  type: 19,
  name: '360',
  baseUrl: 'https://api.360.cn',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  embeddings: { openai: '/v1/embeddings' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'fk…',
} satisfies Provider
