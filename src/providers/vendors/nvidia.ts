import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// The retrieval models require an `input_type` with each embedding.
export const nvidia = {
  type: 1010,
  name: 'NVIDIA NIM',
  baseUrl: 'https://integrate.api.nvidia.com',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'nvapi-…',
} satisfies Provider
