import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// Known from the vendor's documentation only. A project's own address is https://api.scaleway.ai/<project id>.
export const scaleway = {
  type: 1024,
  name: 'Scaleway',
  baseUrl: 'https://api.scaleway.ai',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  embeddings: { openai: '/v1/embeddings' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: '8-4-4-4-12 hexadecimal digits',
} satisfies Provider
