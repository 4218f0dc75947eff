import { bearer } from './auth.ts'
import type { Provider } from './provider.ts'

// Embedding knows `output_dimension` for `dimensions` and refuses `encoding_format: float`. Reranking knows
// `top_k` for `top_n` and answers in `data`.
export const voyage = {
  type: 1015,
  name: 'Voyage',
  baseUrl: 'https://api.voyageai.com',
  auth: bearer,
  embeddings: { openai: '/v1/embeddings' },
  rerank: { native: '/v1/rerank' },
  keyHint: 'pa-…',
} satisfies Provider
