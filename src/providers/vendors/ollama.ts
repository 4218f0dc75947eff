import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { ollamaModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// Only the native format can change the context length (`options.num_ctx`); it streams by default. Responses are supported
// since 0.13.3, Messages since 0.14.
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
  fields: [baseUrlField('Leave blank for this machine; the provider’s cloud is https://ollama.com')],
  keyHint: 'any text for a local server, the API key of the account for the cloud',
} satisfies Provider
