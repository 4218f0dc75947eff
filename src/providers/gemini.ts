import { keyHeader } from './auth.ts'
import { memberOf } from './member.ts'
import { geminiModels } from './model-lists.ts'
import type { Provider } from './provider.ts'

const generate = '/v1beta/models/{model}:generateContent'

// Speech comes as raw PCM (`audio/L16`, 24 kHz). Video jobs are polled at /v1beta/{name}; the file's URL
// wants the key, redirects, and the redirect's headers repeat the key: its bytes go through us, its headers
// never.
export const gemini = {
  type: 24,
  name: 'Gemini',
  baseUrl: 'https://generativelanguage.googleapis.com',
  auth: keyHeader('x-goog-api-key'),
  chat: { gemini: { whole: generate, streamed: '/v1beta/models/{model}:streamGenerateContent?alt=sse' } },
  embeddings: { gemini: '/v1beta/models/{model}:batchEmbedContents' },
  speech: { gemini: generate },
  images: { gemini: generate, native: '/v1beta/models/{model}:predict' },
  videos: { native: '/v1beta/models/{model}:predictLongRunning' },
  models: { path: '/v1beta/models?pageSize=1000', names: geminiModels },
  // The picture and film models are not asked to generate content but to predict.
  speaks: model => (/^(imagen|veo)-/.test(model) ? ['native'] : ['gemini']),
  isKeyTrouble: (status, body) => status === 400 && reasonsOf(body).includes('API_KEY_INVALID'),
  keyHint: 'AIza…',
} satisfies Provider

function reasonsOf(body: unknown): unknown[] {
  const details = memberOf(memberOf(body, 'error'), 'details')
  return Array.isArray(details) ? details.map(detail => memberOf(detail, 'reason')) : []
}
