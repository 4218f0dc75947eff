import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// Reasoning is in `reasoning`; a message with `reasoning_content` is rejected.
export const cerebras = {
  type: 1004,
  name: 'Cerebras',
  baseUrl: 'https://api.cerebras.ai',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  encoding: { omitReasoning: true },
  completions: { openai: '/v1/completions' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'csk-…',
} satisfies Provider
