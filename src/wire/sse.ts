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
const NO_FRAMES: readonly SseFrame[] = []
const EMPTY: Buffer = Buffer.alloc(0)

/**
 * Splits a stream of server-sent events into frames, independent of chunk boundaries. A chunk of whole frames, the usual
 * case, is not copied. An incomplete frame is buffered, because neither the gateway nor a client can use a part of an event.
 * Complete frames are returned at once, including a comment before an event.
 */
export function createSseScanner(limits?: Partial<SseLimits>): Stage<Buffer, SseFrame> {
  return new SseScanner(limits === undefined ? LIMITS : { ...LIMITS, ...limits })
}

/** A class, so that a stream has one object for it instead of a dozen closures (ADR 29). Arrays have one element in the usual case. */
class SseScanner implements Stage<Buffer, SseFrame> {
  readonly #limits: SseLimits
  #pending = EMPTY
  #pendingLength = 0
  #failure: SseError | undefined

  // Offsets into the pending bytes with the chunk just pushed.
  #frameStart = 0
  #lineStart = 0
  #searchFrom = 0

  #event = ''
  /** The first line of data; -1: there is none. */
  #dataStart = -1
  #dataEnd = -1
  /** All lines of data, if there are several. */
  #allData: number[] | undefined
  #hasFields = false
  #isFirstLine = true
  #lastLineEndedByCr = false

  constructor(limits: SseLimits) {
    this.#limits = limits
  }

  push(chunk: Buffer): readonly SseFrame[] {
    if (this.#failure !== undefined) throw this.#failure
    const source = this.#pendingLength === 0 ? chunk : this.#appendPending(chunk)
    const frames = this.#scan(source, false)
    if (this.#failure !== undefined && frames.length === 0) throw this.#failure
    this.#retainPending(source)
    return frames
  }

  end(): readonly SseFrame[] {
    if (this.#failure !== undefined) throw this.#failure
    const source = this.#pending.subarray(0, this.#pendingLength)
    const frames = [...this.#scan(source, true)]
    const { length } = source
    const last = this.#lineStart < length ? this.#scanLine(source, length, length) : undefined
    if (last !== undefined) frames.push(last)
    if (this.#frameStart < length) frames.push(this.#frame(source, length, false))
    this.#reset()
    return frames
  }

  #scan(source: Buffer, isEnd: boolean): readonly SseFrame[] {
    let frames: SseFrame[] | undefined
    let lf = find(source, LF, this.#searchFrom)
    let cr = find(source, CR, this.#searchFrom)
    for (;;) {
      const end = Math.min(lf, cr)
      if (end === NOT_FOUND) break
      let next = end + 1
      let isLoneCr = false
      if (end === cr) {
        // If the previous line ended in CR alone, a blank line does too. Otherwise the CR may be the first half of a CRLF.
        const isSurelyLone = end === this.#lineStart && this.#lastLineEndedByCr
        if (!isSurelyLone && next === source.length && !isEnd) break
        if (!isSurelyLone && source[next] === LF) next += 1
        else isLoneCr = true
      }
      const frame = this.#scanLine(source, end, next)
      if (this.#failure !== undefined) return frames ?? NO_FRAMES
      if (frame !== undefined) {
        if (frames === undefined) frames = [frame]
        else frames.push(frame)
      }
      this.#lastLineEndedByCr = isLoneCr
      this.#lineStart = next
      if (lf < next) lf = find(source, LF, next)
      if (cr < next) cr = find(source, CR, next)
    }
    this.#searchFrom = cr === NOT_FOUND ? source.length : cr
    this.#checkLength(this.#searchFrom)
    return frames ?? NO_FRAMES
  }

  /** Handles the line [lineStart, end). The next line begins at `next`. Returns the frame that it completes. */
  #scanLine(source: Buffer, end: number, next: number): SseFrame | undefined {
    const lineStart = this.#lineStart
    this.#checkLength(end)
    if (this.#failure !== undefined) return undefined
    const hasMark = this.#isFirstLine && beginsWith(source, BYTE_ORDER_MARK, lineStart, end)
    this.#isFirstLine = false
    const start = hasMark ? lineStart + BYTE_ORDER_MARK.length : lineStart
    if (start === end) return this.#frame(source, next, true)
    // A comment between events is a frame of its own; inside an event it stays part of the event's frame.
    if (source[start] === COLON) return this.#hasFields ? undefined : this.#frame(source, next, true)
    this.#hasFields = true
    if (isField(source, DATA, start, end)) {
      this.#addData(valueStart(source, start + DATA.length, end), end)
    } else if (isField(source, EVENT, start, end)) {
      this.#event = source.toString('utf8', valueStart(source, start + EVENT.length, end), end)
    }
    return undefined
  }

  #addData(start: number, end: number): void {
    if (this.#dataStart === -1) {
      this.#dataStart = start
      this.#dataEnd = end
      return
    }
    this.#allData ??= [this.#dataStart, this.#dataEnd]
    this.#allData.push(start, end)
  }

  #frame(source: Buffer, end: number, isWhole: boolean): SseFrame {
    const start = this.#frameStart
    const event = this.#event
    const data = this.#dataStart === -1 ? NO_DATA : (this.#allData ?? [this.#dataStart, this.#dataEnd])
    this.#frameStart = end
    this.#event = ''
    this.#dataStart = -1
    this.#allData = undefined
    this.#hasFields = false
    return { source, start, end, event, data, isWhole }
  }

  #checkLength(end: number): void {
    const { maxLineBytes, maxEventBytes } = this.#limits
    if (end - this.#lineStart > maxLineBytes) {
      this.#failure = new SseError(
        'line_too_long',
        `A line in the provider’s stream is longer than ${maxLineBytes} bytes.`,
      )
    } else if (end - this.#frameStart > maxEventBytes) {
      this.#failure = new SseError(
        'event_too_long',
        `An event in the provider’s stream is longer than ${maxEventBytes} bytes.`,
      )
    }
  }

  #appendPending(chunk: Buffer): Buffer {
    const length = this.#pendingLength + chunk.length
    if (length > this.#pending.length) {
      // The size doubles, so that a stream of single bytes is not copied for each byte.
      const larger = Buffer.allocUnsafeSlow(Math.max(length, 2 * this.#pending.length))
      this.#pending.copy(larger, 0, 0, this.#pendingLength)
      this.#pending = larger
    }
    chunk.copy(this.#pending, this.#pendingLength)
    this.#pendingLength = length
    return this.#pending.subarray(0, length)
  }

  /** Copies the incomplete frame, unless its bytes are in the scanner's own buffer. Returned frames still use the chunk. */
  #retainPending(source: Buffer): void {
    const shift = this.#frameStart
    const rest = source.length - shift
    if (rest === 0 || this.#failure !== undefined) {
      this.#reset()
      return
    }
    if (this.#pendingLength > 0 && shift === 0) return
    // Not from Node's buffer pool: a few pending bytes would keep a whole block of the pool in memory.
    const pending = Buffer.allocUnsafeSlow(Math.max(256, 2 * rest))
    this.#pendingLength = source.copy(pending, 0, shift)
    this.#pending = pending
    this.#lineStart -= shift
    this.#searchFrom -= shift
    if (this.#dataStart !== -1) {
      this.#dataStart -= shift
      this.#dataEnd -= shift
    }
    this.#allData = this.#allData?.map(offset => offset - shift)
    this.#frameStart = 0
  }

  #reset(): void {
    if (this.#pendingLength > 0) this.#pending = EMPTY
    this.#pendingLength = 0
    this.#frameStart = 0
    this.#lineStart = 0
    this.#searchFrom = 0
  }
}

/** At the next byte, where the blank line of an event is, or at the end there is no need to search. */
function find(source: Buffer, byte: number, from: number): number {
  if (from === source.length) return NOT_FOUND
  if (source[from] === byte) return from
  const at = source.indexOf(byte, from)
  return at === -1 ? NOT_FOUND : at
}

function isField(source: Buffer, name: Buffer, start: number, end: number): boolean {
  if (!beginsWith(source, name, start, end)) return false
  const after = start + name.length
  return after === end || source[after] === COLON
}

function beginsWith(source: Buffer, bytes: Buffer, start: number, end: number): boolean {
  if (end - start < bytes.length) return false
  for (let i = 0; i < bytes.length; i++) if (source[start + i] !== bytes[i]) return false
  return true
}

/** The offset after the colon and one optional space. */
function valueStart(source: Buffer, nameEnd: number, end: number): number {
  if (nameEnd === end) return end
  return source[nameEnd + 1] === SPACE && nameEnd + 1 < end ? nameEnd + 2 : nameEnd + 1
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
