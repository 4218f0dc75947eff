import { replacesUsage, type Usage } from '../../domain/usage.ts'
import { type AnswerMeter, emptyReading, type StreamReading } from '../../metering/stream-meter.ts'
import { createTextSample, type TextSample } from '../../metering/text-sample.ts'
import { createSseScanner, type SseFrame } from '../../wire/sse.ts'
import type { Stage } from '../../wire/stage.ts'
import type { StreamDecoder } from './format.ts'
import type { ChatError, ChatEvent } from './hub.ts'

/** The totals over the events of an answer so far. */
type EventMeter = {
  readonly reading: StreamReading<ChatError>
  readonly sample: TextSample
  /** Returns whether this was the last event. */
  read(event: ChatEvent): boolean
  countMalformed(): void
  ending: AnswerMeter['ending']
}

export function createEventMeter(): EventMeter {
  const sample = createTextSample()
  const reading = emptyReading<ChatError>()
  // The keys of the parts that are reasoning: their text is counted separately.
  const thoughts = new Set<string>()

  function write(text: string, isThought: boolean): void {
    const bytes = Buffer.byteLength(text)
    if (isThought) reading.reasoningBytes += bytes
    else reading.textBytes += bytes
    // The sample is stored JSON-encoded.
    const encodedText = Buffer.from(JSON.stringify(text))
    sample.take(encodedText, 1, encodedText.length - 1)
  }

  return {
    reading,
    sample,
    ending() {
      if (reading.error !== undefined) return 'error'
      return reading.isDone ? 'complete' : 'incomplete'
    },
    countMalformed() {
      reading.malformed += 1
    },
    read(event) {
      reading.events += 1
      switch (event.type) {
        case 'open':
          reading.contentEvents += 1
          if (event.content.type === 'reasoning') thoughts.add(`${event.choice}.${event.part}`)
          if (event.content.type === 'toolCall') write(event.content.name, false)
          break
        case 'delta':
          reading.contentEvents += 1
          if (event.text !== undefined) write(event.text, thoughts.has(`${event.choice}.${event.part}`))
          break
        case 'finish':
          reading.finishes += 1
          break
        case 'usage':
          if (!replacesUsage(event.usage, reading.usage)) break
          reading.usage = event.usage
          reading.bytesAtUsage = reading.textBytes + reading.reasoningBytes
          break
        case 'providerTools':
          reading.toolCalls = event.calls
          break
        case 'error':
          reading.error = event.error
          return true
        case 'end':
          reading.isDone = true
          return true
        default:
      }
      return false
    },
  }
}

type TranslatingMeter = AnswerMeter & {
  readonly reading: EventMeter['reading']
  /** Encodes an error that ends the stream, for errors that the provider does not report itself. */
  endWithError(error: ChatError): readonly Buffer[]
}

type Translation = {
  readonly decoder: Stage<Buffer, ChatEvent>
  readonly encoder: Stage<ChatEvent, Buffer>
}

/** Translates a stream from one format into another. Like every stream meter, it holds the last event back. */
export function createTranslatingMeter({ decoder, encoder }: Translation): TranslatingMeter {
  const meter = createEventMeter()
  // Encoded on demand, because an error of the provider may have to be reported differently.
  let last: ChatEvent | undefined
  let closing: readonly Buffer[] | undefined

  function take(events: readonly ChatEvent[]): readonly Buffer[] {
    const pieces: Buffer[] = []
    for (const event of events) {
      if (meter.read(event)) last = event
      else pieces.push(...encoder.push(event))
    }
    // Events that arrived together are written together: a socket write costs more than a copy of a few events.
    return pieces.length > 1 ? [Buffer.concat(pieces)] : pieces
  }

  /** The usage that the gateway counted, if the provider reported none. */
  const encodeCountedUsage = (usage: Usage | undefined): readonly Buffer[] =>
    usage === undefined || meter.reading.usage !== undefined ? [] : encoder.push({ type: 'usage', usage })

  return {
    reading: meter.reading,
    sample: meter.sample,
    ending: meter.ending,
    push: chunk => take(decoder.push(chunk)),
    end: () => take(decoder.end()),
    closing(counted) {
      closing ??= last === undefined ? [] : [...encodeCountedUsage(counted), ...encoder.push(last)]
      return closing
    },
    endWithError: error => encoder.push({ type: 'error', error }),
  }
}

/** Clients stop reading after the end, so bytes that follow it are discarded. */
const MAX_CLOSING_BYTES = 65_536

/**
 * Forwards server-sent events unchanged, and decodes them for metering. It holds back the event that ends the stream and
 * everything after it. If the format has no such event, it holds back the last one. An end event that was cut off is not
 * sent. A malformed event is forwarded but not metered.
 */
export function createPassingMeter(decoder: StreamDecoder): AnswerMeter {
  const scanner = createSseScanner()
  const meter = createEventMeter()
  const closing: Buffer[] = []
  let closingBytes = 0
  let isOver = false
  let isHeld = false
  decoder.skipMalformed(() => meter.countMalformed())

  function read(events: readonly ChatEvent[]): void {
    for (const event of events) if (meter.read(event)) isOver = true
    isHeld ||= isOver || decoder.isComplete?.() === true
  }

  /** Adjacent frames of one buffer are forwarded as one chunk. */
  function take(frames: readonly SseFrame[]): readonly Buffer[] {
    const [first] = frames
    if (first === undefined) return []
    let end = first.start
    for (const frame of frames) {
      const bytes = frame.source.subarray(frame.start, frame.end)
      if (!isOver) read(decoder.push(bytes))
      if (!isHeld) end = frame.end
      else hold(bytes)
    }
    return end === first.start ? [] : [first.source.subarray(first.start, end)]
  }

  function hold(bytes: Buffer): void {
    closingBytes += bytes.length
    if (closing.length === 0 || closingBytes <= MAX_CLOSING_BYTES) closing.push(bytes)
  }

  return {
    reading: meter.reading,
    sample: meter.sample,
    ending: meter.ending,
    push: chunk => take(scanner.push(chunk)),
    end() {
      const frames = scanner.end()
      const pieces = take(frames.filter(frame => frame.isWhole))
      const last = frames.find(frame => !frame.isWhole)
      const rest = last?.source.subarray(last.start, last.end)
      if (!isOver && rest !== undefined) read(decoder.push(rest))
      if (!isOver) read(decoder.end())
      // If only the blank line is missing, it is added: without it the client would ignore the event.
      if (rest !== undefined && meter.ending() === 'complete') hold(completed(rest))
      return pieces
    },
    closing: () => closing,
  }
}

const completed = (rest: Buffer): Buffer =>
  Buffer.concat([rest, Buffer.from(rest.at(-1) === 0x0a ? '\n' : '\n\n')])
