import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const deepinfra = {
  type: 1006,
  name: 'DeepInfra',
  baseUrl: 'https://api.deepinfra.com',
  auth: bearer,
  chat: { 'openai-chat': '/v1/openai/chat/completions', anthropic: '/anthropic/v1/messages' },
  completions: { openai: '/v1/openai/completions' },
  embeddings: { openai: '/v1/openai/embeddings' },
  speech: { openai: '/v1/openai/audio/speech' },
  transcription: { openai: '/v1/openai/audio/transcriptions' },
  translation: { openai: '/v1/openai/audio/translations' },
  rerank: { native: '/v1/inference/{+model}' },
  images: { openai: '/v1/openai/images/generations' },
  models: { path: '/v1/openai/models', names: openaiModels },
  keyHint: 'the API key of the dashboard',
} satisfies Provider
