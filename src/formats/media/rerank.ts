import { EMPTY, type Usage } from '../../domain/usage.ts'
import { type RequestReading, readRequest } from '../openai/request-fields.ts'
import { isObject, type JsonObject, member } from '../openai/value.ts'
import { AnswerError, type Dialect } from './dialect.ts'

/** What a request for ranking says (spec 4.12). */
export type RerankAsk = {
  readonly model: string
  readonly query: string
  /** As the client gave them: texts, or objects of any shape. */
  readonly documents: readonly (string | JsonObject)[]
  readonly topN: number | undefined
  readonly returnDocuments: boolean
  readonly body: JsonObject
}

export type Ranked = { readonly index: number; readonly score: number }
export type RerankAnswer = {
  readonly id?: string | undefined
  readonly ranked: readonly Ranked[]
  readonly searches?: number | undefined
  readonly tokens?: number | undefined
  /** What the vendor says beside, passed on. */
  readonly meta?: JsonObject | undefined
}
export type RerankDialect = Dialect<RerankAsk, RerankAnswer>

export const MAX_DOCUMENTS = 1_000
/** A search unit is a query with up to so many documents. */
const DOCUMENTS_PER_SEARCH = 100
/** Documents that are longer than this with the query beside them are split, and each piece counts as one. */
const BYTES_PER_PIECE = 500
const LEAST_PIECE = 100

export function readRerankRequest(parsed: unknown): RequestReading<RerankAsk> {
  return readRequest(parsed, (fields, body) => {
    const model = fields.model()
    const query = fields.required('query')
    if (query !== undefined && typeof query !== 'string') fields.refuse('query', 'must be a text')
    const documents = fields.required('documents')
    const isList = Array.isArray(documents)
    if (documents !== undefined && documents !== '' && !isList)
      fields.refuse('documents', 'must be a list of texts or objects')
    if (isList && (documents.length === 0 || documents.length > MAX_DOCUMENTS))
      fields.refuse('documents', `must be 1 to ${MAX_DOCUMENTS}`)
    if (isList && documents.length <= MAX_DOCUMENTS) {
      const wrong = documents.findIndex(each => typeof each !== 'string' && !isObject(each))
      if (wrong >= 0) fields.refuse(`documents.${wrong}`, 'must be a text or an object')
    }
    const topN = fields.integer('top_n')
    const returnDocuments = fields.flag('return_documents')
    if (typeof query !== 'string' || !isList) return undefined
    return { model, query, documents: documents as RerankAsk['documents'], topN, returnDocuments, body }
  })
}

/** What of a document is ranked: its text, or all of it where it has none. */
export function textOf(document: string | JsonObject): string {
  if (typeof document === 'string') return document
  const text = member(document, 'text')
  return typeof text === 'string' ? text : JSON.stringify(document)
}

/** No vendor counts more searches for these documents. */
export const searchesBound = ({ query, documents }: RerankAsk): number => {
  const room = Math.max(LEAST_PIECE, BYTES_PER_PIECE - Buffer.byteLength(query))
  const piecesOf = (document: string | JsonObject) =>
    Math.max(1, Math.ceil(Buffer.byteLength(textOf(document)) / room))
  const pieces = documents.reduce((sum, each) => sum + piecesOf(each), 0)
  return Math.ceil(pieces / DOCUMENTS_PER_SEARCH)
}

const numberIn = (value: unknown, name: string): number | undefined => {
  const found = member(value, name)
  return typeof found === 'number' && Number.isInteger(found) && found >= 0 && found <= 1e12
    ? found
    : undefined
}

/** The list of an answer in any of the shapes that rerankers share. */
export function readRanked(list: unknown, score = 'relevance_score'): Ranked[] {
  if (!Array.isArray(list)) throw new AnswerError('the answer has no list of results')
  return list.map(each => {
    const index = numberIn(each, 'index')
    const value = member(each, score) ?? member(each, 'score')
    if (index === undefined || typeof value !== 'number')
      throw new AnswerError('a result has no index or no score')
    return { index, score: value }
  })
}

/** The shape of Cohere, which Jina, vLLM, SiliconFlow and most others share. */
export function readCommonRanking(answer: unknown): RerankAnswer {
  if (member(answer, 'error')) throw new AnswerError('the answer is an error')
  const meta = member(answer, 'meta')
  const billed = member(meta, 'billed_units')
  const usage = member(answer, 'usage')
  const id = member(answer, 'id')
  return {
    id: typeof id === 'string' && id !== '' ? id : undefined,
    ranked: readRanked(member(answer, 'results')),
    searches: numberIn(billed, 'search_units'),
    tokens:
      numberIn(usage, 'total_tokens') ??
      numberIn(usage, 'prompt_tokens') ??
      numberIn(billed, 'input_tokens') ??
      numberIn(member(meta, 'tokens'), 'input_tokens'),
    meta: isObject(meta) ? meta : undefined,
  }
}

/** The answer of the specification (2.7): sorted, cut, with the client's own documents where it wants them back. */
export function writeRanking(answer: RerankAnswer, ask: RerankAsk, newId: () => string) {
  const { documents, topN = documents.length, returnDocuments } = ask
  const seen = new Set<number>()
  for (const { index } of answer.ranked) {
    if (index >= documents.length || seen.has(index))
      throw new AnswerError('a result names no document of the request, or one twice')
    seen.add(index)
  }
  if (answer.ranked.length < Math.min(topN, documents.length))
    throw new AnswerError('the answer has fewer results than documents')
  const results = answer.ranked
    .toSorted((a, b) => b.score - a.score || a.index - b.index)
    .slice(0, topN)
    .map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(returnDocuments && { document: backOf(documents[index] ?? '') }),
    }))
  const { tokens, searches } = answer
  const units = member(answer.meta, 'billed_units')
  return {
    id: answer.id ?? newId(),
    results,
    meta: {
      ...answer.meta,
      billed_units: {
        ...(isObject(units) ? units : {}),
        ...(searches === undefined && tokens !== undefined ? { input_tokens: tokens } : {}),
        ...(searches === undefined && tokens === undefined ? { search_units: 1 } : {}),
        ...(searches !== undefined ? { search_units: searches } : {}),
      },
    },
    ...(tokens === undefined ? {} : { usage: { prompt_tokens: tokens, total_tokens: tokens } }),
  }
}

const backOf = (document: string | JsonObject): JsonObject =>
  typeof document === 'string' ? { text: document } : { text: textOf(document), ...document }

/** One search where a vendor tells none: whoever is charged by the search has made at least one. */
export function rankingUsage({ tokens, searches }: RerankAnswer): Usage | undefined {
  if (tokens === undefined && searches === undefined) return undefined
  return { ...EMPTY, input: tokens ?? 0, searches: searches ?? 1, calls: 1 }
}
