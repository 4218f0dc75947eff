import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// Tool calls are checked by the vendor: a bad one is a 400, or an `error` event inside a 200. Usage stands in
// `x_groq`. A message that brings the thoughts of an earlier turn back is refused.
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
