import { COLON, CR, LF, SPACE } from './ascii.ts'
import type { Stage } from './stage.ts'

/** Why a stream of events is read no further. */
export class SseError extends Error {
  readonly code: 'line_too_long' | 'event_too_long'

  constructor(code: SseError['code'], message: string) {
    super(message)
    this.name = 'SseError'
    this.code = code
  }
}

/**
 * One event with all its bytes, up to and with the blank line that ends it; or bytes between events, which have no data:
 * a comment or an extra blank line. The frames of a stream, concatenated, are the stream.
 */
export type SseFrame = {
  /** The frame is the bytes [start, end) of `source`, which it shares with its neighbours. */
  readonly source: Buffer
  readonly start: number
  readonly end: number
  /** The event's name; empty where it has none. */
  readonly event: string
  /** Where its data lies in `source`: a start and an end for each `data` line. */
  readonly data: readonly number[]
  /** False only for bytes at the end of the stream that no blank line follows. */
  readonly isWhole: boolean
}

export type SseLimits = { readonly maxLineBytes: number; readonly maxEventBytes: number }

const LIMITS: SseLimits = { maxLineBytes: 2 ** 20, maxEventBytes: 4 * 2 ** 20 }

const DATA = Buffer.from('data')
const EVENT = Buffer.from('event')
const BYTE_ORDER_MARK = Buffer.from('\ufeff')
const NOWHERE = Number.POSITIVE_INFINITY
const NO_DATA: readonly number[] = []
const NOTHING: Buffer = Buffer.alloc(0)

/**
 * Splits a stream of server-sent events into frames, independent of chunk borders. Chunks that hold whole frames, as they do
 * in practice, are not copied. The bytes of an unfinished frame are kept until it is complete: no client can act on a part
 * of an event, and only a whole event can be judged, so that sending the part ahead gains nothing. Complete frames are
 * returned at once, including a comment before an event.
 */
export function createSseScanner(limits: Partial<SseLimits> = {}): Stage<Buffer, SseFrame> {
  const { maxLineBytes, maxEventBytes } = { ...LIMITS, ...limits }
  let unread = NOTHING
  let keptLength = 0
  let failure: SseError | undefined

  // Offsets into the unread bytes and the chunk just pushed.
  let source = NOTHING
  let frameStart = 0
  let lineStart = 0
  let unseen = 0

  let event = ''
  let data: number[] | undefined
  let hasFields = false
  let isFirstLine = true
  let lastLineEndedByCr = false

  return {
    push(chunk) {
      if (failure !== undefined) throw failure
      source = keptLength === 0 ? chunk : lines(chunk)
      const frames: SseFrame[] = []
      scan(frames, false)
      if (failure !== undefined && frames.length === 0) throw failure
      keepRest()
      // A chunk that has been read must not stay in memory until the next one arrives.
      source = NOTHING
      return frames
    },

    end() {
      if (failure !== undefined) throw failure
      source = unread.subarray(0, keptLength)
      const frames: SseFrame[] = []
      scan(frames, true)
      if (lineStart < source.length) takeLine(frames, source.length, source.length)
      if (frameStart < source.length) give(frames, source.length, false)
      drop()
      return frames
    },
  }

  function scan(frames: SseFrame[], isEnd: boolean): void {
    let lf = find(LF, unseen)
    let cr = find(CR, unseen)
    for (;;) {
      const end = Math.min(lf, cr)
      if (end === NOWHERE) break
      let next = end + 1
      let isLoneCr = false
      if (end === cr) {
        // If lines end in CR alone, a blank line ends with its CR. Otherwise the CR may be the first half of a CRLF.
        const isSurelyLone = end === lineStart && lastLineEndedByCr
        if (!isSurelyLone && next === source.length && !isEnd) break
        if (!isSurelyLone && source[next] === LF) next += 1
        else isLoneCr = true
      }
      takeLine(frames, end, next)
      if (failure !== undefined) return
      lastLineEndedByCr = isLoneCr
      lineStart = next
      if (lf < next) lf = find(LF, next)
      if (cr < next) cr = find(CR, next)
    }
    unseen = cr === NOWHERE ? source.length : cr
    checkLength(unseen)
  }

  function find(byte: number, from: number): number {
    const at = source.indexOf(byte, from)
    return at === -1 ? NOWHERE : at
  }

  /** A line lies at [lineStart, end); the one after it begins at `next`. */
  function takeLine(frames: SseFrame[], end: number, next: number): void {
    checkLength(end)
    if (failure !== undefined) return
    const hasMark = isFirstLine && beginsWith(BYTE_ORDER_MARK, lineStart, end)
    isFirstLine = false
    const start = hasMark ? lineStart + BYTE_ORDER_MARK.length : lineStart
    if (start === end) {
      give(frames, next, true)
      return
    }
    if (source[start] === COLON) {
      // A comment belongs to no event; inside of one its bytes stay where they are.
      if (!hasFields) give(frames, next, true)
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

  function give(frames: SseFrame[], end: number, isWhole: boolean): void {
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

  /** The offset behind the colon and one space, if they are there. */
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

  function lines(chunk: Buffer): Buffer {
    const length = keptLength + chunk.length
    if (length > unread.length) {
      // The size doubles, so that a stream of single bytes is not copied again for each byte.
      const larger = Buffer.allocUnsafeSlow(Math.max(length, 2 * unread.length))
      unread.copy(larger, 0, 0, keptLength)
      unread = larger
    }
    chunk.copy(unread, keptLength)
    keptLength = length
    return unread.subarray(0, length)
  }

  /** Copies the unfinished frame, unless this scanner owns its bytes: returned frames still use the chunk. */
  function keepRest(): void {
    const rest = source.length - frameStart
    if (rest === 0 || failure !== undefined) {
      drop()
      return
    }
    if (keptLength > 0 && frameStart === 0) return
    // Not from the pool: a few bytes that wait for long would keep the whole pool block in memory.
    unread = Buffer.allocUnsafeSlow(Math.max(256, 2 * rest))
    keptLength = source.copy(unread, 0, frameStart)
    lineStart -= frameStart
    unseen -= frameStart
    data = data?.map(offset => offset - frameStart)
    frameStart = 0
  }

  function drop(): void {
    unread = NOTHING
    keptLength = 0
    frameStart = 0
    lineStart = 0
    unseen = 0
  }
}

/** The data of an event as a text; lines are joined as the standard says. */
export function dataText({ source, data }: SseFrame): string {
  let text = ''
  for (let i = 0; i < data.length; i += 2) {
    if (i > 0) text += '\n'
    text += source.toString('utf8', data[i], data[i + 1])
  }
  return text
}
