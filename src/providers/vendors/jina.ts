import { readCommonRanking } from '../../media/rerank.ts'
import { bearer } from '../auth.ts'
import type { Provider } from '../provider.ts'

// Reranking returns documents by default.
export const jina = {
  type: 38,
  name: 'Jina',
  baseUrl: 'https://api.jina.ai',
  auth: bearer,
  embeddings: { openai: '/v1/embeddings' },
  rerank: { cohere: '/v1/rerank' },
  dialects: {
    rerank: {
      cohere: {
        encode: ({ body }, model) => ({ json: { ...body, model, return_documents: false } }),
        decode: readCommonRanking,
      },
    },
  },
  keyHint: 'jina_…',
} satisfies Provider
