import { isObject, type JsonObject, member } from './value.ts'

/** How an embedding travels: as a list of numbers, or as the base64 of little-endian 32-bit floats. */
export const ENCODINGS = ['float', 'base64'] as const
export type Encoding = (typeof ENCODINGS)[number]

const FLOAT_BYTES = 4

export function base64FromFloats(values: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(values.length * FLOAT_BYTES)
  for (const [index, value] of values.entries()) bytes.writeFloatLE(value, index * FLOAT_BYTES)
  return bytes.toString('base64')
}

/** Undefined where the text is not the base64 of whole floats. */
export function floatsFromBase64(text: string): number[] | undefined {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length % FLOAT_BYTES !== 0 || bytes.toString('base64') !== text) return undefined
  return Array.from({ length: bytes.length / FLOAT_BYTES }, (_, index) =>
    bytes.readFloatLE(index * FLOAT_BYTES),
  )
}

/**
 * An answer with embeddings in the encoding that the client asked for. A client that asked for base64 makes nonsense of a
 * list without noticing, so an upstream that knows only one encoding has its answer changed here. The same object where
 * nothing had to change; an embedding that is of neither kind stays as it is.
 */
export function encodeEmbeddings(answer: JsonObject, encoding: Encoding): JsonObject {
  const data = member(answer, 'data')
  if (!Array.isArray(data)) return answer
  let hasChanged = false
  const encoded = data.map(entry => {
    const embedding = member(entry, 'embedding')
    const changed = encoding === 'base64' ? toBase64(embedding) : toFloats(embedding)
    if (!isObject(entry) || changed === undefined) return entry
    hasChanged = true
    return { ...entry, embedding: changed }
  })
  return hasChanged ? { ...answer, data: encoded } : answer
}

const toBase64 = (embedding: unknown): string | undefined =>
  Array.isArray(embedding) && embedding.every(value => typeof value === 'number')
    ? base64FromFloats(embedding)
    : undefined

const toFloats = (embedding: unknown): number[] | undefined =>
  typeof embedding === 'string' ? floatsFromBase64(embedding) : undefined
