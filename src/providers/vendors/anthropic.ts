import { keyHeader } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const anthropic = {
  type: 14,
  name: 'Anthropic',
  baseUrl: 'https://api.anthropic.com',
  auth: keyHeader('x-api-key'),
  headers: { 'anthropic-version': '2023-06-01' },
  chat: { anthropic: '/v1/messages' },
  models: { path: '/v1/models?limit=1000', names: openaiModels },
  keyHint: 'sk-ant-…',
} satisfies Provider
