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

/** A request with files in it may have 20 MB, and base64 makes four bytes of three. */
export const MAX_INLINE_BYTES = 14 * 1_048_576

/** By the ending of the name, which was checked against the content. */
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

/** Models that do nothing but write down what is said, and take no words. */
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
            // Words with times are heard less well, so they are asked for only where somebody wants them.
            wordTimestamp: hasTimes || undefined,
          }),
        },
      },
      warnings: Object.keys(presentFields({ prompt, temperature })).map(name => `${name} is not taken`),
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
    return { path: 'model', message: 'writes down what is said and translates nothing' }
  return file.size > MAX_INLINE_BYTES
    ? { path: 'file', message: `must be at most ${MAX_INLINE_BYTES} bytes for this model` }
    : undefined
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** `1.5s` */
const secondsOf = (offset: unknown) => Number(/^(\d+(?:\.\d+)?)s$/.exec(String(offset ?? ''))?.[1] ?? 0)

const wordsIn = (spoken: unknown): Word[] =>
  listOf(memberOf(spoken, 'words')).flatMap(each => {
    const word = memberOf(each, 'word')
    const [start, end] = [memberOf(each, 'startOffset'), memberOf(each, 'endOffset')].map(secondsOf)
    return typeof word === 'string' ? [{ word, start: start ?? 0, end: end ?? 0 }] : []
  })

function decode(answer: unknown): Transcript {
  const [candidate] = listOf(memberOf(answer, 'candidates'))
  const reason = memberOf(candidate, 'finishReason')
  // Nothing is said in silence; any other reason says that something is missing.
  if (reason !== 'STOP') throw new AnswerError(`the transcript ended with ${String(reason ?? 'no reason')}`)
  const parts = listOf(memberOf(memberOf(candidate, 'content'), 'parts')).filter(
    part => memberOf(part, 'thought') !== true,
  )
  const spoken = parts.map(part => memberOf(part, 'audioTranscription'))
  const texts = parts.map((part, at) => memberOf(spoken[at], 'text') ?? memberOf(part, 'text'))
  const words = spoken.flatMap(wordsIn)
  const isTold = spoken.some(each => each !== undefined)
  return {
    // A turn of a speaker comes without the space before it.
    text: texts
      .filter(text => typeof text === 'string' && text !== '')
      .join(isTold ? ' ' : '')
      .trim(),
    words: words.length > 0 ? words : undefined,
    usage: googleUsage([answer]),
  }
}

/** Sound inside a request for content: the vendor has no address that takes files for this. */
export const googleTranscripts: TranscriptionDialect = { encode, decode, unfit }
