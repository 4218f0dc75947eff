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
  /** Types of event that end an answer: `speech.audio.done`. */
  readonly last: readonly string[]
  /** How many of them an answer has. */
  readonly times?: number
  /** Counts that the usage does not tell: the request does, or how often an answer has ended. */
  units?(finishes: number): Partial<Usage>
  /** Looks at the members of an event that ends an answer. */
  onLast?(member: (name: string) => unknown): void
  /** Reads the usage that the last event tells. */
  readUsage?(value: unknown): Usage | undefined
  /** Hears the sound that events bring along in `audio`: no usage tells its length. */
  readonly sound?: SoundMeter | undefined
  readonly limits?: Partial<SseLimits>
}

const DONE = Buffer.from('[DONE]')
const LONG_TEXT_BYTES = 65_536
const MAX_CLOSING_BYTES = 64 * 1_048_576

/**
 * Meters a stream whose events name their type, one of which comes last and tells the usage. All bytes pass as they are;
 * the last event and what follows it are held back until the books are written.
 */
export function createEventMeter(options: EventMeterOptions): AnswerMeter {
  const { last, times = 1, units, onLast, readUsage = readMediaUsage, sound, limits } = options
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

  /** Only the blank line is missing where the data is whole; an event that was cut is left out. */
  function passLast(frame: SseFrame): readonly Buffer[] {
    const [start, end] = frame.data
    const isWhole = start !== undefined && membersOf(frame.source.subarray(start, end)) !== undefined
    return isWhole ? pass(completed(frame)) : []
  }

  /** Whether the answer is over with this event. */
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
    if (typeof type !== 'string' || !last.includes(type)) return false
    reading.finishes += 1
    onLast?.(members)
    const reportedUsage = readUsage(members('usage'))
    const sofar =
      reportedUsage && reading.usage
        ? sumUsage([reading.usage, reportedUsage])
        : (reportedUsage ?? reading.usage)
    const length = sound && { seconds: wholeSeconds(sound.seconds()) }
    reading.usage = sofar && { ...sofar, ...units?.(reading.finishes), ...length }
    reading.toldBytes = reading.textBytes
    return reading.finishes >= times
  }
}

/** A long text is a picture or sound, and no more than its quotes have to be taken off; everything else is bounded. */
function memberIn(bytes: Buffer, { valueStart, end }: Member): unknown {
  const isLong = end - valueStart > LONG_TEXT_BYTES && bytes[valueStart] === QUOTE
  const isPlain = isLong && !bytes.subarray(valueStart, end).includes('\\')
  if (isPlain) return bytes.toString('utf8', valueStart + 1, end - 1)
  return parseBounded(bytes.toString('utf8', valueStart, end))
}

/** Members of an object by name, each parsed only when it is asked for: a picture in it may have megabytes. */
function membersOf(bytes: Buffer): ((name: string) => unknown) | undefined {
  try {
    const members = topLevel(bytes)
    return name => {
      const match = members.find(({ key }) => key === name)
      return match && memberIn(bytes, match)
    }
  } catch {
    // No JSON object; it is passed on all the same.
    return undefined
  }
}
