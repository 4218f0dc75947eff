const CR = 0x0d
const LF = 0x0a
const ZERO = 0x30
const LINE_END_BYTES = 2
/** Up to 256 MiB. A longer size is one of those that llhttp reads. */
const MAX_SIZE_DIGITS = 7
/** `0`, the end of its line, and the empty line. */
const LAST_CHUNK = Buffer.from('0\r\n\r\n')

/** What ends the content of a response: its length, its last chunk, or the connection. `llhttp`: chunked, and llhttp reads the rest. */
export type ContentFraming = 'length' | 'chunked' | 'connection' | 'llhttp'

/** The content of a response, as far as it has been read. */
export type ContentState = {
  framing: ContentFraming | undefined
  /** Content that is missing; of a chunk, with the end of the line after it. 0 between chunks. */
  missingBytes: number
  /** The content within the bytes of the last read. */
  contentStart: number
  contentEnd: number
  isComplete: boolean
  fault: string | undefined
}

/** Adds content to that of the same read, which is moved together. */
export function addContent(state: ContentState, bytes: Buffer, start: number, length: number): void {
  if (state.contentEnd === 0) {
    state.contentStart = start
    state.contentEnd = start
  } else bytes.copyWithin(state.contentEnd, start, start + length)
  state.contentEnd += length
}

function hexDigit(code: number | undefined): number {
  if (code === undefined) return -1
  if (code >= ZERO && code <= 0x39) return code - ZERO
  const letter = code | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1
}

/** Takes what is there of a chunk's content and of the end of the line after it. Returns where the rest begins. */
function readChunkRest(state: ContentState, bytes: Buffer, start: number, end: number): number {
  const contentBytes = Math.min(state.missingBytes - LINE_END_BYTES, end - start)
  let at = start
  if (contentBytes > 0) {
    addContent(state, bytes, start, contentBytes)
    state.missingBytes -= contentBytes
    at += contentBytes
  }
  for (; at < end && state.missingBytes > 0 && state.missingBytes <= LINE_END_BYTES; at++) {
    if (bytes[at] !== (state.missingBytes === LINE_END_BYTES ? CR : LF)) {
      state.fault = 'a chunk without a line end'
      return end
    }
    state.missingBytes -= 1
  }
  return at
}

/**
 * Reads chunks in their plain spelling. Everything else is left to llhttp, which has read nothing since the head: extensions, trailers, and
 * lines that arrive in several pieces. Returns where that begins, or the end.
 */
function readChunks(state: ContentState, bytes: Buffer, start: number, end: number): number {
  let at = start
  while (at < end) {
    if (state.missingBytes > 0) {
      at = readChunkRest(state, bytes, at, end)
      continue
    }
    let size = 0
    let digits = 0
    for (
      let digit = hexDigit(bytes[at]);
      digit >= 0 && digits <= MAX_SIZE_DIGITS;
      digit = hexDigit(bytes[at + digits])
    ) {
      size = size * 16 + digit
      digits += 1
    }
    const lineEnd = at + digits
    const isPlain = digits > 0 && digits <= MAX_SIZE_DIGITS && lineEnd + LINE_END_BYTES <= end
    if (!isPlain || bytes[lineEnd] !== CR || bytes[lineEnd + 1] !== LF) return at
    if (size === 0) {
      const lastEnd = at + LAST_CHUNK.length
      if (lastEnd > end || bytes.compare(LAST_CHUNK, 0, LAST_CHUNK.length, at, lastEnd) !== 0) return at
      state.isComplete = true
      return lastEnd
    }
    state.missingBytes = size + LINE_END_BYTES
    at = lineEnd + LINE_END_BYTES
  }
  return at
}

/** Reads content from `start` on. Returns where it ends, or where llhttp must read on. */
export function readContent(state: ContentState, bytes: Buffer, start: number, end: number): number {
  if (state.framing === 'chunked') return readChunks(state, bytes, start, end)
  const length = state.framing === 'length' ? Math.min(state.missingBytes, end - start) : end - start
  if (length > 0) addContent(state, bytes, start, length)
  if (state.framing === 'length') {
    state.missingBytes -= length
    state.isComplete = state.missingBytes === 0
  }
  return start + length
}
