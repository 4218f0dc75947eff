import { bearer } from '../auth.ts'
import { openaiModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'
import { zhipuVideos } from '../videos/zhipu.ts'

// Every delta of a stream repeats the role; `thinking: {type}` controls reasoning; only `tool_choice: auto` is supported.
// Video jobs are polled at /api/paas/v4/async-result/{id}.
const offers = {
  auth: bearer,
  chat: { 'openai-chat': '/api/paas/v4/chat/completions', anthropic: '/api/anthropic/v1/messages' },
  embeddings: { openai: '/api/paas/v4/embeddings' },
  speech: { openai: '/api/paas/v4/audio/speech' },
  transcription: { openai: '/api/paas/v4/audio/transcriptions' },
  rerank: { cohere: '/api/paas/v4/rerank' },
  images: { openai: '/api/paas/v4/images/generations' },
  videos: { native: '/api/paas/v4/videos/generations' },
  dialects: { videos: { native: zhipuVideos } },
  transcripts: () => ['json'],
  models: { path: '/api/paas/v4/models', names: openaiModels },
  keyHint: '<id>.<secret>',
} satisfies Partial<Provider>

// The older type number has the same keys, so the newer protocol serves both.
export const zhipu = {
  type: 16,
  name: 'Zhipu',
  baseUrl: 'https://open.bigmodel.cn',
  ...offers,
} satisfies Provider

export const zhipuV4 = {
  type: 26,
  name: 'Zhipu V4',
  baseUrl: 'https://open.bigmodel.cn',
  ...offers,
} satisfies Provider

/** The same vendor outside China. */
export const zai = {
  type: 1012,
  name: 'Z.ai',
  baseUrl: 'https://api.z.ai',
  ...offers,
} satisfies Provider
