import { member } from '../domain/json-value.ts'
import { EMPTY, type Usage } from '../domain/usage.ts'
import { readMediaUsage, secondsIn } from '../metering/media-usage.ts'
import { AnswerError } from './dialect.ts'
import type { Segment, Transcript, Word } from './transcript.ts'

const numberOf = (value: unknown) => (typeof value === 'number' && Number.isFinite(value) ? value : 0)
const textOf = (value: unknown) => (typeof value === 'string' ? value : undefined)

/** Words or segments of any vendor: a text with start and end. */
function readTimed(list: unknown, name: string): { text: string; start: number; end: number }[] {
  if (!Array.isArray(list)) return []
  return list.flatMap(each => {
    const text = textOf(member(each, name)) ?? textOf(member(each, 'text'))
    return text === undefined
      ? []
      : [{ text, start: numberOf(member(each, 'start')), end: numberOf(member(each, 'end')) }]
  })
}

export const wordsOf = (list: unknown, name = 'word'): Word[] | undefined => {
  const words = readTimed(list, name).map(({ text, start, end }) => ({ word: text, start, end }))
  return words.length > 0 ? words : undefined
}

const segmentsIn = (list: unknown): Segment[] | undefined => {
  const segments = readTimed(list, 'text')
  return segments.length > 0 ? segments : undefined
}

/** The length or tokens that an answer reports; some vendors report both in one object. */
function transcriptUsage(answer: unknown): Usage | undefined {
  const usage = member(answer, 'usage')
  const audio = secondsIn(member(usage, 'prompt_audio_seconds'))
  const reportedUsage = readMediaUsage(usage)
  if (reportedUsage) return reportedUsage
  const seconds = audio ?? secondsIn(member(answer, 'duration'))
  return seconds === undefined || seconds === 0 ? undefined : { ...EMPTY, seconds, calls: 1 }
}

/** Reads a transcript in the common format, with the timestamps that the vendor reports. */
export function readCommonTranscript(answer: unknown): Transcript {
  if (member(answer, 'error')) throw new AnswerError('the response is an error')
  const text = member(answer, 'text')
  if (typeof text !== 'string') throw new AnswerError('the response has no text')
  const duration = member(answer, 'duration')
  return {
    text,
    language: textOf(member(answer, 'language')),
    duration: typeof duration === 'number' ? duration : undefined,
    words: wordsOf(member(answer, 'words')),
    segments: segmentsIn(member(answer, 'segments')),
    usage: transcriptUsage(answer),
  }
}
