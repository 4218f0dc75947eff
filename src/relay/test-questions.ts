import { Readable } from 'node:stream'
import { wavOf } from '../media/speech.ts'
import { embeddings } from './operations/embeddings.ts'
import { imageGenerations } from './operations/images.ts'
import { moderation } from './operations/moderation.ts'
import { chat } from './operations/openai.ts'
import type { OperationSpec, ReadContext, Work } from './operations/operation.ts'
import { rerank } from './operations/rerank.ts'
import { speech } from './operations/speech.ts'
import { transcription } from './operations/transcription.ts'

/** Something small that a channel can be asked, whatever its model is for. */
export type TestQuestion = { readonly spec: OperationSpec; readonly work: Work }

/** Room enough for a model that thinks before it answers. */
const MAX_TOKENS = 512

type Fields = Readonly<Record<string, unknown>>
type Reader = OperationSpec & Required<Pick<OperationSpec, 'read'>>

const SILENCE = wavOf(Buffer.alloc(24_000), 24_000)

/** What a model is for, by the words that its makers put in names. */
const BY_NAME: readonly (readonly [RegExp, Reader, Fields])[] = [
  [/rerank/i, rerank, { query: 'hi', documents: ['hello'] }],
  [/moderation/i, moderation, { input: 'hi' }],
  [/embed|m3e|bge-/i, embeddings, { input: ['hello world'] }],
  [/\btts\b|_tts|^eleven_|^aura|^speech-/i, speech, { input: 'hi', voice: 'alloy' }],
  [/\bimage\b|^imagen|dall-e|seedream|flux/i, imageGenerations, { prompt: 'a dot' }],
]
const HEARS = /whisper|transcri|^nova-|^scribe/i

/** By the name a channel sends, which tells more than what the administrator calls it. */
export async function questionOf(
  model: string,
  sent: string,
  asked: { isStream: boolean; desk: ReadContext },
): Promise<TestQuestion> {
  const { isStream, desk } = asked
  if (HEARS.test(sent)) return { spec: transcription, work: await hearing(model) }
  const [, spec, fields] = BY_NAME.find(([sign]) => sign.test(sent)) ?? [
    undefined,
    chat as Reader,
    {
      messages: [{ role: 'user', content: 'hi' }],
      max_tokens: MAX_TOKENS,
      ...(isStream ? { stream: true } : {}),
    },
  ]
  const body = { model, ...fields }
  return { spec, work: spec.read(body, Buffer.from(JSON.stringify(body)), desk) }
}

/** Half a second of nothing. */
const hearing = (model: string): Promise<Work> =>
  transcription.readForm({
    fields: [['model', model]],
    files: [
      {
        field: 'file',
        name: 'silence.wav',
        type: 'audio/wav',
        size: SILENCE.length,
        open: () => Readable.from([SILENCE], { objectMode: false }),
        read: async (offset, length) => SILENCE.subarray(offset, offset + length),
      },
    ],
    dispose: () => {},
  })
