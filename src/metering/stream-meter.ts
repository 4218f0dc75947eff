import { isObject, member } from '../domain/json-value.ts'
import { replacesUsage, type ToolCalls, type Usage } from '../domain/usage.ts'
import { CR, LF } from '../wire/ascii.ts'
import { parsedOrNothing } from '../wire/json-bounds.ts'
import { createSseScanner, dataText, type SseFrame, type SseLimits } from '../wire/sse.ts'
import type { Stage } from '../wire/stage.ts'
import { scanChunk } from './chunk-scan.ts'
import { type UsageOptions, usageIn } from './openai-usage.ts'
import { createTextSample, type TextSample } from './text-sample.ts'

/** The totals of a stream so far. It contains counts but no text, so its size does not grow with the stream. */
export type StreamReading<Failure = unknown> = {
  /** The last reported usage. Vendors that report several times report totals, so they are never added. Zeros replace nothing. */
  readonly usage: Usage | undefined
  /** The bytes below at the time of that report. Later output is not in the usage yet. */
  readonly bytesAtUsage: number
  /** Calls of the provider's own tools in the events. */
  readonly toolCalls: ToolCalls | undefined
  /** Events with data, except `[DONE]`. */
  readonly events: number
  /** Events with content of the answer; a role alone does not count. */
  readonly contentEvents: number
  /** UTF-8 bytes of the generated text, for a count if no usage is reported. */
  readonly textBytes: number
  readonly reasoningBytes: number
  /** Choices with a finish reason. */
  readonly finishes: number
  readonly isDone: boolean
  /** The error that the vendor reports inside the stream. */
  readonly error: Failure | undefined
  /** Events whose data is not JSON. They pass unchanged (docs/reference/formats.md: Malformed events). */
  readonly malformed: number
}

/** The initial state of a meter, which the meter updates. */
export const emptyReading = <Failure = unknown>(): Writable<StreamReading<Failure>> => ({
  usage: undefined,
  bytesAtUsage: 0,
  toolCalls: undefined,
  events: 0,
  contentEvents: 0,
  textBytes: 0,
  reasoningBytes: 0,
  finishes: 0,
  isDone: false,
  error: undefined,
  malformed: 0,
})

type Writable<T> = { -readonly [Name in keyof T]: T[Name] }

export type StreamEnding = 'complete' | 'incomplete' | 'error'

/**
 * Takes the bytes of the upstream and returns the bytes to forward. They are unchanged, with two exceptions: a chunk with
 * only usage is dropped if the client did not request it, and the end is held back (see `closing`). If the upstream
 * breaks off, `end` must not be called: a partial event would corrupt the bytes that are sent after it.
 */
export type AnswerMeter = Stage<Buffer, Buffer> & {
  readonly reading: StreamReading
  /** The beginning of the counted text; its size is limited too. */
  readonly sample?: TextSample
  /**
   * It uses the bytes of a chunk only until `push` returns, and what `push` returns is sent at once. A meter around another one has
   * this too, so it must copy what it keeps.
   */
  readonly keepsNothing?: boolean
  /**
   * `[DONE]`, or the error event, and everything after it: the last byte is sent after the settlement is recorded. The
   * caller may forward an error or encode its own; `[DONE]` must not follow an error. `counted`: the usage for a
   * translated stream without reported usage.
   */
  closing(counted?: Usage): readonly Buffer[]
  /** Whether the stream so far is a complete answer. */
  ending(): StreamEnding
}

export type StreamMeterOptions = {
  /** The client requested the chunk with the usage. */
  readonly includeUsage: boolean
  /** The number of requested choices: an answer is complete when each of them has finished. */
  readonly choices?: number
  readonly usageOptions?: UsageOptions
  readonly limits?: Partial<SseLimits>
  /** A complete answer ends in `[DONE]`, even if its host omits it. */
  readonly endsInDone?: boolean
}

type FrameAction = 'send' | 'leave out' | 'close'

const DONE = Buffer.from('[DONE]')
const NO_PIECES: readonly Buffer[] = []
const DONE_FRAME = Buffer.from('data: [DONE]\n\n')

/** Clients stop reading after `[DONE]`, so bytes that follow it are discarded. */
const MAX_CLOSING_BYTES = 65_536

export const createStreamMeter = (options: StreamMeterOptions): AnswerMeter => new ChunkMeter(options)

/** One object for each stream (ADR 29): not spread, see `delegate`. */
class ChunkMeter implements AnswerMeter {
  readonly #scanner: ReturnType<typeof createSseScanner>
  readonly reading = emptyReading()
  readonly sample = createTextSample()
  #closing: Buffer[] | undefined
  readonly keepsNothing = true
  readonly #options: StreamMeterOptions
  #closingBytes = 0

  constructor(options: StreamMeterOptions) {
    this.#options = options
    this.#scanner = createSseScanner(options.limits)
  }

  push(chunk: Buffer): readonly Buffer[] {
    return this.#sort(this.#scanner.push(chunk))
  }

  end(): readonly Buffer[] {
    const frames = this.#scanner.end()
    const last = frames.at(-1)
    if (last === undefined || last.isWhole) return this.#sort(frames)
    // If the data is complete, only the blank line is missing. It is added, because clients ignore the event without it.
    const whole = frames.slice(0, -1)
    return this.#sort(isWholeData(last) ? [...whole, completed(last)] : whole)
  }

  closing(): readonly Buffer[] {
    const { isDone, error } = this.reading
    const closing = this.#closing ?? NO_PIECES
    return this.#options.endsInDone && !isDone && error === undefined ? [...closing, DONE_FRAME] : closing
  }

  ending(): StreamEnding {
    const { isDone, error, finishes } = this.reading
    if (error !== undefined) return 'error'
    return isDone || finishes >= (this.#options.choices ?? 1) ? 'complete' : 'incomplete'
  }

  /** Adjacent frames that are forwarded become one chunk. */
  #sort(frames: readonly SseFrame[]): readonly Buffer[] {
    let pieces: Buffer[] | undefined
    let first: SseFrame | undefined
    let last: SseFrame | undefined
    for (const frame of frames) {
      const action = this.#read(frame)
      if (action === 'leave out') continue
      if (action === 'close' || this.#closing !== undefined) {
        this.#hold(frame)
        continue
      }
      if (last?.source !== frame.source || last.end !== frame.start) {
        if (first !== undefined && last !== undefined) {
          pieces ??= []
          pieces.push(bytesBetween(first, last))
        }
        first = frame
      }
      last = frame
    }
    if (first === undefined || last === undefined) return NO_PIECES
    const rest = bytesBetween(first, last)
    if (pieces === undefined) return [rest]
    pieces.push(rest)
    return pieces
  }

  #hold(frame: SseFrame): void {
    this.#closingBytes += frame.end - frame.start
    const isFirst = this.#closing === undefined
    this.#closing ??= []
    // A copy: the frame's memory is valid during `push` only.
    if (isFirst || this.#closingBytes <= MAX_CLOSING_BYTES)
      this.#closing.push(Buffer.from(bytesBetween(frame, frame)))
  }

  #read(frame: SseFrame): FrameAction {
    const { source, data, event } = frame
    if (data.length === 0) return 'send'
    const { reading } = this
    const isDone = endsWithDone(frame)
    if (isDone) reading.isDone = true
    if (isDone && data.length === 2) return 'close'
    reading.events += 1
    const delta = scanChunk(source, data[0] as number, data[data.length - 1] as number, 'delta', this.sample)
    reading.textBytes += delta.textBytes
    reading.reasoningBytes += delta.reasoningBytes
    reading.finishes += delta.finishes
    if (delta.textBytes > 0 || delta.reasoningBytes > 0 || delta.hasMedia) reading.contentEvents += 1
    if (!delta.isBalanced) reading.malformed += 1
    const action = delta.isNotable || event === 'error' ? this.#readParsed(frame) : 'send'
    return isDone ? 'close' : action
  }

  #readParsed(frame: SseFrame): FrameAction {
    const { reading } = this
    const { includeUsage, usageOptions } = this.#options
    const chunks = chunksOf(frame)
    for (const chunk of chunks) {
      const reportedUsage = usageIn(chunk, usageOptions)
      if (reportedUsage !== undefined && replacesUsage(reportedUsage, reading.usage)) {
        reading.usage = reportedUsage
        reading.bytesAtUsage = reading.textBytes + reading.reasoningBytes
      }
      reading.error ??= member(chunk, 'error') || undefined
    }
    if (frame.event === 'error') reading.error ??= chunks.find(isObject) ?? dataText(frame)
    if (reading.error !== undefined) return 'close'
    return !includeUsage && chunks.every(isUsageAlone) ? 'leave out' : 'send'
  }
}

/**
 * A meter that does the same as another one, for wrappers that change some of its functions. The methods of a class are no
 * own properties, so spreading a meter is not enough.
 */
export const delegate = <Meter extends AnswerMeter>(meter: Meter): Meter => ({
  ...meter,
  push: (chunk: Buffer) => meter.push(chunk),
  end: () => meter.end(),
  closing: (counted?: Usage) => meter.closing(counted),
  ending: () => meter.ending(),
})

/** Like clients, ignores anything after the marker. */
function endsWithDone({ source, data }: SseFrame): boolean {
  const start = data[data.length - 2] as number
  // No other data begins with a bracket, so one byte is enough to rule out nearly every event.
  return source[start] === DONE[0] && source.compare(DONE, 0, DONE.length, start, start + DONE.length) === 0
}

/** A chunk that cannot be parsed has nothing to count. */
function chunksOf(frame: SseFrame): readonly unknown[] {
  const whole = parsedOrNothing(dataText(frame))
  if (whole !== undefined || frame.data.length === 2) return [whole]
  // A host that omits the blank line between events joins several of them into one.
  return dataText(frame).split('\n').map(parsedOrNothing)
}

const isUsageAlone = (chunk: unknown): boolean => {
  const choices = member(chunk, 'choices')
  return isObject(member(chunk, 'usage')) && !(Array.isArray(choices) && choices.length > 0)
}

const isWholeData = (frame: SseFrame): boolean =>
  frame.data.length > 0 && (endsWithDone(frame) || chunksOf(frame).every(isObject))

/** Adds the missing blank line to a frame. */
export function completed(frame: SseFrame): SseFrame {
  const bytes = bytesBetween(frame, frame)
  const isLineEnded = bytes.at(-1) === LF || bytes.at(-1) === CR
  const source = Buffer.concat([bytes, Buffer.from(isLineEnded ? '\n' : '\n\n')])
  const data = frame.data.map(offset => offset - frame.start)
  return { ...frame, source, start: 0, end: source.length, data, isWhole: true }
}

/** The bytes from the first frame to the last, without a copy. Both must belong to the same buffer. */
function bytesBetween({ source, start }: SseFrame, { end }: SseFrame): Buffer {
  return start === 0 && end === source.length ? source : source.subarray(start, end)
}
