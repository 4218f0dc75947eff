import type { Inquiry, Reply } from './format.ts'
import { rank } from './rerank.ts'
import { schemeKey, vendor } from './vendor.ts'

const sorted = (scores: readonly number[]) =>
  scores
    .map((relevance_score, index) => ({ relevance_score, index }))
    .sort((a, b) => b.relevance_score - a.relevance_score)

/** `top_k` instead of `top_n`, and the results in `data`. */
function voyageRank({ id, body }: Inquiry): Reply {
  const { model, request, scores, tokens } = rank(body)
  const data = sorted(scores).slice(0, typeof request.top_k === 'number' ? request.top_k : undefined)
  const answer = { object: 'list', data, model, usage: { total_tokens: tokens } }
  return { kind: 'whole', body: JSON.stringify(answer), tokens: 0, bill: { id, model, promptTokens: tokens } }
}

/** A plain list with `score`, without model and usage. */
function teiRank({ id, body }: Inquiry): Reply {
  const { scores } = rank(JSON.stringify({ ...JSON.parse(body), model: 'tei' }), 'texts')
  const answer = sorted(scores).map(({ index, relevance_score }) => ({ index, score: relevance_score }))
  return {
    kind: 'whole',
    body: JSON.stringify(answer),
    tokens: 0,
    bill: { id, model: 'tei', promptTokens: 0 },
  }
}

export const voyage = vendor('Voyage', schemeKey('Bearer'), [
  { method: 'POST', path: /^\/voyage\/v1\/rerank$/, answer: voyageRank },
])

export const tei = vendor('Text Embeddings Inference', schemeKey('Bearer'), [
  { method: 'POST', path: /^\/tei\/rerank$/, answer: teiRank },
])
