import { isObject, type WireObject } from '../json.ts'
import { ProviderError } from '../provider-error.ts'
import { countTokens } from '../tokens.ts'
import type { Inquiry, Reply } from './format.ts'
import { decodeRequest, missing } from './openai-request.ts'

const textOf = (document: unknown): string => {
  if (typeof document === 'string') return document
  return isObject(document) && typeof document.text === 'string' ? document.text : ''
}

/** The share of the query's words that occur in a document. */
function scoreOf(query: string, document: string): number {
  const words = query.toLowerCase().split(/\W+/).filter(Boolean)
  const text = document.toLowerCase()
  return words.filter(word => text.includes(word)).length / Math.max(1, words.length)
}

export type Ranking = {
  readonly model: string
  readonly request: WireObject
  readonly texts: readonly string[]
  /** In the order of the documents. */
  readonly scores: readonly number[]
  readonly tokens: number
}

export function rank(body: string, documents = 'documents'): Ranking {
  const { request, model } = decodeRequest(body)
  const { query, [documents]: list } = request
  if (typeof query !== 'string' || query === '') throw missing('query')
  if (!Array.isArray(list) || list.length === 0) throw missing(documents)
  const texts = list.map(textOf)
  const tokens = texts.reduce((sum, text) => sum + countTokens(query) + countTokens(text), 0)
  return { model, request, texts, scores: texts.map(text => scoreOf(query, text)), tokens }
}

/** The format of most rerankers. Like some of them, it ignores `top_n` and does not sort the results. It reports tokens. */
export function answerRerank({ id, body }: Inquiry): Reply {
  const { model, texts, scores, tokens } = rank(body)
  const results = scores.map((relevance_score, index) => ({
    index,
    relevance_score,
    document: { text: texts[index] },
  }))
  const bill = { id: `rank-${id}`, model, promptTokens: tokens }
  const answer = { model, results, usage: { total_tokens: tokens } }
  return { kind: 'whole', body: JSON.stringify(answer), tokens: 0, bill }
}

const DOCUMENTS_PER_SEARCH = 100

/** Cohere's version 2: strings only, sorted and cut, no documents in the answer, search units. */
export function answerCohereRerank({ id, body }: Inquiry): Reply {
  const { model, request, texts, scores } = rank(body)
  const { documents, top_n: topN } = request
  if (!Array.isArray(documents) || !documents.every(each => typeof each === 'string'))
    throw new ProviderError('wrong_type', "'documents' must be texts.", 'documents')
  const results = scores
    .map((relevance_score, index) => ({ index, relevance_score }))
    .sort((a, b) => b.relevance_score - a.relevance_score)
    .slice(0, typeof topN === 'number' ? topN : undefined)
  const searches = Math.ceil(texts.length / DOCUMENTS_PER_SEARCH)
  const meta = { api_version: { version: '2' }, billed_units: { search_units: searches } }
  const bill = { id: `rank-${id}`, model, promptTokens: 0, units: { searches } }
  return { kind: 'whole', body: JSON.stringify({ id: bill.id, results, meta }), tokens: 0, bill }
}
