import { compact, decoding, type Fields, strictFields } from '../fields.ts'
import type { Address } from '../format.ts'
import type { Warning } from '../hub.ts'
import { modelIn } from '../model-name.ts'
import type { RequestFault } from '../openai/request-fields.ts'
import { type JsonObject, member } from '../openai/value.ts'
import { createWarnings, type Warnings } from '../warnings.ts'
import { FORMAT } from './content.ts'
import { canonical } from './names.ts'

/** What is asked of a model that makes vectors, in any format. */
export type EmbeddingRequest = {
  readonly model: string
  readonly inputs: readonly string[]
  readonly dimensions?: number
}

export type DecodedEmbedding =
  | {
      readonly request: EmbeddingRequest
      /** Asked by `batchEmbedContents`: the answer is a list. */
      readonly isBatch: boolean
      /** What other vendors have no word for. */
      readonly warnings: readonly Warning[]
    }
  | { readonly fault: RequestFault }

/** The body of `embedContent`, or of `batchEmbedContents`, which holds several of them. */
export function decodeEmbedding(body: unknown, address: Address = {}): DecodedEmbedding {
  const warnings = createWarnings(FORMAT)
  const decoded = decoding(() => decode(strictFields(canonical(body), ''), address, warnings))
  return 'fault' in decoded ? decoded : { ...decoded.request, warnings: warnings.list() }
}

function decode(body: Fields, address: Address, warnings: Warnings) {
  const isBatch = member(body.value, 'requests') !== undefined
  const asked = isBatch ? body.each('requests') : [body]
  if (asked.length === 0) body.refuse('requests', 'must be a list of at least one request')
  const dimensions = new Set(asked.map(each => each.count('outputDimensionality')))
  if (dimensions.size > 1) body.refuse('requests', 'must all ask for vectors of one length')
  const [length] = dimensions
  const request = compact<EmbeddingRequest>({
    model: modelIn(body, address.model),
    inputs: asked.map(each => textOf(each)),
    dimensions: length,
  })
  for (const name of ['taskType', 'title']) {
    if (asked.some(each => each.text(name) !== undefined)) {
      warnings.lost(name, 'has no counterpart and was left out')
    }
  }
  return { request, isBatch }
}

function textOf(asked: Fields): string {
  const content = asked.needFields('content')
  if (content.needList('parts').length === 0) content.refuse('parts', 'must be a list of at least one part')
  return content
    .each('parts')
    .map(part => part.needText('text'))
    .join('\n')
}

type Vector = readonly number[]

/** Vectors as the client asked for them: one, or a list. */
export const encodeVectors = (vectors: readonly Vector[], isBatch: boolean): JsonObject => {
  const embeddings = vectors.map(values => ({ values }))
  return isBatch ? { embeddings } : { embedding: embeddings[0] ?? { values: [] } }
}

/** The body of `batchEmbedContents`; every entry names the model again. */
export const encodeEmbedding = ({ model, inputs, dimensions }: EmbeddingRequest): JsonObject => ({
  requests: inputs.map(text => ({
    model: `models/${model}`,
    content: { parts: [{ text }] },
    ...(dimensions !== undefined && { outputDimensionality: dimensions }),
  })),
})

/**
 * The vectors of an answer to it; undefined where it has none. The vendor does not bring shortened ones back to the length
 * of 1 that clients of other formats rely on.
 */
export function decodeVectors(body: unknown, { dimensions }: Pick<EmbeddingRequest, 'dimensions'>) {
  const embeddings = member(body, 'embeddings')
  if (!Array.isArray(embeddings)) return undefined
  const vectors = embeddings.map(each => member(each, 'values'))
  if (!vectors.every(isVector)) return undefined
  return dimensions === undefined ? vectors : vectors.map(normalised)
}

const isVector = (value: unknown): value is Vector =>
  Array.isArray(value) && value.every(each => typeof each === 'number')

function normalised(vector: Vector): Vector {
  const length = Math.hypot(...vector)
  return length === 0 ? vector : vector.map(value => value / length)
}
