import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const llamaCpp = {
  type: 1021,
  name: 'llama.cpp',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', anthropic: '/v1/messages' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  rerank: { cohere: '/v1/rerank' },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('URL of the server, usually http://<host>:8080')],
  keyHint: 'any text, unless the server was started with a key',
} satisfies Provider
