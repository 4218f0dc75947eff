import { bearer } from '../auth.ts'
import type { Provider } from '../provider.ts'

// New API's address for this type number requires signed requests in a format of its own; this one accepts the console's API
// key and the common format.
export const tencent = {
  type: 23,
  name: 'Tencent',
  baseUrl: 'https://api.hunyuan.cloud.tencent.com',
  auth: bearer,
  chat: { 'openai-chat': '/v1/chat/completions', anthropic: '/anthropic/v1/messages' },
  embeddings: { openai: '/v1/embeddings' },
  // Anthropic's format is for the second generation only.
  formatsOfModel: model =>
    model.startsWith('hunyuan-2') ? ['openai-chat', 'anthropic', 'openai'] : ['openai-chat', 'openai'],
  keyHint: 'the API key of the console (sk-…), not SecretId and SecretKey',
} satisfies Provider
