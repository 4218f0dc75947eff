import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from './ascii.ts'
import { JsonError, MAX_DEPTH } from './json.ts'
import { createJsonScanner, type ScanLimits } from './json-scan.ts'

/** Up to this length only deep nesting makes a parser slow. */
const SHORT_LENGTH = 64 * 1024
/** The longest text that is parsed in one go; a longer document is parsed in slices (json-slices.ts). */
export const MAX_PARSED_LENGTH = 2 * 1_048_576
/** Stricter than for whole documents: this is parsed in one go, between two events of a stream. */
const LIMITS: ScanLimits = { names: 2_000, texts: 50_000, values: 100_000, otherBytes: MAX_PARSED_LENGTH }

/** Whether brackets are nested deeper than the limit. */
function isTooDeep(text: string): boolean {
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit === QUOTE) i = closingQuote(text, i + 1)
    else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY) {
      depth += 1
      if (depth > MAX_DEPTH) return true
    } else if (unit === CLOSE_OBJECT || unit === CLOSE_ARRAY) depth -= 1
  }
  return false
}

function closingQuote(text: string, from: number): number {
  let i = from
  for (; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit === BACKSLASH) i += 1
    else if (unit === QUOTE) break
  }
  return i
}

/**
 * Parses JSON that a provider or a client wrote, in one go: an event of a stream, an error, the arguments of a tool call. Throws a
 * JsonError for invalid JSON, and, before parsing, for JSON that would stall the parser.
 */
export function parseBounded(text: string): unknown {
  if (text.length > MAX_PARSED_LENGTH) throw new JsonError(`is longer than ${MAX_PARSED_LENGTH} characters`)
  if (text.length > SHORT_LENGTH) {
    const scanner = createJsonScanner({ limits: LIMITS })
    scanner.push(Buffer.from(text))
    scanner.end()
  } else if (isTooDeep(text)) throw new JsonError(`is nested deeper than ${MAX_DEPTH} levels`)
  try {
    return JSON.parse(text)
  } catch {
    throw new JsonError('is not valid JSON')
  }
}

/** The same, with undefined in place of a JsonError. */
export function parsedOrNothing(text: string): unknown {
  try {
    return parseBounded(text)
  } catch (error) {
    if (error instanceof JsonError) return undefined
    throw error
  }
}
