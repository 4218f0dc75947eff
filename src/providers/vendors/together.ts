import { bearer } from '../auth.ts'
import { allOf, namesAt, openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'
import { togetherVideos } from '../videos/together.ts'

// Older models end with the finish reason `eos`. Video jobs are polled at their path with /{id}.
export const together = {
  type: 1002,
  name: 'Together',
  baseUrl: 'https://api.together.xyz',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions' },
  completions: { openai: '/v1/completions' },
  embeddings: { openai: '/v1/embeddings' },
  speech: { openai: '/v1/audio/speech' },
  transcription: { openai: '/v1/audio/transcriptions' },
  translation: { openai: '/v1/audio/translations' },
  rerank: { cohere: '/v1/rerank' },
  images: { openai: '/v1/images/generations' },
  videos: { native: '/v2/videos' },
  dialects: { videos: { native: togetherVideos } },
  // The list is a plain array, but behind proxies it has the common envelope.
  models: { path: '/v1/models', names: allOf(namesAt(undefined, 'id'), openaiModels) },
  keyHint: '64 hexadecimal digits, or tgp_v1_…',
} satisfies Provider
