import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
} from './ascii.ts'
import { JsonError, MAX_DEPTH } from './json.ts'
import { createJsonScanner, type ScanLimits } from './json-scan.ts'

/** Up to this length only deep nesting makes a parser slow. */
const SHORT_LENGTH = 64 * 1024
/** The longest text that is parsed in one go; a longer document is parsed in slices (json-slices.ts). */
export const MAX_PARSED_LENGTH = 2 * 1_048_576
/** Stricter than for whole documents: this is parsed in one go, between two events of a stream. */
const LIMITS: ScanLimits = { names: 2_000, texts: 50_000, values: 100_000, otherBytes: MAX_PARSED_LENGTH }

/** Longer strings are searched by `indexOf`, which is slow to start but fast once it runs. */
const SHORT_TEXT = 64

/** Counts that make a parser slow. `names` and `values` count every one, also those that repeat. */
function measure(text: string): {
  readonly deepest: number
  readonly names: number
  readonly values: number
} {
  let depth = 0
  let deepest = 0
  let names = 0
  let values = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit === QUOTE) i = closingQuote(text, i + 1)
    else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY) {
      depth += 1
      values += 1
      if (depth > deepest) deepest = depth
    } else if (unit === CLOSE_OBJECT || unit === CLOSE_ARRAY) depth -= 1
    else if (unit === COMMA) values += 1
    else if (unit === COLON) names += 1
  }
  return { deepest, names, values }
}

function closingQuote(text: string, from: number): number {
  let i = from
  while (i < text.length) {
    const short = Math.min(text.length, i + SHORT_TEXT)
    for (; i < short; i++) {
      const unit = text.charCodeAt(i)
      if (unit === BACKSLASH) i += 1
      else if (unit === QUOTE) return i
    }
    const quote = text.indexOf('"', i)
    if (quote === -1) return text.length
    let slashes = quote
    while (slashes > i && text.charCodeAt(slashes - 1) === BACKSLASH) slashes -= 1
    if ((quote - slashes) % 2 === 0) return quote
    i = quote + 1
  }
  return i
}

/** Whether the counts are within the limits even if every name differs. Every string is a name or follows a comma or bracket. */
const isCertainlyWithinLimits = ({ names, values }: ReturnType<typeof measure>): boolean =>
  names <= LIMITS.names && values < Math.min(LIMITS.values, LIMITS.texts)

/**
 * Parses JSON that a provider or a client wrote, in one go: an event of a stream, an error, the arguments of a tool call. Throws a
 * JsonError for invalid JSON, and, before parsing, for JSON that would stall the parser.
 */
export function parseBounded(text: string): unknown {
  if (text.length > MAX_PARSED_LENGTH) throw new JsonError(`is longer than ${MAX_PARSED_LENGTH} characters`)
  const size = measure(text)
  if (size.deepest > MAX_DEPTH) throw new JsonError(`is nested deeper than ${MAX_DEPTH} levels`)
  if (text.length > SHORT_LENGTH && !isCertainlyWithinLimits(size)) {
    const scanner = createJsonScanner({ limits: LIMITS })
    scanner.push(Buffer.from(text))
    scanner.end()
  }
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
