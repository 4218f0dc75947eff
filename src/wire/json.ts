import { isAscii } from 'node:buffer'

/** Bytes that are no JSON we take, and why. */
export class JsonError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'JsonError'
  }
}

export const MAX_DEPTH = 128
const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPEN_ARRAY = 0x5b
const CLOSE_ARRAY = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

/** Deep nesting stalls whoever parses it, so it is measured on the bytes, before. */
function depthOf(bytes: Buffer): number {
  let depth = 0
  let deepest = 0
  let inText = false
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number
    if (inText) {
      if (byte === BACKSLASH) i += 1
      else if (byte === QUOTE) inText = false
    } else if (byte === QUOTE) inText = true
    else if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
      depth += 1
      if (depth > deepest) deepest = depth
    } else if (byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) depth -= 1
  }
  return deepest
}

/** The engine quotes what it stumbles over, and that may be a secret: only the reason and the place are told. */
const reasonOf = (error: unknown) => (error as Error).message.replace(/(^|, )(\.\.\.)?".*$/s, '')

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Most bodies are plain ASCII, which needs no decoding. */
const textOf = (bytes: Buffer) => (isAscii(bytes) ? bytes.toString('latin1') : utf8.decode(bytes))

/** Parses a whole JSON text, refusing bad UTF-8 and absurd nesting with a sentence that says so. */
export function parseJson(bytes: Buffer): unknown {
  if (depthOf(bytes) > MAX_DEPTH) throw new JsonError(`is nested deeper than ${MAX_DEPTH} levels`)
  return parseMeasured(bytes)
}

/** The same for bytes whose nesting has been looked at already. */
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
