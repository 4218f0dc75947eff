import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const lmStudio = {
  type: 1022,
  name: 'LM Studio',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', responses: '/v1/responses', anthropic: '/v1/messages' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  models: { path: '/v1/models', names: openaiModels },
  fields: [baseUrlField('URL of the server, usually http://<host>:1234')],
  keyHint: 'any text',
} satisfies Provider
