import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import type { Usage } from '../domain/usage.ts'
import { vendorCostIn } from '../metering/openai-usage.ts'
import { type RequestFields, type RequestReading, readRequest } from '../requests/request-fields.ts'
import { AnswerError, type Dialect } from './dialect.ts'

/** A rerank request (docs/reference/relay-api.md: Rerank). */
type RerankAsk = {
  readonly model: string
  readonly query: string
  /** As the client sent them: texts, or objects of any shape. */
  readonly documents: readonly (string | JsonObject)[]
  /** The text of each document that is ranked. */
  readonly texts: readonly string[]
  readonly topN: number | undefined
  readonly returnDocuments: boolean
  readonly body: JsonObject
}

export type Ranked = { readonly index: number; readonly score: number }
type RerankAnswer = {
  readonly id?: string | undefined
  readonly ranked: readonly Ranked[]
  readonly searches?: number | undefined
  readonly tokens?: number | undefined
  /** Further members of the vendor's answer, forwarded unchanged. */
  readonly meta?: JsonObject | undefined
  /** The cost that the vendor reports. */
  readonly vendorCost?: string | undefined
}
export type RerankDialect = Dialect<RerankAsk, RerankAnswer>

const MAX_DOCUMENTS = 1_000
/** The maximum number of documents per search unit. */
const DOCUMENTS_PER_SEARCH = 100
/** A document that is longer than this together with the query is split, and each piece counts as a document. */
const BYTES_PER_PIECE = 500
const LEAST_PIECE = 100

export function readRerankRequest(parsed: unknown): RequestReading<RerankAsk> {
  return readRequest(parsed, (fields, body) => {
    const model = fields.model()
    const query = fields.required('query')
    if (query !== undefined && typeof query !== 'string') fields.refuse('query', 'must be a string')
    const documents = fields.required('documents')
    const isList = Array.isArray(documents)
    if (documents !== undefined && documents !== '' && !isList)
      fields.refuse('documents', 'must be a list of strings or objects')
    if (isList && (documents.length === 0 || documents.length > MAX_DOCUMENTS))
      fields.refuse('documents', `must have 1 to ${MAX_DOCUMENTS} items`)
    const rankFields = readRankFields(fields, body)
    const texts: string[] = []
    if (isList && documents.length <= MAX_DOCUMENTS)
      for (const [index, document] of documents.entries()) {
        const text = textIn(document, rankFields)
        if (text === undefined)
          fields.refuse(`documents.${index}`, 'must be a string, or an object with the field text')
        else texts.push(text)
      }
    const topN = fields.integer('top_n')
    const returnDocuments = fields.flag('return_documents')
    if (typeof query !== 'string' || !isList) return undefined
    return {
      model,
      query,
      documents: documents as RerankAsk['documents'],
      texts,
      topN,
      returnDocuments,
      body,
    }
  })
}

/** The members of objects to rank, in order, if the client names them. */
function readRankFields(fields: RequestFields, body: JsonObject): readonly string[] {
  const fieldNames = member(body, 'rank_fields') ?? []
  if (Array.isArray(fieldNames) && fieldNames.every(each => typeof each === 'string')) return fieldNames
  fields.refuse('rank_fields', 'must be a list of strings')
  return []
}

/** The ranked text of a document: the named fields, else its text, else the URL of its image. */
function textIn(document: unknown, rankFields: readonly string[]): string | undefined {
  if (typeof document === 'string') return document
  if (!isObject(document)) return undefined
  const presentFields = rankFields.filter(name => (member(document, name) ?? null) !== null)
  if (presentFields.length > 0)
    return presentFields.map(name => `${name}: ${wordsOf(member(document, name))}`).join('\n')
  const text = member(document, 'text') ?? member(document, 'image')
  return typeof text === 'string' ? text : undefined
}

const wordsOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

/** All documents as texts, for servers that accept nothing else; undefined if one of them is not text. */
export function plainDocuments({ documents, texts }: RerankAsk): readonly string[] | undefined {
  const isText = (each: string | JsonObject, index: number) =>
    typeof each === 'string' || member(each, 'image') !== texts[index]
  return documents.some(isObject) && documents.every(isText) ? texts : undefined
}

/** An upper bound of the searches that any vendor counts for these documents. */
export const searchesBound = ({ query, texts }: RerankAsk): number => {
  const room = Math.max(LEAST_PIECE, BYTES_PER_PIECE - Buffer.byteLength(query))
  const piecesOf = (text: string) => Math.max(1, Math.ceil(Buffer.byteLength(text) / room))
  const pieces = texts.reduce((sum, each) => sum + piecesOf(each), 0)
  return Math.ceil(pieces / DOCUMENTS_PER_SEARCH)
}

/** The searches of a request whose vendor reports none: it may not split long documents. */
export const countedSearches = ({ texts }: Pick<RerankAsk, 'texts'>): number =>
  Math.ceil(texts.length / DOCUMENTS_PER_SEARCH)

const numberIn = (value: unknown, name: string): number | undefined => {
  const entry = member(value, name)
  return typeof entry === 'number' && Number.isInteger(entry) && entry >= 0 && entry <= 1e12
    ? entry
    : undefined
}

/** The list of results, in any of the shapes that rerankers share. */
export function readRanked(list: unknown, score = 'relevance_score'): Ranked[] {
  if (!Array.isArray(list)) throw new AnswerError('the response has no list of results')
  return list.map(each => {
    const index = numberIn(each, 'index')
    const value = member(each, score) ?? member(each, 'score')
    if (index === undefined || typeof value !== 'number')
      throw new AnswerError('a result has no index or no score')
    return { index, score: value }
  })
}

/** The format of Cohere, which Jina, vLLM, SiliconFlow and most others share. */
export function readCommonRanking(answer: unknown): RerankAnswer {
  if (member(answer, 'error')) throw new AnswerError('the response is an error')
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
    vendorCost: vendorCostIn(usage),
  }
}

/** The results sorted and truncated, with the client's own documents on request (docs/reference/relay-api.md: Rerank). */
export function writeRanking(answer: RerankAnswer, ask: RerankAsk, newId: () => string) {
  const { documents, texts, topN = documents.length, returnDocuments } = ask
  const indexes = new Set<number>()
  for (const { index } of answer.ranked) {
    if (index >= documents.length || indexes.has(index))
      throw new AnswerError('a result has the index of no document, or the same index as another result')
    indexes.add(index)
  }
  if (answer.ranked.length < Math.min(topN, documents.length))
    throw new AnswerError('the response has fewer results than documents')
  const results = answer.ranked
    .toSorted((a, b) => b.score - a.score || a.index - b.index)
    .slice(0, topN)
    .map(({ index, score }) => ({
      index,
      relevance_score: score,
      ...(returnDocuments && { document: returnedDocument(documents[index] ?? '', texts[index] ?? '') }),
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
        ...(searches === undefined && tokens === undefined ? { search_units: countedSearches(ask) } : {}),
        ...(searches !== undefined ? { search_units: searches } : {}),
      },
    },
    ...(tokens === undefined ? {} : { usage: { prompt_tokens: tokens, total_tokens: tokens } }),
  }
}

/** The client's document, always with `text` (docs/reference/relay-api.md: Rerank). */
const returnedDocument = (document: string | JsonObject, text: string): JsonObject =>
  typeof document === 'string' ? { text } : { text, ...document }

/** A price may charge by searches or by tokens, whatever the vendor bills: what it does not report is counted. */
export function rankingUsage(
  { tokens, searches, vendorCost }: RerankAnswer,
  counted: Usage,
): Usage | undefined {
  if (tokens === undefined && searches === undefined) return undefined
  const counts = { ...counted, input: tokens ?? counted.input, searches: searches ?? counted.searches }
  return vendorCost === undefined ? counts : { ...counts, vendorCost }
}
