import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// In tool loops the newer models require their `reasoning_content` back; 402 means that the balance is used up.
export const deepseek = {
  type: 43,
  name: 'DeepSeek',
  baseUrl: 'https://api.deepseek.com',
  auth: bearer,
  chat: {
    'openai-chat': '/v1/chat/completions',
    anthropic: '/anthropic/v1/messages',
    responses: '/v1/responses',
  },
  completions: { openai: '/beta/completions' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'sk-…',
} satisfies Provider
