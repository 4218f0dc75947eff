import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const nebius = {
  type: 1008,
  name: 'Nebius',
  baseUrl: 'https://api.tokenfactory.nebius.com',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  images: { openai: '/v1/images/generations' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'eyJ… or v1.…',
} satisfies Provider
