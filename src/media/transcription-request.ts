import type { JsonObject } from '../domain/json-value.ts'
import { type RequestFields, type RequestReading, readRequest } from '../requests/request-fields.ts'
import { parseBounded } from '../wire/json-bounds.ts'
import { soundKind } from './audio/kind.ts'
import { GRANULARITIES, type Granularity, TRANSCRIPT_FORMATS, type TranscriptionAsk } from './transcript.ts'

/** Accepted file name extensions (docs/reference/relay-api.md: Transcription). */
const SOUND_FILES = ['flac', 'mp3', 'mp4', 'mpeg', 'mpga', 'm4a', 'ogg', 'wav', 'webm'] as const
/** The format with speakers, of models that distinguish them. */
const DIARIZED = 'diarized_json'
/** Languages of the standard model without a two-letter code. */
const LONG_CODES = ['haw', 'yue']

/** Fields in which hosts accept audio instead of the file: its length is unknown here, and it is billed. */
const OTHER_AUDIO = ['url', 'file_url', 'audio_url', 'audio', 'file_id', 'data'] as const

type FormFields = readonly (readonly [name: string, value: string])[]

/** A list index in a field name, which some clients add. */
const LISTED = /\[\d{0,3}\]$/

/** Converts form fields to a body: repeated fields and fields named `…[]` become lists. */
export function bodyOfForm(fields: FormFields): JsonObject {
  const body: Record<string, unknown> = Object.create(null)
  for (const [fieldName, value] of fields) {
    const name = fieldName.replace(LISTED, '')
    const isList = name !== fieldName
    const existing = body[name]
    if (isList || existing !== undefined)
      body[name] = [...(Array.isArray(existing) ? existing : existing === undefined ? [] : [existing]), value]
    else body[name] = value
  }
  return { ...body }
}

const NUMBER = /^-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,3})?$/i

/** All form fields are text; these are parsed as numbers and flags. */
export function typed(body: JsonObject, numbers: readonly string[], flags: readonly string[]): JsonObject {
  const read = (name: string, value: unknown) => {
    if (numbers.includes(name) && typeof value === 'string' && NUMBER.test(value)) return Number(value)
    if (flags.includes(name) && (value === 'true' || value === 'false')) return value === 'true'
    return value === '' && (numbers.includes(name) || flags.includes(name)) ? undefined : value
  }
  return Object.fromEntries(Object.entries(body).map(([name, value]) => [name, read(name, value)]))
}

/** Created on first use: it loads megabytes of names. */
let languages: Intl.DisplayNames | undefined

function isLanguage(code: string): boolean {
  languages ??= new Intl.DisplayNames(['en'], { type: 'language', fallback: 'none' })
  return languages.of(code) !== undefined
}

function readLanguage(fields: RequestFields): string | undefined {
  const language = fields.text('language')
  if (language === undefined || language === '') return undefined
  const isKnown = /^[a-z]{2}$/i.test(language) && isLanguage(language.toLowerCase())
  if (!isKnown && !LONG_CODES.includes(language))
    fields.refuse('language', 'must be an ISO 639-1 code, such as en')
  return language
}

function readGranularities(fields: RequestFields, body: JsonObject, format: string): readonly Granularity[] {
  const granularityField = body.timestamp_granularities ?? []
  const listed = (Array.isArray(granularityField) ? granularityField : [granularityField]).flatMap(listIn)
  const wrong = listed.find(each => !(GRANULARITIES as readonly unknown[]).includes(each))
  if (wrong !== undefined)
    fields.refuse('timestamp_granularities', `must be one or more of ${GRANULARITIES.join(', ')}`)
  else if (listed.length > 0 && format !== 'verbose_json')
    fields.refuse('timestamp_granularities', 'requires response_format verbose_json')
  return [...new Set(listed)] as readonly Granularity[]
}

/** A list may also be JSON in one field. */
function listIn(value: unknown): readonly unknown[] {
  if (typeof value !== 'string' || !value.startsWith('[')) return [value]
  try {
    const list: unknown = parseBounded(value)
    return Array.isArray(list) ? list : [value]
  } catch {
    return [value]
  }
}

export type UploadedAudio = Pick<TranscriptionAsk, 'task' | 'seconds'> & {
  readonly file: TranscriptionAsk['file'] | undefined
  /** The file's first bytes. */
  readonly head: Buffer
}

export function readTranscriptionRequest(
  form: FormFields,
  { task, file, head, seconds }: UploadedAudio,
): RequestReading<TranscriptionAsk> {
  const body = typed(bodyOfForm(form), ['temperature'], ['stream'])
  // The file is not a form field, but is checked like a required one.
  return readRequest({ ...body, file: file?.name }, fields => {
    const model = fields.model()
    if (fields.required('file') !== undefined) checkFile(fields, file, head)
    const otherAudio = OTHER_AUDIO.find(name => (body[name] ?? '') !== '')
    if (otherAudio !== undefined)
      fields.refuse(otherAudio, 'is not supported: upload the audio in the field file')
    const language = task === 'transcribe' ? readLanguage(fields) : undefined
    const prompt = fields.text('prompt')
    const formats = /diarize/.test(model) ? [...TRANSCRIPT_FORMATS, DIARIZED] : TRANSCRIPT_FORMATS
    const format = fields.choice('response_format', formats) ?? 'json'
    const temperature = fields.number('temperature', 0, 1)
    const granularities = task === 'transcribe' ? readGranularities(fields, body, format) : []
    const isStream = task === 'transcribe' && fields.flag('stream')
    if (file === undefined) return undefined
    return {
      task,
      model,
      file,
      language,
      prompt,
      format,
      temperature,
      granularities,
      isStream,
      fields: form,
      seconds,
    }
  })
}

function checkFile(fields: RequestFields, file: UploadedAudio['file'], head: Buffer): void {
  const ending = /\.([a-z0-9]+)$/i.exec(file?.name ?? '')?.[1]?.toLowerCase() ?? ''
  const accepted = SOUND_FILES.join(', ')
  if (!(SOUND_FILES as readonly string[]).includes(ending))
    fields.refuse('file', `must have a name that ends in one of ${accepted}`)
  else if (file?.size === 0) fields.refuse('file', 'must not be empty')
  else if (soundKind(head) === undefined)
    fields.refuse('file', `must contain audio in one of the formats ${accepted}`)
}
