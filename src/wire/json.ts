import { isAscii } from 'node:buffer'
import { CLOSE_ARRAY, CLOSE_OBJECT, COLON, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './ascii.ts'
import { closingQuote } from './json-text.ts'

/** Why bytes are not JSON that the gateway accepts. */
export class JsonError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'JsonError'
  }
}

export const MAX_DEPTH = 128

/**
 * Deep nesting stalls a parser, so the depth is measured on the bytes before they are parsed. Member names are counted in
 * the same pass: a parsed value with fewer names had a repeated one.
 */
function measure(bytes: Buffer): { readonly deepest: number; readonly names: number } {
  let depth = 0
  let deepest = 0
  let names = 0
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number
    if (byte === QUOTE) i = closingQuote(bytes, i + 1)
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      depth += 1
      if (depth > deepest) deepest = depth
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth -= 1
    else if (byte === COLON) names += 1
  }
  return { deepest, names }
}

/** V8's message quotes the input, which may contain a secret: only the reason and the position are returned. */
const reasonOf = (error: unknown) => (error as Error).message.replace(/(^|, )(\.\.\.)?".*$/s, '')

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Most bodies are plain ASCII, which needs no decoding. */
const textOf = (bytes: Buffer) => (isAscii(bytes) ? bytes.toString('latin1') : utf8.decode(bytes))

/** Parses JSON. Throws a JsonError for invalid UTF-8, invalid JSON or too deep nesting. */
export const parseJson = (bytes: Buffer): unknown => parseCounted(bytes).value

/** Parses JSON and counts the member names in the text. */
export function parseCounted(bytes: Buffer): { readonly value: unknown; readonly names: number } {
  const { deepest, names } = measure(bytes)
  if (deepest > MAX_DEPTH) throw new JsonError(`is nested deeper than ${MAX_DEPTH} levels`)
  return { value: parseMeasured(bytes), names }
}

/** Parses JSON whose nesting depth has been checked already. */
export function parseMeasured(bytes: Buffer): unknown {
  let text: string
  try {
    text = textOf(bytes)
  } catch {
    throw new JsonError('is not valid UTF-8')
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    const reason = reasonOf(error)
    throw new JsonError(`is not valid JSON${reason === '' ? '' : ` (${reason})`}`)
  }
}
