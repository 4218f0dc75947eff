import { parseBounded } from '../../wire/json-bounds.ts'
import { createSseScanner, dataText, type SseFrame } from '../../wire/sse.ts'
import type { Stage } from '../../wire/stage.ts'
import { chatError, TRUNCATED } from './error.ts'
import type { StreamDecoder } from './format.ts'
import type { ChatEvent } from './hub.ts'

/** The maximum length of an answer: some formats repeat the complete answer at the end, so it is kept in memory. */
const MAX_ANSWER_LENGTH = 32 * 2 ** 20

export type Emit = (event: ChatEvent) => void

/** How a format reads the frames of its streams. */
type FrameReader<F> = {
  frame(frame: F, emit: Emit): void
  /** Called when the bytes end without the format's terminator: whether the answer may be complete. */
  isComplete(): boolean
  /** The format has no terminator: any event may be the last one. */
  readonly isUnterminated?: true
  /** Called before the last event, to close the parts that are still open. */
  finish?(emit: Emit): void
}

/** An event that cannot be parsed, in place of its frame. */
class MalformedEvent extends Error {
  constructor(message: string, options: ErrorOptions) {
    super(message, options)
    this.name = 'MalformedEvent'
  }
}

const TOO_LONG: ChatEvent = {
  type: 'error',
  error: chatError('server', 'The response of the provider is too long.'),
}

/**
 * Creates a decoder from a scanner, which splits bytes into frames, and a reader of those frames. It ensures that every
 * stream ends with one `end` or one `error` and that nothing follows. An exception of the scanner becomes an `error`.
 */
export function createDecoder<F>(
  scanner: Stage<Buffer, F | MalformedEvent>,
  reader: FrameReader<F>,
): StreamDecoder {
  let events: ChatEvent[] = []
  let isOver = false
  let length = 0
  let onMalformed: (() => void) | undefined
  const emit: Emit = event => {
    if (isOver) return
    if (event.type === 'delta') {
      length += (event.text?.length ?? 0) + (event.data?.length ?? 0)
      if (length > MAX_ANSWER_LENGTH) {
        emit(TOO_LONG)
        return
      }
    }
    if (event.type === 'end') reader.finish?.(emit)
    events.push(event)
    isOver = event.type === 'end' || event.type === 'error'
  }
  const readFrame = (frame: F | MalformedEvent): void => {
    try {
      if (frame instanceof MalformedEvent) throw frame
      reader.frame(frame, emit)
    } catch (error) {
      // If bytes are forwarded, the client still receives the event. A translated stream must not drop one silently.
      if (onMalformed === undefined) throw error
      onMalformed()
    }
  }
  const read = (frames: () => readonly (F | MalformedEvent)[]): readonly ChatEvent[] => {
    if (isOver) return []
    events = []
    try {
      for (const frame of frames()) readFrame(frame)
    } catch (error) {
      // A stream that cannot be parsed further is the provider's error, which is reported to the client.
      emit({ type: 'error', error: chatError('server', (error as Error).message) })
    }
    return events
  }
  return {
    ...(reader.isUnterminated && { isComplete: () => reader.isComplete() }),
    skipMalformed(report) {
      onMalformed = report
    },
    push: chunk => read(() => scanner.push(chunk)),
    end() {
      const last = [...read(() => scanner.end())]
      if (isOver) return last
      events = []
      emit(reader.isComplete() ? { type: 'end' } : { type: 'error', error: TRUNCATED })
      return [...last, ...events]
    },
  }
}

/** An SSE event whose data is JSON. `text` is the raw data, for terminators that are not JSON. */
export type JsonFrame = { readonly event: string; readonly text: string; readonly data: unknown }

/** A terminator that is not JSON; readers get it as `text`. */
const DONE = '[DONE]'

type ScannedFrame = JsonFrame | MalformedEvent

const NONE: readonly ScannedFrame[] = []

/** Splits SSE into JSON events. Data that is not JSON is a malformed event, unless the event was cut off. */
export function createJsonScanner(): Stage<Buffer, ScannedFrame> {
  const scanner = createSseScanner()
  // Most network chunks hold one event.
  const framesOf = (frames: readonly SseFrame[]) => {
    const [only] = frames
    if (only === undefined) return NONE
    return frames.length === 1 ? jsonFrames(only) : frames.flatMap(jsonFrames)
  }
  return { push: chunk => framesOf(scanner.push(chunk)), end: () => framesOf(scanner.end()) }
}

function jsonFrames(frame: SseFrame): readonly ScannedFrame[] {
  if (frame.data.length === 0) return NONE
  const { event } = frame
  const text = dataText(frame)
  if (text.trim() === '') return NONE
  const single = jsonFrame(event, text)
  if (!(single instanceof MalformedEvent)) return [single]
  // The event was cut off: the stream is reported as incomplete.
  if (!frame.isWhole) return NONE
  // A host that omits the blank line between events joins several of them into one.
  return frame.data.length > 2 ? text.split('\n').map(line => jsonFrame(event, line)) : [single]
}

/** The name of an error event. Some hosts send plain text as its data. */
const ERROR_EVENT = 'error'

function jsonFrame(event: string, text: string): ScannedFrame {
  if (text.startsWith(DONE)) return { event, text: DONE, data: undefined }
  try {
    return { event, text, data: parseBounded(text) }
  } catch (cause) {
    if (event === ERROR_EVENT) return { event, text, data: { error: { message: text } } }
    return new MalformedEvent('An event in the provider’s stream is not JSON.', { cause })
  }
}

/** Creates an encoder from a function that encodes one event. It encodes exactly one end, and nothing after it. */
export function createEncoder(write: (event: ChatEvent) => readonly Buffer[]): Stage<ChatEvent, Buffer> {
  let isOver = false
  const push = (event: ChatEvent) => {
    if (isOver) return []
    isOver = event.type === 'end' || event.type === 'error'
    return write(event)
  }
  return { push, end: () => push({ type: 'error', error: TRUNCATED }) }
}

const UNICODE_BREAKS = /[\u0085\u2028\u2029]/g

/** JSON without the line breaks of Unicode: several clients split a stream into lines at them too. */
export const onOneLine = (json: string): string =>
  json.replace(UNICODE_BREAKS, sign => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** One SSE event, with a name if the format names its events. */
export const sseEvent = (data: unknown, name?: string): Buffer =>
  Buffer.from(`${name === undefined ? '' : `event: ${name}\n`}data: ${onOneLine(JSON.stringify(data))}\n\n`)
