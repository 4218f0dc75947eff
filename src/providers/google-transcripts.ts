import { AnswerError, presentFields } from '../media/dialect.ts'
import {
  needsTimes,
  type Transcript,
  type TranscriptionAsk,
  type TranscriptionDialect,
  WITHOUT_TIMES,
  type Word,
} from '../media/transcript.ts'
import { embed } from '../wire/embedded.ts'
import { memberOf } from './member.ts'
import { googleUsage } from './pictures.ts'

/** A request with inline files is limited to 20 MB, and base64 adds a third. */
export const MAX_INLINE_BYTES = 14 * 1_048_576

/** By the file extension, which was checked against the content. */
const TYPES: Readonly<Record<string, string>> = {
  flac: 'audio/flac',
  m4a: 'audio/m4a',
  mp3: 'audio/mp3',
  mp4: 'audio/mp4',
  mpeg: 'audio/mpeg',
  mpga: 'audio/mpga',
  ogg: 'audio/ogg',
  wav: 'audio/wav',
  webm: 'audio/webm',
}

const typeOf = ({ file: { name, type } }: TranscriptionAsk) =>
  TYPES[name.slice(name.lastIndexOf('.') + 1).toLowerCase()] ?? type

/** Pure transcription models, which accept no instructions. */
const isScribe = (model: string) => model.includes('transcribe')

const TASKS = {
  transcribe: 'Write down word for word what is said in this recording, in the language it is said in.',
  translate: 'Write down what is said in this recording, translated into English.',
} as const

function instructionOf({ task, language, prompt }: TranscriptionAsk): string {
  return [
    TASKS[task],
    'Answer with that text alone, without times, names of speakers or remarks; with nothing where nobody speaks.',
    ...(language ? [`The language has the code ${language}.`] : []),
    ...(prompt ? [`What came before it, or words that occur in it: ${prompt}`] : []),
  ].join(' ')
}

function encode(ask: TranscriptionAsk, model: string, maxOutput?: number) {
  const recording = { inlineData: { mimeType: typeOf(ask), data: embed(ask.file) } }
  const hasTimes = needsTimes(ask)
  if (isScribe(model)) {
    const { prompt, temperature } = ask
    return {
      json: {
        contents: [{ role: 'user', parts: [recording] }],
        generationConfig: {
          audioTranscriptionConfig: presentFields({
            languageCodes: ask.language && [ask.language],
            // Word timestamps reduce the accuracy, so they are requested only if the client wants them.
            wordTimestamp: hasTimes || undefined,
          }),
        },
      },
      warnings: Object.keys(presentFields({ prompt, temperature })).map(name => `${name} is not supported`),
    }
  }
  return {
    json: {
      contents: [{ role: 'user', parts: [{ text: instructionOf(ask) }, recording] }],
      generationConfig: presentFields({ temperature: ask.temperature, maxOutputTokens: maxOutput }),
    },
    warnings: hasTimes ? [WITHOUT_TIMES] : [],
  }
}

function unfit({ file, task }: TranscriptionAsk, model: string) {
  if (isScribe(model) && task === 'translate')
    return { path: 'model', message: 'transcribes only and does not support translation' }
  return file.size > MAX_INLINE_BYTES
    ? { path: 'file', message: `must have at most ${MAX_INLINE_BYTES} bytes for this model` }
    : undefined
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** `1.5s` */
const secondsOf = (offset: unknown) => Number(/^(\d+(?:\.\d+)?)s$/.exec(String(offset ?? ''))?.[1] ?? 0)

const wordsIn = (transcription: unknown): Word[] =>
  listOf(memberOf(transcription, 'words')).flatMap(each => {
    const word = memberOf(each, 'word')
    const [start, end] = [memberOf(each, 'startOffset'), memberOf(each, 'endOffset')].map(secondsOf)
    return typeof word === 'string' ? [{ word, start: start ?? 0, end: end ?? 0 }] : []
  })

function decode(answer: unknown): Transcript {
  const [candidate] = listOf(memberOf(answer, 'candidates'))
  const reason = memberOf(candidate, 'finishReason')
  // Any other reason means that a part of the transcript is missing.
  if (reason !== 'STOP') throw new AnswerError(`the transcript ended with ${String(reason ?? 'no reason')}`)
  const parts = listOf(memberOf(memberOf(candidate, 'content'), 'parts')).filter(
    part => memberOf(part, 'thought') !== true,
  )
  const transcriptions = parts.map(part => memberOf(part, 'audioTranscription'))
  const texts = parts.map((part, at) => memberOf(transcriptions[at], 'text') ?? memberOf(part, 'text'))
  const words = transcriptions.flatMap(wordsIn)
  const hasTranscriptions = transcriptions.some(each => each !== undefined)
  return {
    // The text of a speaker turn has no leading space.
    text: texts
      .filter(text => typeof text === 'string' && text !== '')
      .join(hasTranscriptions ? ' ' : '')
      .trim(),
    words: words.length > 0 ? words : undefined,
    usage: googleUsage([answer]),
  }
}

/** Audio inside a `generateContent` request: the vendor has no endpoint for audio files. */
export const googleTranscripts: TranscriptionDialect = { encode, decode, unfit }
