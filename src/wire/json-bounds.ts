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
/** The longest text that is parsed synchronously; a longer document is parsed in slices (json-slices.ts). */
export const MAX_PARSED_LENGTH = 2 * 1_048_576
/** Stricter than for whole documents, because this is parsed synchronously, between two events of a stream. */
const LIMITS: ScanLimits = { names: 2_000, texts: 50_000, values: 100_000, otherBytes: MAX_PARSED_LENGTH }

/** Longer strings are searched with `indexOf`, which has a high fixed cost and a low cost per character. */
const SHORT_TEXT = 64

/** Counts the parts that make a parser slow. Repeated names and values count each time. */
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

/** Whether the limits hold even if all names differ. Every string is a name or follows a comma or bracket. */
const isCertainlyWithinLimits = ({ names, values }: ReturnType<typeof measure>): boolean =>
  names <= LIMITS.names && values < Math.min(LIMITS.values, LIMITS.texts)

/** Whether the text has too few brackets for deep nesting. Takes a tenth of measuring a typical answer. */
function hasFewBrackets(text: string): boolean {
  let count = 0
  for (const bracket of OPENING)
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1))
      if (++count > MAX_DEPTH) return false
  return true
}

const OPENING = ['{', '['] as const

function checkSize(text: string): void {
  const size = measure(text)
  if (size.deepest > MAX_DEPTH) throw new JsonError(`is nested deeper than ${MAX_DEPTH} levels`)
  if (text.length > SHORT_LENGTH && !isCertainlyWithinLimits(size)) {
    const scanner = createJsonScanner({ limits: LIMITS })
    scanner.push(Buffer.from(text))
    scanner.end()
  }
}

/**
 * Parses untrusted JSON synchronously: an event of a stream, an error, the arguments of a tool call. Throws a JsonError
 * for invalid JSON and, before parsing, for JSON that would stall the parser.
 */
export function parseBounded(text: string): unknown {
  if (text.length > MAX_PARSED_LENGTH) throw new JsonError(`is longer than ${MAX_PARSED_LENGTH} characters`)
  if (text.length > SHORT_LENGTH || !hasFewBrackets(text)) checkSize(text)
  try {
    return JSON.parse(text)
  } catch {
    throw new JsonError('is not valid JSON')
  }
}

/** Like `parseBounded`, but returns undefined instead of throwing a JsonError. */
export function parsedOrNothing(text: string): unknown {
  try {
    return parseBounded(text)
  } catch (error) {
    if (error instanceof JsonError) return undefined
    throw error
  }
}
