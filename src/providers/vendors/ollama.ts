import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { ollamaModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// The native format alone can widen the context (`options.num_ctx`); it streams unless told not to. Responses are
// served from 0.13.3 on, Messages from 0.14.
export const ollama = {
  type: 4,
  name: 'Ollama',
  baseUrl: 'http://localhost:11434',
  auth: bearer,
  chat: {
    'openai-chat': '/v1/chat/completions',
    responses: '/v1/responses',
    anthropic: '/v1/messages',
    ollama: '/api/chat',
  },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings', ollama: '/api/embed' },
  models: { path: '/api/tags', names: ollamaModels },
  fields: [baseUrlField('Empty for this machine; the vendor’s cloud is https://ollama.com')],
  keyHint: 'any text for a local server, the account’s key for the cloud',
} satisfies Provider
