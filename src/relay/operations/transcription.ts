import type { JsonObject } from '../../domain/json-value.ts'
import { EMPTY, totalInput, totalOutput, type Usage, wholeSeconds } from '../../domain/usage.ts'
import { measureSound } from '../../media/audio/length.ts'
import { createEventMeter } from '../../media/event-meter.ts'
import {
  isTranscriptFormat,
  needsTimes,
  TRANSCRIPT_FORMATS,
  type Transcript,
  type TranscriptionAsk,
  verboseOf,
  WITHOUT_TIMES,
  writeTranscript,
} from '../../media/transcript.ts'
import { readCommonTranscript } from '../../media/transcript-answer.ts'
import { readTranscriptionRequest } from '../../media/transcription-request.ts'
import { readMediaUsage } from '../../metering/media-usage.ts'
import { OPEN_OBJECT } from '../../wire/ascii.ts'
import { TEXT_TYPE } from '../answer/content-type.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { Form } from '../intake/form-content.ts'
import type { BufferedResponse } from '../upstream/exchange.ts'
import { answerFrom, badParameter, dialectOf, formatWith, readingDocument, upstreamBody } from './carry.ts'
import type { AnswerReading } from './channel-request.ts'
import { FEWEST_BYTES_PER_SECOND } from './file-meter.ts'
import type { OperationSpec, Work } from './operation.ts'
import { mustRead } from './request-reader.ts'

const HEAD_BYTES = 65_536
/** The assumed minimum of bytes per second, for the hold of audio whose length is unknown. */
const LEAST_BYTES_PER_SECOND = 1_000
/** If neither the file nor the provider reports a length, the gateway assumes speech of 32 kbit/s. */
const USUAL_BYTES_PER_SECOND = 4_000
/** The maximum and the usual number of tokens that vendors count per second of audio. */
const MOST_TOKENS_PER_SECOND = 32
const USUAL_TOKENS_PER_SECOND = 10
/** Faster than any speech, including speaker labels and timestamps. */
const OUTPUT_TOKENS_PER_SECOND = 50
/** The instruction that is sent as a prompt to vendors without a transcription endpoint. */
const INSTRUCTION_TOKENS = 512
/** The minimum length that vendors charge. */
const LEAST_SECONDS = 10

type Task = 'transcription' | 'translation'

const isText = (format: string) => format === 'text' || format === 'srt' || format === 'vtt'

/**
 * The response format to request from a vendor: the client's, or one that can be converted to it. Plain text lacks the
 * length of the audio, which is billed: if the vendor has a format with the length, that one is requested.
 */
function formOn({ provider }: RelayChannel, sentModel: string, { format }: TranscriptionAsk): string {
  const formats = provider.transcripts?.(sentModel) ?? TRANSCRIPT_FORMATS
  if (isText(format) && formats.includes('verbose_json')) return 'verbose_json'
  return !isTranscriptFormat(format) || formats.includes(format) ? format : 'json'
}

/** Fields that the gateway sets itself. */
const SET_FIELDS = /^(?:model|response_format|timestamp_granularities(?:\[\d*\])?)$/

/** The client's own form, with the model and the response format set for the vendor. */
function common(ask: TranscriptionAsk, channel: RelayChannel, sentModel: string) {
  const form = formOn(channel, sentModel, ask)
  const isOwn = ([name, value]: readonly [string, string]) => value !== '' && !SET_FIELDS.test(name)
  // Only this response format has timestamps.
  const times = form === 'verbose_json' ? ask.granularities : []
  const hasNoTimes = form === 'json' && needsTimes(ask)
  return upstreamBody(
    {
      parts: [
        { name: 'model', value: sentModel },
        ...ask.fields.filter(isOwn).map(([name, value]) => ({ name, value })),
        ...times.map(value => ({ name: 'timestamp_granularities[]', value })),
        ...(ask.fields.some(([name]) => name === 'response_format')
          ? [{ name: 'response_format', value: form }]
          : []),
        { name: 'file', file: ask.file },
      ],
      ...(hasNoTimes && { warnings: [WITHOUT_TIMES] }),
    },
    channel,
  )
}

/** A plain text. Some servers send it with the content type of JSON, with or without quotes. */
function plainText(body: Buffer, type: string): AnswerReading | Promise<AnswerReading> | undefined {
  const read = (text: Buffer): AnswerReading => ({
    usage: undefined,
    outputBytes: body.length,
    answer: { body: text, contentType: TEXT_TYPE },
  })
  if (!/json/i.test(type)) return read(body)
  const begin = body.toString('latin1', 0, HEAD_BYTES).trimStart()[0]
  if (begin === '{' || begin === '[' || begin === undefined) return undefined
  return begin === '"' ? readingDocument(body, text => read(Buffer.from(String(text)))) : read(body)
}

const usualSeconds = ({ seconds, file }: TranscriptionAsk) => seconds ?? file.size / USUAL_BYTES_PER_SECOND

/** Adds the length to usage in tokens, because the price may be per second. Empty usage stays empty. */
const timed = (usage: Usage, seconds: number): Usage =>
  usage.seconds > 0 || totalInput(usage) + totalOutput(usage) === 0
    ? usage
    : { ...usage, seconds: wholeSeconds(seconds) }

/** Required fields that a verbose response lacks (docs/reference/relay-api.md: Transcription). */
const missingIn = (answer: JsonObject, transcript: Transcript, ask: TranscriptionAsk): JsonObject =>
  Object.fromEntries(
    Object.entries(verboseOf(transcript, ask)).filter(([name]) => (answer[name] ?? undefined) === undefined),
  )

function read(
  ask: TranscriptionAsk,
  { body, headers }: BufferedResponse,
  channel: RelayChannel,
  sentModel: string,
): AnswerReading | Promise<AnswerReading> {
  const type = String(headers['content-type'] ?? '')
  if (/html/i.test(type)) return { usage: undefined, outputBytes: 0, fault: 'the response is an HTML page' }
  const dialect = dialectOf(TASKS[ask.task], 'openai', channel, sentModel)
  const isRequestedFormat = !dialect && formOn(channel, sentModel, ask) === ask.format && !ask.isStream
  // A host may answer in the client's format although another was requested, or send text with the content type of JSON.
  const isPlain =
    !dialect && !ask.isStream && isText(ask.format) && (isRequestedFormat || body[0] !== OPEN_OBJECT)
  const plain = isPlain ? plainText(body, type) : undefined
  if (plain) return plain
  return readingDocument(body, document =>
    readTranscript(ask, body, { document, dialect, isRequestedFormat }),
  )
}

type TranscriptSource = {
  readonly document: unknown
  readonly dialect: ReturnType<typeof dialectOf<'transcription' | 'translation'>>
  /** The client's own response format was requested from the vendor. */
  readonly isRequestedFormat: boolean
}

function readTranscript(
  ask: TranscriptionAsk,
  body: Buffer,
  { document: parsed, dialect, isRequestedFormat }: TranscriptSource,
) {
  const reading = dialect ? dialect.decode(parsed, ask) : readCommonTranscript(parsed)
  const transcript: Transcript = {
    ...reading,
    language: reading.language ?? ask.language,
    duration: reading.duration ?? ask.seconds,
  }
  const outputBytes = Buffer.byteLength(reading.text)
  const usage = reading.usage && timed(reading.usage, transcript.duration ?? usualSeconds(ask))
  const read = { usage, outputBytes }
  if (!isRequestedFormat || isText(ask.format)) return { ...read, answer: writeTranscript(transcript, ask) }
  // The vendor's response stays unchanged, unknown fields included, unless a required field is missing.
  const missing = ask.format === 'verbose_json' ? missingIn(parsed as JsonObject, transcript, ask) : {}
  const isWhole = Object.keys(missing).length === 0
  return isWhole
    ? read
    : { ...read, answer: answerFrom(body, () => ({ ...(parsed as JsonObject), ...missing })) }
}

const TASKS = { transcribe: 'transcription', translate: 'translation' } as const

async function askOf(form: Form, task: TranscriptionAsk['task']): Promise<TranscriptionAsk> {
  const [file, ...others] = form.files
  if (file && (file.field !== 'file' || others.length > 0))
    throw badParameter(file.field, 'must be one file, in the field file')
  const head = (await file?.read(0, HEAD_BYTES)) ?? Buffer.alloc(0)
  const measured = file && (await measureSound(file))
  return mustRead(readTranscriptionRequest(form.fields, { task, file, head, seconds: measured?.seconds }))
}

const specOf = (operation: Task, task: TranscriptionAsk['task']) =>
  ({
    operation,
    format: 'openai',
    formatFor: formatWith(operation, 'openai'),
    async readForm(form): Promise<Work> {
      const ask = await askOf(form, task)
      const { size } = ask.file
      const seconds = Math.max(
        LEAST_SECONDS,
        wholeSeconds(ask.seconds === undefined ? size / LEAST_BYTES_PER_SECOND : ask.seconds) + 1,
      )
      const usual = wholeSeconds(usualSeconds(ask))
      const countedInput = usual * USUAL_TOKENS_PER_SECOND
      const promptBytes = Buffer.byteLength(ask.prompt ?? '')
      const outputTokens = (maximum?: number) => Math.max(maximum ?? 0, seconds * OUTPUT_TOKENS_PER_SECOND)
      return {
        model: ask.model,
        isStream: ask.isStream,
        acceptsNonStream: ask.isStream,
        inputTokens: seconds * MOST_TOKENS_PER_SECOND + promptBytes + INSTRUCTION_TOKENS,
        countedInput,
        outputTokens,
        units: { seconds, calls: 1 },
        secondsLimit: Math.max(seconds, size / FEWEST_BYTES_PER_SECOND),
        counted: (output): Usage => ({
          ...EMPTY,
          audioInput: countedInput,
          output,
          seconds: usual,
          calls: 1,
        }),
        unfit(channel, sentModel) {
          const fault = dialectOf(operation, 'openai', channel, sentModel)?.unfit?.(ask, sentModel)
          return fault && badParameter(fault.path, fault.message)
        },
        requestFor(channel, sentModel, limits) {
          const dialect = dialectOf(operation, 'openai', channel, sentModel)
          const most = outputTokens(limits?.maxOutput(channel))
          const encoded = dialect
            ? upstreamBody(dialect.encode(ask, sentModel, most), channel)
            : common(ask, channel, sentModel)
          return {
            ...encoded,
            readBuffered: answer => read(ask, answer, channel, sentModel),
            meter: () =>
              createEventMeter({
                last: ['transcript.text.done'],
                readUsage(value) {
                  const usage = readMediaUsage(value)
                  return usage && timed(usage, usualSeconds(ask))
                },
              }),
          }
        },
      }
    },
  }) satisfies OperationSpec

export const transcription = specOf('transcription', 'transcribe')
export const translation = specOf('translation', 'translate')
