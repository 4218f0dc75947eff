import { sumUsage, type Usage, wholeSeconds } from '../domain/usage.ts'
import { readMediaUsage } from '../metering/media-usage.ts'
import { type AnswerMeter, completed, emptyReading } from '../metering/stream-meter.ts'
import { QUOTE } from '../wire/ascii.ts'
import { parseBounded } from '../wire/json-bounds.ts'
import { type Member, topLevel } from '../wire/json-edit.ts'
import { createSseScanner, type SseFrame, type SseLimits } from '../wire/sse.ts'
import type { SoundMeter } from './audio/sound-meter.ts'

/** What the meter looks for in a stream of typed events. */
type EventMeterOptions = {
  /** The types of events that end an answer, such as `speech.audio.done`. */
  readonly last: readonly string[]
  /** The number of such events in a complete answer. */
  readonly times?: number
  /** Counts that the usage does not contain, from the request or the number of finished answers. */
  units?(finishes: number): Partial<Usage>
  /** The types of events that contain a part of an answer, such as a preliminary image. */
  readonly parts?: readonly string[]
  /** Reads members of such an event. */
  onPart?(member: (name: string) => unknown): void
  /** Reads members of an event that ends an answer. */
  onLast?(member: (name: string) => unknown): void
  /** Reads the usage of the last event. */
  readUsage?(value: unknown): Usage | undefined
  /** Measures the audio in `audio` members, because no usage reports its length. */
  readonly sound?: SoundMeter | undefined
  readonly limits?: Partial<SseLimits>
}

const DONE = Buffer.from('[DONE]')
const LONG_TEXT_BYTES = 65_536
const MAX_CLOSING_BYTES = 64 * 1_048_576

/**
 * Meters a stream of typed events, the last of which reports the usage. All bytes are forwarded unchanged. The last event
 * and everything after it are held back until the request is settled.
 */
export function createEventMeter(options: EventMeterOptions): AnswerMeter {
  const { last, times = 1, parts, units, onPart, onLast, readUsage = readMediaUsage, sound, limits } = options
  const scanner = createSseScanner(limits)
  const closing: Buffer[] = []
  let closingBytes = 0
  const reading = emptyReading()

  return {
    reading,
    push: chunk => scanner.push(chunk).flatMap(pass),
    end: () => scanner.end().flatMap(frame => (frame.isWhole ? pass(frame) : passLast(frame))),
    closing: () => closing,
    ending() {
      if (reading.error !== undefined) return 'error'
      return reading.finishes >= times ? 'complete' : 'incomplete'
    },
  }

  function pass(frame: SseFrame): readonly Buffer[] {
    const bytes = frame.source.subarray(frame.start, frame.end)
    const isLast = read(frame)
    if (!isLast && closing.length === 0) return [bytes]
    closingBytes += bytes.length
    if (closing.length === 0 || closingBytes <= MAX_CLOSING_BYTES) closing.push(Buffer.from(bytes))
    return []
  }

  /** If the data is complete, only the blank line is missing and is added. An event that was cut off is dropped. */
  function passLast(frame: SseFrame): readonly Buffer[] {
    const [start, end] = frame.data
    const isWhole = start !== undefined && membersOf(frame.source.subarray(start, end)) !== undefined
    return isWhole ? pass(completed(frame)) : []
  }

  /** Returns whether the answer ends with this event. */
  function read({ source, data }: SseFrame): boolean {
    const [start, end] = data
    if (start === undefined || end === undefined) return false
    if (source.compare(DONE, 0, DONE.length, start, Math.min(end, start + DONE.length)) === 0) {
      reading.isDone = true
      return true
    }
    reading.events += 1
    const members = membersOf(source.subarray(start, end))
    if (members === undefined) {
      reading.malformed += 1
      return false
    }
    const type = members('type')
    if (type === 'error' || members('error')) {
      reading.error = members('error') ?? members('message') ?? 'an error'
      return true
    }
    reading.contentEvents += 1
    const delta = members('delta')
    if (typeof delta === 'string') reading.textBytes += Buffer.byteLength(delta)
    const audio = sound && members('audio')
    if (typeof audio === 'string') sound?.push(Buffer.from(audio, 'base64'))
    if (typeof type !== 'string') return false
    if (parts?.includes(type)) onPart?.(members)
    if (!last.includes(type)) return false
    reading.finishes += 1
    onLast?.(members)
    const reportedUsage = readUsage(members('usage'))
    const sofar =
      reportedUsage && reading.usage
        ? sumUsage([reading.usage, reportedUsage])
        : (reportedUsage ?? reading.usage)
    const length = sound && { seconds: wholeSeconds(sound.seconds()) }
    reading.usage = sofar && { ...sofar, ...units?.(reading.finishes), ...length }
    reading.bytesAtUsage = reading.textBytes
    return reading.finishes >= times
  }
}

/** A long text is an image or audio: only its quotes are removed. Everything else is parsed within limits. */
function memberIn(bytes: Buffer, { valueStart, end }: Member): unknown {
  const isLong = end - valueStart > LONG_TEXT_BYTES && bytes[valueStart] === QUOTE
  const isPlain = isLong && !bytes.subarray(valueStart, end).includes('\\')
  if (isPlain) return bytes.toString('utf8', valueStart + 1, end - 1)
  return parseBounded(bytes.toString('utf8', valueStart, end))
}

/** The members of an object by name. Each is parsed on demand: an image in it may have megabytes. */
function membersOf(bytes: Buffer): ((name: string) => unknown) | undefined {
  try {
    const members = topLevel(bytes)
    return name => {
      const match = members.find(({ key }) => key === name)
      return match && memberIn(bytes, match)
    }
  } catch {
    // Not a JSON object; it is forwarded anyway.
    return undefined
  }
}
