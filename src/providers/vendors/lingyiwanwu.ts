import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const lingyiwanwu = {
  type: 31,
  name: 'LingYiWanWu',
  baseUrl: 'https://api.lingyiwanwu.com',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'the API key of the console',
} satisfies Provider
