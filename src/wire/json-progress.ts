import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, OPEN_ARRAY, OPEN_OBJECT, QUOTE, SPACE } from './ascii.ts'

/** Tracks whether a JSON value that arrives in pieces is complete, without reading a piece twice. */
export type JsonProgress = {
  push(text: string): void
  /** Whether every open bracket and quote has been closed. The content between them is not checked. */
  isWhole(): boolean
}

/** Longer strings are searched with `indexOf`, which has a high fixed cost and a low cost per character. */
const SHORT_TEXT = 64

export function createJsonProgress(): JsonProgress {
  let depth = 0
  let isInText = false
  let isEscaped = false
  let hasContent = false

  function scanUnit(unit: number): void {
    if (isEscaped) isEscaped = false
    else if (unit === BACKSLASH) isEscaped = true
    else if (unit === QUOTE) isInText = false
  }

  /** Scans a string up to its closing quote or the end of the piece; returns the index of that position. */
  function scanText(text: string, from: number): number {
    let i = from
    const short = Math.min(text.length, from + SHORT_TEXT)
    for (; i < short && isInText; i++) scanUnit(text.charCodeAt(i))
    if (!isInText || isEscaped || i === text.length) return i
    const quote = text.indexOf('"', i)
    const end = quote === -1 ? text.length : quote
    let slashes = end
    while (slashes > i && text.charCodeAt(slashes - 1) === BACKSLASH) slashes -= 1
    isEscaped = (end - slashes) % 2 === 1
    return end
  }

  return {
    push(text) {
      for (let i = 0; i < text.length; ) {
        if (isInText) {
          i = scanText(text, i)
          continue
        }
        const unit = text.charCodeAt(i)
        if (unit === QUOTE) isInText = true
        else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY) depth += 1
        else if (unit === CLOSE_OBJECT || unit === CLOSE_ARRAY) depth -= 1
        if (unit > SPACE) hasContent = true
        i += 1
      }
    },
    isWhole: () => hasContent && !isInText && depth === 0,
  }
}
