import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// `model:provider` picks the host behind the router.
export const huggingFace = {
  type: 1011,
  name: 'Hugging Face',
  baseUrl: 'https://router.huggingface.co',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', responses: '/v1/responses' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'hf_…',
} satisfies Provider
