import { EMPTY, type Usage, wholeSeconds } from '../../domain/usage.ts'
import { createSoundMeter } from '../../media/audio/sound-meter.ts'
import { isDearerSpeechField, unpricedWarnings } from '../../media/dearer-fields.ts'
import { AnswerError } from '../../media/dialect.ts'
import { createEventMeter } from '../../media/event-meter.ts'
import type { Voices } from '../../media/speech.ts'
import { readSpeechRequest, SPEECH_TYPES, type SpeechAsk, VOICES } from '../../media/speech-request.ts'
import { parseInSlices } from '../../wire/json-slices.ts'
import { createSseScanner, dataText, SseError, type SseFrame } from '../../wire/sse.ts'
import { BYTES_TYPE, mediaType } from '../answer/content-type.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import { badParameter, dialectOf, formatWith, readingDocument, readingLater, upstreamBody } from './carry.ts'
import type { AnswerReading, StreamMeter, UpstreamBody } from './channel-request.ts'
import { createFileMeter, FEWEST_BYTES_PER_SECOND } from './file-meter.ts'
import type { OperationSpec, Work } from './operation.ts'
import { clientBody, mustRead } from './request-reader.ts'

/** An upper bound for any voice: no character takes longer, not even a digit or a symbol with a long name. */
const SECONDS_PER_CHARACTER = 1
const LEAST_SECONDS = 10
/** The maximum and the usual number of tokens that vendors count per second of audio. */
const MOST_TOKENS_PER_SECOND = 50
const TOKENS_PER_SECOND = 25
const BYTES_PER_TOKEN = 4
/** The usual rate of speech. */
const CHARACTERS_PER_SECOND = 14
/** Each event holds a few seconds of audio in base64. */
const EVENT_LIMITS = { maxLineBytes: 16 * 1_048_576, maxEventBytes: 16 * 1_048_576 }

const isDocument = /^(application\/(?:[\w.+-]*\+)?(?:json|xml)|text\/|image\/)/i

const textOf = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)

const voicesOf = (channel: RelayChannel, sentModel: string) =>
  dialectOf('speech', 'openai', channel, sentModel)?.voices ?? channel.provider.voices

/** The name of the voice on a channel: from the channel's setting, else from the provider's file, else as requested. */
function voiceOn({ setting }: RelayChannel, voice: string, { standIns }: Voices = {}): string {
  const { voices } = setting
  const isMapped = typeof voices === 'object' && voices !== null && Object.hasOwn(voices, voice)
  const mappedVoice = isMapped ? textOf((voices as Record<string, unknown>)[voice]) : undefined
  return mappedVoice ?? standIns?.[voice] ?? voice
}

function isVoiceOf(channel: RelayChannel, { voice, body }: SpeechAsk, voices: Voices | undefined): boolean {
  // An object refers to a voice of the account that owns the key.
  if (typeof body.voice === 'object') return true
  const names = voices?.names
  const name = voiceOn(channel, voice, voices)
  // A voice that the channel's setting maps is always accepted.
  if (name !== voice || names === undefined) return true
  return names.includes(voice) || (VOICES as readonly string[]).includes(voice)
}

function unfit(ask: SpeechAsk, channel: RelayChannel, sentModel: string) {
  const voices = voicesOf(channel, sentModel)
  if (!isVoiceOf(channel, ask, voices))
    return badParameter('voice', `must be one of ${voices?.names?.join(', ')}`)
  const dialect = dialectOf('speech', 'openai', channel, sentModel)
  if (!dialect) return undefined
  if (ask.isEvents) return badParameter('stream_format', 'must be audio: the provider does not support SSE')
  return ask.format === undefined || dialect.formats.includes(ask.format)
    ? undefined
    : badParameter('response_format', `must be one of ${dialect.formats.join(', ')} for this model`)
}

/** The client's own body for vendors of the common format, without fields that may raise the cost. */
function encodeCommon(
  ask: SpeechAsk,
  bytes: Buffer,
  channel: RelayChannel,
  { sent: sentModel, voice }: { readonly sent: string; readonly voice: string },
): UpstreamBody {
  const removed = Object.keys(ask.body).filter(name => name !== 'model' && isDearerSpeechField(name))
  const edits = {
    ...(voice !== ask.voice && { voice }),
    ...Object.fromEntries(removed.map(name => [name, undefined])),
  }
  const encoded = clientBody({ bytes }, ask.model, sentModel, channel, edits)
  return removed.length === 0 ? encoded : { ...encoded, warnings: unpricedWarnings(removed) }
}

/** If the client names no format and the vendor has no mp3, the vendor's own format is used and the client is warned. */
function encode(ask: SpeechAsk, bytes: Buffer, channel: RelayChannel, sentModel: string) {
  const voice = voiceOn(channel, ask.voice, voicesOf(channel, sentModel))
  const dialect = dialectOf('speech', 'openai', channel, sentModel)
  if (!dialect) return encodeCommon(ask, bytes, channel, { sent: sentModel, voice })
  const format = ask.format ?? dialect.formats[0]
  const encoded = dialect.encode({ ...ask, voice, format }, sentModel)
  const other = ask.format === undefined && format !== 'mp3' ? [`response_format is ${format}`] : []
  return upstreamBody({ ...encoded, warnings: [...(encoded.warnings ?? []), ...other] }, channel)
}

/** An answer with more events is rejected. */
const MAX_EVENTS = 10_000

/** The JSON documents of an answer, one per event. */
async function documentsIn(body: Buffer): Promise<unknown[]> {
  const documents: unknown[] = []
  for (const frame of framesIn(body)) documents.push(await parseInSlices(Buffer.from(dataText(frame))))
  return documents
}

function framesIn(body: Buffer): readonly SseFrame[] {
  const scanner = createSseScanner(EVENT_LIMITS)
  try {
    const frames = [...scanner.push(body), ...scanner.end()].filter(({ data }) => data.length > 0)
    if (frames.length > MAX_EVENTS) throw new AnswerError(`the response has more than ${MAX_EVENTS} events`)
    return frames
  } catch (error) {
    if (error instanceof SseError) throw new AnswerError(error.message)
    throw error
  }
}

/** The usage for this many seconds of speech. */
type UsageOf = (seconds: number) => Usage

function meterOf(ask: SpeechAsk, usageOf: UsageOf, length: number | undefined): StreamMeter {
  const type = SPEECH_TYPES[ask.format ?? 'mp3']
  if (!ask.isEvents) {
    const meter = createFileMeter(type, length)
    return { ...meter, measured: () => usageOf(meter.seconds()) }
  }
  const sound = createSoundMeter(type)
  const units = () => ({ characters: ask.characters })
  const meter = createEventMeter({ last: ['speech.audio.done'], units, sound, limits: EVENT_LIMITS })
  return { ...meter, measured: () => usageOf(sound?.seconds() ?? 0) }
}

function readSpeech(
  ask: SpeechAsk,
  usageOf: UsageOf,
  dialect: ReturnType<typeof dialectOf<'speech'>>,
  body: Buffer,
): AnswerReading | Promise<AnswerReading> {
  const decode = dialect?.decode
  if (!decode) return { usage: undefined, outputBytes: 0, fault: 'the response is not audio' }
  const read = (document: unknown): AnswerReading => {
    const { audio, contentType, usage } = decode(document, ask)
    const sound = createSoundMeter(contentType)
    sound?.push(audio)
    return {
      usage: usage && {
        ...usage,
        characters: ask.characters,
        seconds: wholeSeconds(Math.min(sound?.seconds() ?? 0, audio.length / FEWEST_BYTES_PER_SECOND)),
      },
      measured: usageOf(sound?.seconds() ?? 0),
      outputBytes: 0,
      answer: { body: audio, contentType: mediaType(contentType) ?? BYTES_TYPE },
    }
  }
  return dialect.isEvents
    ? readingLater(async () => read(await documentsIn(body)))
    : readingDocument(body, read)
}

export const speech = {
  operation: 'speech',
  format: 'openai',
  formatFor: formatWith('speech', 'openai'),
  read(parsed, bytes): Work {
    const ask = mustRead(readSpeechRequest(parsed))
    const textBytes = Buffer.byteLength(ask.input) + Buffer.byteLength(ask.instructions ?? '')
    const seconds =
      Math.ceil((ask.characters * SECONDS_PER_CHARACTER) / Math.min(1, ask.speed)) + LEAST_SECONDS
    const countedInput = Math.ceil(textBytes / BYTES_PER_TOKEN)
    const usageOf = (length: number): Usage => ({
      ...EMPTY,
      input: countedInput,
      output: Math.ceil(length * TOKENS_PER_SECOND),
      characters: ask.characters,
      seconds: wholeSeconds(length),
      calls: 1,
    })
    return {
      model: ask.model,
      isStream: ask.isEvents,
      inputTokens: textBytes,
      countedInput,
      outputTokens: () => seconds * MOST_TOKENS_PER_SECOND,
      units: { characters: ask.characters, seconds, calls: 1 },
      // The gateway measures the length while it delivers the audio, so no reported length has to be checked.
      secondsLimit: Number.POSITIVE_INFINITY,
      counted: () => usageOf(0),
      estimated: () => usageOf(ask.characters / CHARACTERS_PER_SECOND / ask.speed),
      unfit: (channel, sentModel) => unfit(ask, channel, sentModel),
      placeholders: channel => ({ voice: voiceOn(channel, ask.voice, channel.provider.voices) }),
      fileType: SPEECH_TYPES[ask.format ?? 'mp3'],
      passes: contentType => !ask.isEvents && !isDocument.test(contentType),
      requestFor: (channel, sentModel) => ({
        ...encode(ask, bytes, channel, sentModel),
        meter: length => meterOf(ask, usageOf, length),
        readBuffered: ({ body }) =>
          readSpeech(ask, usageOf, dialectOf('speech', 'openai', channel, sentModel), body),
      }),
    }
  },
} satisfies OperationSpec
