import { readRanked } from '../../media/rerank.ts'
import { bearer } from '../auth.ts'
import { baseUrlField } from '../fields.ts'
import type { Provider } from '../provider.ts'

// Reranking accepts `texts` and returns a plain array of `{index, score}`. A server has one model.
export const textEmbeddingsInference = {
  type: 1023,
  name: 'Text Embeddings Inference',
  auth: bearer,
  embeddings: { openai: '/v1/embeddings' },
  rerank: { native: '/rerank' },
  dialects: {
    rerank: {
      native: {
        encode: ({ query, texts }) => ({ json: { query, texts, truncate: true } }),
        decode: answer => ({ ranked: readRanked(answer, 'score') }),
      },
    },
  },
  fields: [baseUrlField('URL of the server, usually http://<host>:8080')],
  keyHint: 'any text, unless the server was started with a key',
} satisfies Provider
