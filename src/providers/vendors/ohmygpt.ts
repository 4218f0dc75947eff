import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

export const ohmygpt = {
  type: 7,
  name: 'OhMyGPT',
  baseUrl: 'https://api.ohmygpt.com',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', anthropic: '/v1/messages' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  speech: { openai: '/v1/audio/speech' },
  transcription: { openai: '/v1/audio/transcriptions' },
  translation: { openai: '/v1/audio/translations' },
  images: { openai: '/v1/images/generations' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'sk-…',
} satisfies Provider
