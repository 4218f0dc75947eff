import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// Speech and pictures are base64 inside JSON.
export const hyperbolic = {
  type: 1009,
  name: 'Hyperbolic',
  baseUrl: 'https://api.hyperbolic.xyz',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  completions: { openai: '/v1/completions' },
  speech: { native: '/v1/audio/generation' },
  images: { native: '/v1/image/generation' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'the API key of the dashboard',
} satisfies Provider
