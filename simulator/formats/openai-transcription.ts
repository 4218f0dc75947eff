import { fieldIn, readForm } from '../form.ts'
import { ProviderError } from '../provider-error.ts'
import { splitTokens } from '../tokens.ts'
import type { Inquiry, Reply, StreamFrame } from './format.ts'
import { missing } from './openai-request.ts'
import { EVENT_STREAM, eventOf } from './openai-stream.ts'

const BYTES_PER_SECOND = 16_000
const SECONDS_PER_WORD = 0.5

/** The length of a file: by its header for WAV, else by its size. */
export function lengthOf(bytes: Buffer): number {
  const isWav = bytes.toString('latin1', 0, 4) === 'RIFF' && bytes.length > 44
  return isWav ? (bytes.length - 44) / bytes.readUInt32LE(28) : bytes.length / BYTES_PER_SECOND
}

/** The transcript has the file's name and size, so that tests can check whether it arrived completely. */
export const transcriptOf = (name: string, bytes: Buffer) => `I heard ${name} of ${bytes.length} bytes.`

export function timedWords(text: string): { word: string; start: number; end: number }[] {
  return text.split(' ').map((word, at) => ({
    word,
    start: at * SECONDS_PER_WORD,
    end: (at + 1) * SECONDS_PER_WORD,
  }))
}

/** Only the oldest model supports other formats than JSON. */
const isOldest = (model: string) => !model.startsWith('gpt-')

export const answerTranscription = (inquiry: Inquiry) => answer(inquiry, 'transcribe')
export const answerTranslation = (inquiry: Inquiry) => answer(inquiry, 'translate')

function answer({ id, bytes, headers }: Inquiry, task: string): Reply {
  const form = readForm(bytes, headers)
  const model = fieldIn(form, 'model')
  const [file] = form.files.get('file') ?? []
  if (!model) throw missing('model')
  if (!file) throw missing('file')
  const format = fieldIn(form, 'response_format') ?? 'json'
  if (!isOldest(model) && format !== 'json')
    throw new ProviderError(
      'bad_value',
      `response_format '${format}' is not compatible with ${model}.`,
      'response_format',
    )
  const seconds = Math.ceil(lengthOf(file.bytes))
  const text = transcriptOf(file.name, file.bytes)
  const words = timedWords(text)
  const tokens = splitTokens(text)
  const bill = { id: `req_${id}`, model, promptTokens: 0, units: { seconds } }
  const usage = isOldest(model)
    ? { type: 'duration', seconds }
    : {
        type: 'tokens',
        input_tokens: seconds * 10,
        input_token_details: { text_tokens: 0, audio_tokens: seconds * 10 },
        output_tokens: tokens.length,
        total_tokens: seconds * 10 + tokens.length,
      }
  if (fieldIn(form, 'stream') === 'true' && !isOldest(model))
    return { kind: 'stream', contentType: EVENT_STREAM, frames: events(tokens, text, usage), bill }
  const end = words.at(-1)?.end ?? 0
  const plain = (body: string): Reply => ({
    kind: 'whole',
    body,
    contentType: 'text/plain; charset=utf-8',
    tokens: tokens.length,
    bill,
  })
  if (format === 'text') return plain(`${text}\n`)
  if (format === 'srt') return plain(`1\n00:00:00,000 --> ${clock(end, ',')}\n${text}\n\n`)
  if (format === 'vtt') return plain(`WEBVTT\n\n00:00:00.000 --> ${clock(end, '.')}\n${text}\n\n`)
  const granularities = form.fields.get('timestamp_granularities[]') ?? []
  const verbose = {
    task,
    language: 'english',
    duration: lengthOf(file.bytes),
    ...(granularities.includes('word') && { words }),
    segments: [{ id: 0, start: 0, end, text }],
  }
  const body = JSON.stringify({ ...(format === 'verbose_json' && verbose), text, usage })
  return { kind: 'whole', body, tokens: tokens.length, bill }
}

function* events(tokens: readonly string[], text: string, usage: object): Generator<StreamFrame> {
  for (const delta of tokens) yield { data: eventOf({ type: 'transcript.text.delta', delta }), tokens: 1 }
  yield { data: eventOf({ type: 'transcript.text.done', text, usage }), tokens: 0 }
  yield { data: 'data: [DONE]\n\n', tokens: 0 }
}

const clock = (seconds: number, mark: string) =>
  `00:00:${String(Math.floor(seconds)).padStart(2, '0')}${mark}${String(Math.round((seconds % 1) * 1000)).padStart(3, '0')}`
