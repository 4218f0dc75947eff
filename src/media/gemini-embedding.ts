import { FORMAT } from '../chat/gemini/content.ts'
import { canonical } from '../chat/gemini/names.ts'
import { compact, decoding, type FieldReader, strictFields } from '../chat/hub/fields.ts'
import { modelIn } from '../chat/hub/model-name.ts'
import { createWarnings, type Warnings } from '../chat/hub/warnings.ts'
import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import type { Warning } from '../domain/warning.ts'
import type { RequestAddress, RequestFault } from '../requests/request-fields.ts'
import {
  countIn,
  type EmbeddingAsk,
  type EmbeddingDialect,
  normalised,
  unsupportedFields,
  type Vector,
  vectorsIn,
} from './embedding.ts'

type DecodedEmbedding =
  | {
      readonly request: EmbeddingAsk
      /** The method is `batchEmbedContents`: the answer is a list. */
      readonly isBatch: boolean
      /** Warnings about fields that other vendors do not support. */
      readonly warnings: readonly Warning[]
    }
  | { readonly fault: RequestFault }

/** Decodes the body of `embedContent`, or of `batchEmbedContents`, which contains several of them. */
export function decodeEmbedding(body: unknown, address: RequestAddress = {}): DecodedEmbedding {
  const warnings = createWarnings(FORMAT)
  const decoded = decoding(() => decode(strictFields(canonical(body), ''), address, warnings))
  return 'fault' in decoded ? decoded : { ...decoded.request, warnings: warnings.list() }
}

function decode(body: FieldReader, address: RequestAddress, warnings: Warnings) {
  const isBatch = member(body.value, 'requests') !== undefined
  const entries = isBatch ? body.each('requests') : [body]
  if (entries.length === 0) body.refuse('requests', 'must be a list of at least one request')
  const dimensions = new Set(entries.map(each => each.count('outputDimensionality')))
  if (dimensions.size > 1) body.refuse('requests', 'must all have the same output dimensionality')
  const [length] = dimensions
  const request = compact<EmbeddingAsk>({
    model: modelIn(body, address.model),
    inputs: entries.map(each => textOf(each)),
    dimensions: length,
  })
  for (const name of new Set(entries.flatMap(otherFields))) warnings.unsupported(name)
  return { request, isBatch }
}

/** The fields beside the text. Every entry of a batch repeats the model. */
const otherFields = (entry: FieldReader): readonly string[] => {
  entry.any('model')
  const rest = entry.rest() ?? {}
  return Object.keys(rest).filter(name => rest[name] !== null)
}

function textOf(entry: FieldReader): string {
  const content = entry.needFields('content')
  if (content.needList('parts').length === 0) content.refuse('parts', 'must be a list of at least one part')
  return content
    .each('parts')
    .map(part => part.needText('text'))
    .join('\n')
}

/** Encodes vectors for the client: one, or a list. */
export const encodeVectors = (vectors: readonly Vector[], isBatch: boolean): JsonObject => {
  const embeddings = vectors.map(values => ({ values }))
  return isBatch ? { embeddings } : { embedding: embeddings[0] ?? { values: [] } }
}

/** `batchEmbedContents`, whose entries repeat the model. */
export const geminiEmbedding = {
  encode: (ask, model) => ({
    json: {
      requests: ask.inputs.map(text => ({
        model: `models/${model}`,
        content: { parts: [{ text }] },
        ...(ask.dimensions !== undefined && { outputDimensionality: ask.dimensions }),
      })),
    },
    warnings: unsupportedFields(ask),
  }),
  decode(answer, ask) {
    const embeddings = member(answer, 'embeddings')
    const values = Array.isArray(embeddings) ? embeddings.map(each => member(each, 'values')) : embeddings
    const vectors = vectorsIn(values, ask)
    return {
      // The vendor does not normalize shortened vectors.
      vectors: ask.dimensions === undefined ? vectors : vectors.map(normalised),
      tokens: readEmbeddingTokens(answer),
    }
  },
} satisfies EmbeddingDialect

/** Newer models report the tokens of the texts. */
export const readEmbeddingTokens = (answer: unknown): number | undefined =>
  countIn(member(answer, 'usageMetadata'), 'promptTokenCount')

/** Whether this is an answer to either method. */
export const hasVectors = (answer: unknown): boolean =>
  Array.isArray(member(answer, 'embeddings')) || Array.isArray(member(member(answer, 'embedding'), 'values'))

/** Replaces the model in a body of either method, wherever it is named. */
export function withModel(body: JsonObject, model: string): JsonObject {
  const renamed = (each: unknown) =>
    isObject(each) && each.model !== undefined ? { ...each, model: `models/${model}` } : each
  const { requests } = body
  return {
    ...(renamed(body) as JsonObject),
    ...(Array.isArray(requests) && { requests: requests.map(renamed) }),
  }
}
