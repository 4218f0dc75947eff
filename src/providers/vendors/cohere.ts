import { type RerankDialect, readCommonRanking } from '../../media/rerank.ts'
import { bearer } from '../auth.ts'
import { ollamaModels } from '../model-lists.ts'
import type { Provider } from '../provider.ts'

// Embedding requires an `input_type`; reranking never returns documents; a tool's arguments may be the string "null". A
// transcription is plain text, and the request must name the language.
export const cohere = {
  type: 34,
  name: 'Cohere',
  baseUrl: 'https://api.cohere.ai',
  auth: bearer,
  chat: { cohere: '/v2/chat', 'openai-chat': '/compatibility/v1/chat/completions' },
  embeddings: { cohere: '/v2/embed', openai: '/compatibility/v1/embeddings' },
  transcription: { openai: '/v2/audio/transcriptions' },
  rerank: { cohere: '/v2/rerank' },
  dialects: { rerank: { cohere: { encode: encodeRerank, decode: readCommonRanking } } },
  transcripts: () => ['json'],
  models: { path: '/v1/models?page_size=1000', names: ollamaModels },
  keyHint: '40 letters and digits',
} satisfies Provider

/** Version 2 accepts strings only, returns no documents, and has no fields or chunks of documents. */
function encodeRerank({ body, texts }: Parameters<RerankDialect['encode']>[0], model: string) {
  const { return_documents: _, rank_fields: __, max_chunks_per_doc: pieces, ...rest } = body
  const warnings = (pieces ?? null) === null ? [] : ['max_chunks_per_doc is not supported']
  return { json: { ...rest, model, documents: texts }, warnings }
}
