import { type EmbeddingAsk, readCommonVectors } from '../../media/embedding.ts'
import { type RerankDialect, readRanked } from '../../media/rerank.ts'
import { bearer } from '../auth.ts'
import { memberOf } from '../member.ts'
import type { Provider } from '../provider.ts'

// Embedding has `output_dimension` instead of `dimensions` and rejects `encoding_format: float`. Reranking has `top_k` instead
// of `top_n`, and its results are in `data`.
export const voyage = {
  type: 1015,
  name: 'Voyage',
  baseUrl: 'https://api.voyageai.com',
  auth: bearer,
  embeddings: { openai: '/v1/embeddings' },
  rerank: { native: '/v1/rerank' },
  dialects: {
    embeddings: { openai: { encode: encodeEmbedding, decode: readCommonVectors } },
    rerank: { native: { encode: encodeRerank, decode: decodeRerank } },
  },
  keyHint: 'pa-…',
} satisfies Provider

function encodeEmbedding({ inputs, dimensions, rest }: EmbeddingAsk, model: string) {
  return {
    json: {
      ...rest,
      model,
      input: inputs,
      ...(dimensions !== undefined && { output_dimension: dimensions }),
    },
  }
}

function encodeRerank(ask: Parameters<RerankDialect['encode']>[0], model: string) {
  const { query, texts, topN, body } = ask
  const truncation = memberOf(body, 'truncation')
  return {
    json: {
      model,
      query,
      documents: texts,
      return_documents: false,
      ...(topN === undefined ? {} : { top_k: topN }),
      ...(truncation === undefined ? {} : { truncation }),
    },
  }
}

function decodeRerank(answer: unknown) {
  const tokens = memberOf(memberOf(answer, 'usage'), 'total_tokens')
  return {
    ranked: readRanked(memberOf(answer, 'data')),
    ...(Number.isSafeInteger(tokens) && { tokens: tokens as number }),
  }
}
