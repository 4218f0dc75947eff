import { invalidField } from '../../domain/errors.ts'
import { JsonError, parseJson } from '../../wire/json.ts'

const MAX_DEPTH = 32

type Options = { readonly path: string; readonly bytes: number }

/** An object, sent as such or as JSON text. An empty text is an empty object. */
export function readObject(
  input: string | Readonly<Record<string, unknown>>,
  { path, bytes }: Options,
): Readonly<Record<string, unknown>> {
  const value = typeof input === 'string' ? parseText(input, { path, bytes }) : input
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalidField(path, 'must be an object, or the JSON text of one')
  if (!isWithin(value, MAX_DEPTH))
    throw invalidField(path, `must not be nested deeper than ${MAX_DEPTH} levels`)
  if (Buffer.byteLength(JSON.stringify(value)) > bytes)
    throw invalidField(path, `must have at most ${bytes / 1024} KiB`)
  return value as Readonly<Record<string, unknown>>
}

function parseText(text: string, { path, bytes }: Options): unknown {
  if (text.trim() === '') return {}
  // White space does not count towards the limit, but is bounded too.
  if (text.length > bytes * 4) throw invalidField(path, `must have at most ${bytes / 1024} KiB`)
  try {
    return parseJson(Buffer.from(text)) ?? {}
  } catch (error) {
    if (error instanceof JsonError) throw invalidField(path, error.message)
    throw error
  }
}

/** The size of a body is limited when it is parsed, so this recursion is bounded. */
function isWithin(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  return depth > 0 && Object.values(value).every(inner => isWithin(inner, depth - 1))
}
