import { COLON, CR, LF, SPACE } from './ascii.ts'
import type { Stage } from './stage.ts'

/** A stream of events exceeds a limit and is not read any further. */
export class SseError extends Error {
  readonly code: 'line_too_long' | 'event_too_long'

  constructor(code: SseError['code'], message: string) {
    super(message)
    this.name = 'SseError'
    this.code = code
  }
}

/**
 * The bytes of one event, including the blank line that ends it, or of a comment or an extra blank line between events,
 * which has no data. The concatenated frames of a stream are the stream.
 */
export type SseFrame = {
  /** The frame is the bytes [start, end) of `source`, which it shares with its neighbours. */
  readonly source: Buffer
  readonly start: number
  readonly end: number
  /** The event's name; empty if it has none. */
  readonly event: string
  /** The offsets of its data in `source`: a start and an end for each `data` line. */
  readonly data: readonly number[]
  /** False only for an incomplete event at the end of the stream, without a blank line. */
  readonly isWhole: boolean
}

export type SseLimits = { readonly maxLineBytes: number; readonly maxEventBytes: number }

const LIMITS: SseLimits = { maxLineBytes: 2 ** 20, maxEventBytes: 4 * 2 ** 20 }

const DATA = Buffer.from('data')
const EVENT = Buffer.from('event')
const BYTE_ORDER_MARK = Buffer.from('\ufeff')
const NOT_FOUND = Number.POSITIVE_INFINITY
const NO_DATA: readonly number[] = []
const EMPTY: Buffer = Buffer.alloc(0)

/**
 * Splits a stream of server-sent events into frames, independent of chunk boundaries. A chunk of whole frames, the usual
 * case, is not copied. An incomplete frame is buffered, because neither the gateway nor a client can use a part of an event.
 * Complete frames are returned at once, including a comment before an event.
 */
export function createSseScanner(limits: Partial<SseLimits> = {}): Stage<Buffer, SseFrame> {
  const { maxLineBytes, maxEventBytes } = { ...LIMITS, ...limits }
  let pending = EMPTY
  let pendingLength = 0
  let failure: SseError | undefined

  // The pending bytes with the chunk just pushed, and offsets into them.
  let source = EMPTY
  let frameStart = 0
  let lineStart = 0
  let searchFrom = 0

  let event = ''
  let data: number[] | undefined
  let hasFields = false
  let isFirstLine = true
  let lastLineEndedByCr = false

  return {
    push(chunk) {
      if (failure !== undefined) throw failure
      source = pendingLength === 0 ? chunk : appendPending(chunk)
      const frames: SseFrame[] = []
      scan(frames, false)
      if (failure !== undefined && frames.length === 0) throw failure
      retainPending()
      // Release the chunk: it must not stay in memory until the next one arrives.
      source = EMPTY
      return frames
    },

    end() {
      if (failure !== undefined) throw failure
      source = pending.subarray(0, pendingLength)
      const frames: SseFrame[] = []
      scan(frames, true)
      if (lineStart < source.length) scanLine(frames, source.length, source.length)
      if (frameStart < source.length) emitFrame(frames, source.length, false)
      reset()
      return frames
    },
  }

  function scan(frames: SseFrame[], isEnd: boolean): void {
    let lf = find(LF, searchFrom)
    let cr = find(CR, searchFrom)
    for (;;) {
      const end = Math.min(lf, cr)
      if (end === NOT_FOUND) break
      let next = end + 1
      let isLoneCr = false
      if (end === cr) {
        // If the previous line ended in CR alone, a blank line does too. Otherwise the CR may be the first half of a CRLF.
        const isSurelyLone = end === lineStart && lastLineEndedByCr
        if (!isSurelyLone && next === source.length && !isEnd) break
        if (!isSurelyLone && source[next] === LF) next += 1
        else isLoneCr = true
      }
      scanLine(frames, end, next)
      if (failure !== undefined) return
      lastLineEndedByCr = isLoneCr
      lineStart = next
      if (lf < next) lf = find(LF, next)
      if (cr < next) cr = find(CR, next)
    }
    searchFrom = cr === NOT_FOUND ? source.length : cr
    checkLength(searchFrom)
  }

  function find(byte: number, from: number): number {
    const at = source.indexOf(byte, from)
    return at === -1 ? NOT_FOUND : at
  }

  /** Handles the line [lineStart, end). The next line begins at `next`. */
  function scanLine(frames: SseFrame[], end: number, next: number): void {
    checkLength(end)
    if (failure !== undefined) return
    const hasMark = isFirstLine && beginsWith(BYTE_ORDER_MARK, lineStart, end)
    isFirstLine = false
    const start = hasMark ? lineStart + BYTE_ORDER_MARK.length : lineStart
    if (start === end) {
      emitFrame(frames, next, true)
      return
    }
    if (source[start] === COLON) {
      // A comment between events is a frame of its own; inside an event it stays part of the event's frame.
      if (!hasFields) emitFrame(frames, next, true)
      return
    }
    hasFields = true
    if (isField(DATA, start, end)) {
      data ??= []
      data.push(valueStart(start + DATA.length, end), end)
    } else if (isField(EVENT, start, end)) {
      event = source.toString('utf8', valueStart(start + EVENT.length, end), end)
    }
  }

  function emitFrame(frames: SseFrame[], end: number, isWhole: boolean): void {
    frames.push({ source, start: frameStart, end, event, data: data ?? NO_DATA, isWhole })
    frameStart = end
    event = ''
    data = undefined
    hasFields = false
  }

  function isField(name: Buffer, start: number, end: number): boolean {
    if (!beginsWith(name, start, end)) return false
    const after = start + name.length
    return after === end || source[after] === COLON
  }

  function beginsWith(bytes: Buffer, start: number, end: number): boolean {
    if (end - start < bytes.length) return false
    for (let i = 0; i < bytes.length; i++) if (source[start + i] !== bytes[i]) return false
    return true
  }

  /** The offset after the colon and one optional space. */
  function valueStart(nameEnd: number, end: number): number {
    if (nameEnd === end) return end
    return source[nameEnd + 1] === SPACE && nameEnd + 1 < end ? nameEnd + 2 : nameEnd + 1
  }

  function checkLength(end: number): void {
    if (end - lineStart > maxLineBytes) {
      failure = new SseError(
        'line_too_long',
        `A line in the provider’s stream is longer than ${maxLineBytes} bytes.`,
      )
    } else if (end - frameStart > maxEventBytes) {
      failure = new SseError(
        'event_too_long',
        `An event in the provider’s stream is longer than ${maxEventBytes} bytes.`,
      )
    }
  }

  function appendPending(chunk: Buffer): Buffer {
    const length = pendingLength + chunk.length
    if (length > pending.length) {
      // The size doubles, so that a stream of single bytes is not copied for each byte.
      const larger = Buffer.allocUnsafeSlow(Math.max(length, 2 * pending.length))
      pending.copy(larger, 0, 0, pendingLength)
      pending = larger
    }
    chunk.copy(pending, pendingLength)
    pendingLength = length
    return pending.subarray(0, length)
  }

  /** Copies the incomplete frame, unless its bytes are in the scanner's own buffer. Returned frames still use the chunk. */
  function retainPending(): void {
    const rest = source.length - frameStart
    if (rest === 0 || failure !== undefined) {
      reset()
      return
    }
    if (pendingLength > 0 && frameStart === 0) return
    // Not from Node's buffer pool: a few pending bytes would keep a whole block of the pool in memory.
    pending = Buffer.allocUnsafeSlow(Math.max(256, 2 * rest))
    pendingLength = source.copy(pending, 0, frameStart)
    lineStart -= frameStart
    searchFrom -= frameStart
    data = data?.map(offset => offset - frameStart)
    frameStart = 0
  }

  function reset(): void {
    pending = EMPTY
    pendingLength = 0
    frameStart = 0
    lineStart = 0
    searchFrom = 0
  }
}

/** The data of an event as text; several `data` lines are joined by line feeds, as the standard requires. */
export function dataText({ source, data }: SseFrame): string {
  let text = ''
  for (let i = 0; i < data.length; i += 2) {
    if (i > 0) text += '\n'
    text += source.toString('utf8', data[i], data[i + 1])
  }
  return text
}
