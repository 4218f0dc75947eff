import { bearer } from './auth.ts'
import { openaiModels } from './model-lists.ts'
import type { Provider } from './provider.ts'

// Unknown fields are refused (422): `random_seed` for `seed`, `max_tokens` only, `any` for a required tool,
// no `stream_options`; ids of tool calls are nine letters or digits. Speech is base64 inside JSON, moderation
// has no `flagged`, and content may be a list with thinking in it.
export const mistral = {
  type: 42,
  name: 'Mistral',
  baseUrl: 'https://api.mistral.ai',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  completions: { native: '/v1/fim/completions' },
  embeddings: { openai: '/v1/embeddings' },
  speech: { native: '/v1/audio/speech' },
  transcription: { openai: '/v1/audio/transcriptions' },
  moderation: { native: '/v1/moderations' },
  models: { path: '/v1/models', names: openaiModels },
  keyHint: '32 letters and digits',
} satisfies Provider
