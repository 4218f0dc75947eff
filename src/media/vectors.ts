import { setImmediate } from 'node:timers/promises'
import { isObject, type JsonObject, member } from '../domain/json-value.ts'

/** The encoding of an embedding: a list of numbers, or base64 of little-endian 32-bit floats. */
export const ENCODINGS = ['float', 'base64'] as const
export type Encoding = (typeof ENCODINGS)[number]

const FLOAT_BYTES = 4

export function base64FromFloats(values: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(values.length * FLOAT_BYTES)
  for (const [index, value] of values.entries()) bytes.writeFloatLE(value, index * FLOAT_BYTES)
  return bytes.toString('base64')
}

/** Undefined if the text is not base64 of complete floats. */
export function floatsFromBase64(text: string): number[] | undefined {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length % FLOAT_BYTES !== 0 || bytes.toString('base64') !== text) return undefined
  return Array.from({ length: bytes.length / FLOAT_BYTES }, (_, index) =>
    bytes.readFloatLE(index * FLOAT_BYTES),
  )
}

/**
 * Converts embeddings to the encoding that the client requested. An upstream may support one encoding only, and a client
 * that requested base64 would misread a list. Returns the same object if nothing had to change. An embedding in neither
 * encoding stays as it is.
 */
export function encodeEmbeddings(answer: JsonObject, encoding: Encoding): JsonObject {
  const data = member(answer, 'data')
  if (!Array.isArray(data)) return answer
  return withData(
    answer,
    data,
    data.map(entry => encodeEntry(entry, encoding)),
  )
}

/** The number of entries that are encoded per turn of the event loop. */
const ENTRIES_AT_ONCE = 16

/** The same for a large answer, in slices that do not block the event loop. */
export async function encodeEmbeddingsInSlices(answer: JsonObject, encoding: Encoding): Promise<JsonObject> {
  const data = member(answer, 'data')
  if (!Array.isArray(data)) return answer
  const encoded: unknown[] = []
  for (const entry of data) {
    encoded.push(encodeEntry(entry, encoding))
    if (encoded.length % ENTRIES_AT_ONCE === 0) await setImmediate()
  }
  return withData(answer, data, encoded)
}

const withData = (answer: JsonObject, data: readonly unknown[], encoded: readonly unknown[]): JsonObject =>
  encoded.every((entry, index) => entry === data[index]) ? answer : { ...answer, data: encoded }

function encodeEntry(entry: unknown, encoding: Encoding): unknown {
  const embedding = member(entry, 'embedding')
  const changed = encoding === 'base64' ? toBase64(embedding) : toFloats(embedding)
  return isObject(entry) && changed !== undefined ? { ...entry, embedding: changed } : entry
}

const EMBEDDING = '"embedding"'
const VALUE_BEGIN = /^\s*:\s*(["[])/
/** The first embedding is expected within this many bytes. */
const LOOK_BYTES = 65_536

/** Whether the first embedding of a large answer has another encoding; all of them have the same. */
export function isEncodedOtherwise(body: Buffer, encoding: Encoding): boolean {
  const head = body.toString('latin1', 0, LOOK_BYTES)
  for (let at = head.indexOf(EMBEDDING); at !== -1; at = head.indexOf(EMBEDDING, at + 1)) {
    const after = at + EMBEDDING.length
    const [, begin] = VALUE_BEGIN.exec(head.slice(after, after + 16)) ?? []
    if (begin !== undefined) return begin === (encoding === 'base64' ? '[' : '"')
  }
  return true
}

const toBase64 = (embedding: unknown): string | undefined =>
  Array.isArray(embedding) && embedding.every(value => typeof value === 'number')
    ? base64FromFloats(embedding)
    : undefined

const toFloats = (embedding: unknown): number[] | undefined =>
  typeof embedding === 'string' ? floatsFromBase64(embedding) : undefined
