import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// Streams have comment lines, may have an `error` inside a chunk of a 200, and end with a usage chunk that still has one
// choice. `reasoning_details` must be sent back unchanged in tool loops. Anthropic's cache marks work in every format.
export const openrouter = {
  type: 20,
  name: 'OpenRouter',
  baseUrl: 'https://openrouter.ai/api',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', responses: '/v1/responses', anthropic: '/v1/messages' },
  encoding: { keepCacheMarks: true },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  rerank: { cohere: '/v1/rerank' },
  models: { path: '/v1/models', names: openaiModels },
  fields: [
    {
      name: 'site_url',
      label: 'Site URL',
      help: 'Identifies your app in the provider’s rankings.',
      header: 'http-referer',
    },
    { name: 'site_name', label: 'Site name', help: 'Shown next to the site URL.', header: 'x-title' },
  ],
  keyHint: 'sk-or-v1-…',
} satisfies Provider
