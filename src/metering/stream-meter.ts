import { isObject, member } from '../domain/json-value.ts'
import type { ToolCalls, Usage } from '../domain/usage.ts'
import { CR, LF } from '../wire/ascii.ts'
import { parsedOrNothing } from '../wire/json-bounds.ts'
import { createSseScanner, dataText, type SseFrame, type SseLimits } from '../wire/sse.ts'
import type { Stage } from '../wire/stage.ts'
import { glimpse } from './chunk-scan.ts'
import { type UsageOptions, usageIn } from './openai-usage.ts'
import { createTextSample, type TextSample } from './text-sample.ts'

/** What a stream has shown so far. Counts only, no text: it stays as small as it is however long the stream gets. */
export type StreamReading<Failure = unknown> = {
  /** The last one told. Vendors that tell several tell running totals, so they are never added. */
  readonly usage: Usage | undefined
  /** How many of the bytes below had come by then. What a model writes after that is in no usage yet. */
  readonly toldBytes: number
  /** Calls of the provider's own tools that the events show. */
  readonly toolCalls: ToolCalls | undefined
  /** Events with data, `[DONE]` not among them. */
  readonly events: number
  /** Events that carried something of the answer itself; a role alone is nothing yet. */
  readonly contentEvents: number
  /** UTF-8 bytes of what the model wrote, for a count where no usage is told. */
  readonly textBytes: number
  readonly reasoningBytes: number
  /** Choices that gave a reason to have finished. */
  readonly finishes: number
  readonly isDone: boolean
  /** What the vendor says went wrong inside the stream, in its own words. */
  readonly error: Failure | undefined
  /** Events whose data is not JSON. They pass unchanged (docs/reference/formats.md: Malformed events). */
  readonly malformed: number
}

/** What a meter begins with, and writes into. */
export const emptyReading = <Failure = unknown>(): Writable<StreamReading<Failure>> => ({
  usage: undefined,
  toldBytes: 0,
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

type Writable<Thing> = { -readonly [Name in keyof Thing]: Thing[Name] }

export type StreamEnding = 'complete' | 'incomplete' | 'error'

/**
 * Feed it with the bytes of the upstream and send on what it gives back, untouched but for two things: the chunk that holds
 * only usage is left out where the client has not asked for it, and the end is held back (see `closing`). When the upstream
 * breaks off, do not call `end`: a partial event would corrupt the bytes that are sent after it.
 */
export type AnswerMeter = Stage<Buffer, Buffer> & {
  readonly reading: StreamReading
  /** How the text begins that it has counted the bytes of; bounded too. */
  readonly sample?: TextSample
  /**
   * `[DONE]`, or the event that tells an error, and all that came after: no last byte goes out before the settlement is
   * written. An error's events may then be sent on or told in other words; `[DONE]` must not follow an error.
   * `counted` is told where the stream is put into other words and told no usage itself.
   */
  closing(counted?: Usage): readonly Buffer[]
  /** Whether the stream, as far as it has come, is an answer from beginning to end. */
  ending(): StreamEnding
}

export type StreamMeterOptions = {
  /** The client asked for the chunk that holds the usage. */
  readonly includeUsage: boolean
  /** How many choices were asked for: an answer is whole when each of them has finished. */
  readonly choices?: number
  readonly usageOptions?: UsageOptions
  readonly limits?: Partial<SseLimits>
  /** A whole answer ends in `[DONE]`, also where its host leaves that out. */
  readonly endsInDone?: boolean
}

type Fate = 'send' | 'leave out' | 'close'

const DONE = Buffer.from('[DONE]')
const DONE_FRAME = Buffer.from('data: [DONE]\n\n')

/** Clients stop reading after `[DONE]`, so bytes that follow it are discarded. */
const MAX_CLOSING_BYTES = 65_536

export function createStreamMeter(options: StreamMeterOptions): AnswerMeter {
  const { includeUsage, choices = 1, usageOptions, limits, endsInDone = false } = options
  const scanner = createSseScanner(limits)
  const sample = createTextSample()
  const closing: Buffer[] = []
  let closingBytes = 0
  const reading = emptyReading()

  return {
    reading,
    sample,
    push: chunk => sort(scanner.push(chunk)),
    end() {
      const frames = scanner.end()
      const last = frames.at(-1)
      if (last === undefined || last.isWhole) return sort(frames)
      // Only the blank line is missing where the data is whole; the client's reader needs it to see the event at all.
      return isWholeData(last) ? sort([...frames.slice(0, -1), completed(last)]) : sort(frames.slice(0, -1))
    },
    closing: () =>
      endsInDone && !reading.isDone && reading.error === undefined ? [...closing, DONE_FRAME] : closing,
    ending() {
      if (reading.error !== undefined) return 'error'
      return reading.isDone || reading.finishes >= choices ? 'complete' : 'incomplete'
    },
  }

  /** Frames that go on and lie side by side become one piece. */
  function sort(frames: readonly SseFrame[]): readonly Buffer[] {
    const pieces: Buffer[] = []
    let first: SseFrame | undefined
    let last: SseFrame | undefined
    for (const frame of frames) {
      const fate = read(frame)
      if (fate === 'leave out') continue
      if (fate === 'close' || closing.length > 0) {
        hold(frame)
        continue
      }
      if (last?.source !== frame.source || last.end !== frame.start) {
        if (first !== undefined && last !== undefined) pieces.push(bytesBetween(first, last))
        first = frame
      }
      last = frame
    }
    if (first !== undefined && last !== undefined) pieces.push(bytesBetween(first, last))
    return pieces
  }

  function hold(frame: SseFrame): void {
    closingBytes += frame.end - frame.start
    if (closing.length === 0 || closingBytes <= MAX_CLOSING_BYTES) closing.push(bytesBetween(frame, frame))
  }

  function read(frame: SseFrame): Fate {
    const { source, data, event } = frame
    if (data.length === 0) return 'send'
    const isDone = endsWithDone(frame)
    if (isDone) reading.isDone = true
    if (isDone && data.length === 2) return 'close'
    reading.events += 1
    const delta = glimpse(source, data[0] as number, data[data.length - 1] as number, 'delta', sample)
    reading.textBytes += delta.textBytes
    reading.reasoningBytes += delta.reasoningBytes
    reading.finishes += delta.finishes
    if (delta.textBytes > 0 || delta.reasoningBytes > 0 || delta.hasMedia) reading.contentEvents += 1
    if (!delta.isBalanced) reading.malformed += 1
    const fate = delta.isNotable || event === 'error' ? readClosely(frame) : 'send'
    return isDone ? 'close' : fate
  }

  function readClosely(frame: SseFrame): Fate {
    const chunks = chunksOf(frame)
    for (const chunk of chunks) {
      const reportedUsage = usageIn(chunk, usageOptions)
      if (reportedUsage !== undefined) {
        reading.usage = reportedUsage
        reading.toldBytes = reading.textBytes + reading.reasoningBytes
      }
      reading.error ??= member(chunk, 'error') || undefined
    }
    if (frame.event === 'error') reading.error ??= chunks.find(isObject) ?? dataText(frame)
    if (reading.error !== undefined) return 'close'
    return !includeUsage && chunks.every(isUsageAlone) ? 'leave out' : 'send'
  }
}

/** As clients do: what follows the word does not matter. */
function endsWithDone({ source, data }: SseFrame): boolean {
  const start = data[data.length - 2] as number
  // No other data begins with a bracket, so that a glance at one byte settles it for all but one event.
  return source[start] === DONE[0] && source.compare(DONE, 0, DONE.length, start, start + DONE.length) === 0
}

/** A chunk that cannot be read has nothing to count. */
function chunksOf(frame: SseFrame): readonly unknown[] {
  const whole = parsedOrNothing(dataText(frame))
  if (whole !== undefined || frame.data.length === 2) return [whole]
  // A host that forgets the blank line between its events makes one of several.
  return dataText(frame).split('\n').map(parsedOrNothing)
}

const isUsageAlone = (chunk: unknown): boolean => {
  const choices = member(chunk, 'choices')
  return isObject(member(chunk, 'usage')) && !(Array.isArray(choices) && choices.length > 0)
}

const isWholeData = (frame: SseFrame): boolean =>
  frame.data.length > 0 && (endsWithDone(frame) || chunksOf(frame).every(isObject))

/** The frame with the blank line that it lacks. */
export function completed(frame: SseFrame): SseFrame {
  const bytes = bytesBetween(frame, frame)
  const isLineEnded = bytes.at(-1) === LF || bytes.at(-1) === CR
  const source = Buffer.concat([bytes, Buffer.from(isLineEnded ? '\n' : '\n\n')])
  const data = frame.data.map(offset => offset - frame.start)
  return { ...frame, source, start: 0, end: source.length, data, isWhole: true }
}

/** Not copied; two frames of one source with nothing of another's between them. */
function bytesBetween({ source, start }: SseFrame, { end }: SseFrame): Buffer {
  return start === 0 && end === source.length ? source : source.subarray(start, end)
}
