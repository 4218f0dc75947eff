import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const sglang = {
  type: 1020,
  name: 'SGLang',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  rerank: { cohere: '/v1/rerank' },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('URL of the server, usually http://<host>:30000')],
  keyHint: 'any text, unless the server was started with a key',
} satisfies Provider
