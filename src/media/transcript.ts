import type { Usage } from '../domain/usage.ts'
import type { StoredFile } from '../wire/multipart.ts'
import type { Dialect } from './dialect.ts'

/** The formats of a transcript (docs/reference/relay-api.md: Transcription). */
export const TRANSCRIPT_FORMATS = ['json', 'text', 'srt', 'verbose_json', 'vtt'] as const
export type TranscriptFormat = (typeof TRANSCRIPT_FORMATS)[number]

export const GRANULARITIES = ['word', 'segment'] as const
export type Granularity = (typeof GRANULARITIES)[number]

export type Word = { readonly word: string; readonly start: number; readonly end: number }
export type Segment = { readonly text: string; readonly start: number; readonly end: number }

/** A transcript, independent of the vendor. */
export type Transcript = {
  readonly text: string
  readonly language?: string | undefined
  /** Seconds. */
  readonly duration?: number | undefined
  readonly words?: readonly Word[] | undefined
  readonly segments?: readonly Segment[] | undefined
  readonly usage?: Usage | undefined
}

/** A request for a transcript or its translation. */
export type TranscriptionAsk = {
  readonly task: 'transcribe' | 'translate'
  readonly model: string
  readonly file: StoredFile
  readonly language: string | undefined
  readonly prompt: string | undefined
  /** One of the five formats, or a vendor's own. */
  readonly format: string
  readonly temperature: number | undefined
  readonly granularities: readonly Granularity[]
  readonly isStream: boolean
  /** Every field unchanged, for vendors of the common format. */
  readonly fields: readonly (readonly [name: string, value: string])[]
  /** The seconds according to the file itself. */
  readonly seconds: number | undefined
}

export type TranscriptionDialect = Dialect<TranscriptionAsk, Transcript> & {
  /** Why the vendor cannot take this request, with the field at fault. */
  unfit?(
    ask: TranscriptionAsk,
    model: string,
  ): { readonly path: string; readonly message: string } | undefined
}

export const WITHOUT_TIMES = 'the provider returns no timestamps: the transcript is one segment'

/** Whether the requested format has timestamps. */
export const needsTimes = ({ format }: Pick<TranscriptionAsk, 'format'>) =>
  format !== 'json' && format !== 'text'

export const isTranscriptFormat = (format: string): format is TranscriptFormat =>
  (TRANSCRIPT_FORMATS as readonly string[]).includes(format)

/** The maximum length of a subtitle line, in characters and in seconds. */
const LINE_CHARACTERS = 84
const LINE_SECONDS = 7

/** Scripts without spaces between words. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}、。，！？]/u

const joint = (before: string, after: string) =>
  UNSPACED.test(Array.from(before).at(-1) ?? '') && UNSPACED.test(Array.from(after)[0] ?? '') ? '' : ' '

/** Joins words to lines: a new line begins after a sentence, or when a line would be too long to read. */
function linesOf(words: readonly Word[]): Segment[] {
  const lines: Segment[] = []
  for (const { word, start, end } of words) {
    const last = lines.at(-1)
    const text = last ? `${last.text}${joint(last.text, word)}${word}` : word
    const isFull =
      last === undefined ||
      /[.!?。！？]["'”’)]?$/.test(last.text) ||
      text.length > LINE_CHARACTERS ||
      end - last.start > LINE_SECONDS
    if (isFull) lines.push({ text: word, start, end })
    else lines[lines.length - 1] = { text, start: last.start, end }
  }
  return lines
}

/** At least one segment if there is any text: without timestamps it lasts as long as the audio. */
export function segmentsOf(transcript: Transcript): readonly Segment[] {
  const { segments, words, text, duration = 0 } = transcript
  if (segments && segments.length > 0) return segments
  if (words && words.length > 0) return linesOf(words)
  return text.trim() === '' ? [] : [{ text, start: 0, end: duration }]
}

const two = (value: number) => String(value).padStart(2, '0')

function stamp(seconds: number, mark: ',' | '.'): string {
  const ms = Math.max(0, Math.round(seconds * 1000))
  const clock = [Math.floor(ms / 3_600_000), Math.floor(ms / 60_000) % 60, Math.floor(ms / 1000) % 60]
  return `${clock.map(two).join(':')}${mark}${String(ms % 1000).padStart(3, '0')}`
}

/** A blank line or an arrow inside the text would end the cue. */
const cueOf = (text: string) =>
  text
    .split(/[\r\n]+/)
    .map(line => line.trim())
    .filter(line => line !== '')
    .join('\n')
    .replaceAll('-->', '->')

const srtOf = (transcript: Transcript) =>
  segmentsOf(transcript)
    .map(
      ({ text, start, end }, index) =>
        `${index + 1}\n${stamp(start, ',')} --> ${stamp(end, ',')}\n${cueOf(text)}\n`,
    )
    .join('\n')
    .concat('\n')

const vttOf = (transcript: Transcript) =>
  `WEBVTT\n\n${segmentsOf(transcript)
    .map(({ text, start, end }) => `${stamp(start, '.')} --> ${stamp(end, '.')}\n${cueOf(text)}\n`)
    .join('\n')}\n`

/** Always has `words` and `segments`; `words` is empty unless requested (docs/reference/relay-api.md: Transcription). */
export function verboseOf(transcript: Transcript, ask: Pick<TranscriptionAsk, 'task' | 'granularities'>) {
  const { text, language = '', duration = 0, words = [] } = transcript
  return {
    task: ask.task,
    language: ask.task === 'translate' ? 'english' : language,
    duration,
    text,
    words: ask.granularities.includes('word') ? words : [],
    segments: segmentsOf(transcript).map((segment, id) => ({ id, ...segment })),
  }
}

const JSON_TYPE = 'application/json; charset=utf-8'
const TEXT_TYPE = 'text/plain; charset=utf-8'

/** Encodes a transcript in the requested format. */
export function writeTranscript(
  transcript: Transcript,
  ask: Pick<TranscriptionAsk, 'task' | 'granularities' | 'isStream' | 'format'>,
): { body: Buffer; contentType: string } {
  const json = (value: unknown) => ({ body: Buffer.from(JSON.stringify(value)), contentType: JSON_TYPE })
  const plain = (text: string, contentType = TEXT_TYPE) => ({ body: Buffer.from(text), contentType })
  if (ask.isStream) return plain(eventsOf(transcript), 'text/event-stream; charset=utf-8')
  switch (ask.format) {
    case 'text':
      return plain(`${transcript.text.trim()}\n`)
    case 'srt':
      return plain(srtOf(transcript))
    case 'vtt':
      return plain(vttOf(transcript), 'text/vtt; charset=utf-8')
    case 'verbose_json':
      return json(verboseOf(transcript, ask))
    default:
      return json({ text: transcript.text })
  }
}

/** The events for an answer that was not streamed. */
function eventsOf({ text }: Transcript): string {
  const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`
  return (
    event({ type: 'transcript.text.delta', delta: text }) +
    event({ type: 'transcript.text.done', text }) +
    'data: [DONE]\n\n'
  )
}
