import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// Models are named accounts/fireworks/models/…; usage comes with the last chunk of content.
export const fireworks = {
  type: 1003,
  name: 'Fireworks',
  baseUrl: 'https://api.fireworks.ai/inference',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', responses: '/v1/responses', anthropic: '/v1/messages' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  rerank: { cohere: '/v1/rerank' },
  images: { native: '/v1/workflows/{+model}/text_to_image' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'fw_…',
} satisfies Provider
