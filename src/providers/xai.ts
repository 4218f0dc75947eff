import { bearer } from './auth.ts'
import { memberOf } from './member.ts'
import { openaiModels } from './model-lists.ts'
import type { Provider } from './provider.ts'

// Reasoning tokens stand outside `completion_tokens`; a tool call comes whole in one chunk; errors are bare
// strings. Video jobs are polled at /v1/videos/{request_id}, which answers 202 until they end.
export const xai = {
  type: 48,
  name: 'xAI',
  baseUrl: 'https://api.x.ai',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', responses: '/v1/responses' },
  speech: { native: '/v1/tts' },
  transcription: { native: '/v1/stt' },
  images: { openai: '/v1/images/generations' },
  videos: { native: '/v1/videos/generations' },
  models: { path: '/v1/models', names: openaiModels },
  // A wrong key is a 400 whose code is that of any wrong argument: only the sentence tells.
  isKeyTrouble: (status, body) => status === 400 && String(memberOf(body, 'error')).includes('API key'),
  usage: { reasoningOutside: true },
  keyHint: 'xai-…',
} satisfies Provider
