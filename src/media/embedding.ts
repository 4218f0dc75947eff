import { type JsonObject, member } from '../domain/json-value.ts'
import { EMPTY, totalInput, type Usage } from '../domain/usage.ts'
import { vendorCostIn } from '../metering/openai-usage.ts'
import { AnswerError, type Dialect } from './dialect.ts'
import { type Encoding, encodeEmbeddings, encodeEmbeddingsInSlices, floatsFromBase64 } from './vectors.ts'

/** An embedding request in any format. */
export type EmbeddingAsk = {
  readonly model: string
  readonly inputs: readonly string[]
  readonly dimensions?: number
  /** Further fields of a request in the common format. */
  readonly rest?: JsonObject
}

export type Vector = readonly number[]

/** One vector per input, in order. */
type EmbeddingAnswer = {
  readonly vectors: readonly Vector[]
  /** Absent: the vendor does not report tokens. */
  readonly tokens?: number | undefined
  /** The cost that the vendor reports. */
  readonly vendorCost?: string | undefined
}
export type EmbeddingDialect = Dialect<EmbeddingAsk, EmbeddingAnswer>

/** Reads a request in the common format; undefined if its inputs are tokens, which only their own vendor can decode. */
export function embeddingAskOf(body: JsonObject): EmbeddingAsk | undefined {
  const { model, input, dimensions, encoding_format: _, ...rest } = body as Record<string, unknown>
  const inputs = Array.isArray(input) ? input : [input]
  if (!inputs.every(each => typeof each === 'string')) return undefined
  return { model: String(model), inputs, ...(typeof dimensions === 'number' && { dimensions }), rest }
}

/** The fields that a vendor without any further parameters cannot be sent. */
export const unsupportedFields = ({ rest = {} }: EmbeddingAsk): string[] =>
  // Vectors do not depend on the user.
  Object.keys(rest)
    .filter(name => name !== 'user')
    .map(name => `${name}: has no counterpart and was left out`)

/** Encodes a request of another format in the common one. */
export const encodeCommonEmbedding = ({ inputs, dimensions }: EmbeddingAsk, model: string): JsonObject => ({
  model,
  input: inputs,
  ...(dimensions !== undefined && { dimensions }),
  encoding_format: 'float',
})

export function readCommonVectors(answer: unknown, ask: EmbeddingAsk): EmbeddingAnswer {
  if (member(answer, 'error')) throw new AnswerError('the response is an error')
  const data = member(answer, 'data')
  if (!Array.isArray(data)) throw new AnswerError('the response has no list of vectors')
  const vectors = data.map(entry => {
    const embedding = member(entry, 'embedding')
    return typeof embedding === 'string' ? floatsFromBase64(embedding) : embedding
  })
  const usage = member(answer, 'usage')
  return {
    vectors: vectorsIn(vectors, ask),
    tokens: countIn(usage, 'prompt_tokens') ?? countIn(usage, 'total_tokens'),
    vendorCost: vendorCostIn(usage),
  }
}

/** The vectors of an answer, one per input; anything else throws. */
export function vectorsIn(list: unknown, { inputs }: EmbeddingAsk): readonly Vector[] {
  if (!Array.isArray(list) || !list.every(isVector))
    throw new AnswerError('the response has no vectors of numbers')
  if (list.length !== inputs.length)
    throw new AnswerError('the response does not have one vector for each input')
  return list
}

const isVector = (value: unknown): value is Vector =>
  Array.isArray(value) && value.length > 0 && value.every(each => typeof each === 'number')

/** A plausible count of tokens. */
export function countIn(value: unknown, name: string): number | undefined {
  const count = member(value, name)
  return Number.isSafeInteger(count) && Number(count) >= 0 ? Number(count) : undefined
}

/** Scales shortened vectors back to length 1, which clients of the common format rely on. */
export function normalised(vector: Vector): Vector {
  let squares = 0
  for (const value of vector) squares += value * value
  const length = Math.sqrt(squares)
  return length === 0 ? vector : vector.map(value => value / length)
}

type AnswerLayout = { readonly model: string; readonly encoding: Encoding; readonly usage: Usage }

/** Encodes an answer in the common format. */
export const writeVectors = (vectors: readonly Vector[], layout: AnswerLayout): JsonObject =>
  encodeEmbeddings(asList(vectors, layout), layout.encoding)

/** The same for a large answer, in slices that do not block the event loop. */
export const writeVectorsInSlices = (vectors: readonly Vector[], layout: AnswerLayout): Promise<JsonObject> =>
  encodeEmbeddingsInSlices(asList(vectors, layout), layout.encoding)

function asList(vectors: readonly Vector[], { model, usage }: AnswerLayout): JsonObject {
  const tokens = totalInput(usage)
  return {
    object: 'list',
    data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
    model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  }
}

export const embeddingUsage = ({ tokens, vendorCost }: EmbeddingAnswer): Usage | undefined =>
  tokens === undefined
    ? undefined
    : { ...EMPTY, input: tokens, calls: 1, ...(vendorCost !== undefined && { vendorCost }) }
