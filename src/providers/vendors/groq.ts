import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// The vendor validates tool calls: an invalid one is a 400, or an `error` event inside a 200. Usage is in `x_groq`. A message
// with the reasoning of an earlier turn is rejected.
export const groq = {
  type: 1001,
  name: 'Groq',
  baseUrl: 'https://api.groq.com/openai',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', responses: '/v1/responses' },
  encoding: { omitReasoning: true },
  speech: { openai: '/v1/audio/speech' },
  transcription: { openai: '/v1/audio/transcriptions' },
  translation: { openai: '/v1/audio/translations' },
  transcripts: () => ['json', 'text', 'verbose_json'],
  models: { path: '/v1/models', names: openaiModels },
  keyHint: 'gsk_…',
} satisfies Provider
