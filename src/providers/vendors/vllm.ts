import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const vllm = {
  type: 1019,
  name: 'vLLM',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', responses: '/v1/responses', anthropic: '/v1/messages' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  transcription: { openai: '/v1/audio/transcriptions' },
  translation: { openai: '/v1/audio/translations' },
  rerank: { cohere: '/v1/rerank' },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('URL of the server, usually http://<host>:8000')],
  keyHint: 'any text, unless the server was started with a key',
} satisfies Provider
