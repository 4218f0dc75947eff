import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, OPEN_ARRAY, OPEN_OBJECT, QUOTE, SPACE } from './ascii.ts'

/** Tracks whether a JSON value that arrives in pieces is complete, without reading a piece twice. */
export type JsonProgress = {
  push(text: string): void
  /** Whether every open bracket and quote has been closed. The content between them is not checked. */
  isWhole(): boolean
}

export function createJsonProgress(): JsonProgress {
  let depth = 0
  let isInText = false
  let isEscaped = false
  let hasBegun = false

  function passText(unit: number): void {
    if (isEscaped) isEscaped = false
    else if (unit === BACKSLASH) isEscaped = true
    else if (unit === QUOTE) isInText = false
  }

  return {
    push(text) {
      for (let i = 0; i < text.length; i++) {
        const unit = text.charCodeAt(i)
        if (isInText) passText(unit)
        else if (unit === QUOTE) isInText = true
        else if (unit === OPEN_OBJECT || unit === OPEN_ARRAY) depth += 1
        else if (unit === CLOSE_OBJECT || unit === CLOSE_ARRAY) depth -= 1
        if (unit > SPACE) hasBegun = true
      }
    },
    isWhole: () => hasBegun && !isInText && depth === 0,
  }
}
