import { Readable } from 'node:stream'
import { wavOf } from '../media/speech.ts'
import { type ModelPurpose, purposeOf } from '../models/purposes.ts'
import { embeddings } from './operations/embeddings.ts'
import { imageGenerations } from './operations/images.ts'
import { moderation } from './operations/moderation.ts'
import { chat } from './operations/openai.ts'
import type { OperationSpec, ReadContext, Work } from './operations/operation.ts'
import { rerank } from './operations/rerank.ts'
import { speech } from './operations/speech.ts'
import { transcription } from './operations/transcription.ts'

/** The test request for a channel, chosen by the purpose of its model. */
type TestQuestion = { readonly spec: OperationSpec; readonly work: Work }

/** Enough for a model that reasons before it answers. */
const MAX_TOKENS = 512

type Fields = Readonly<Record<string, unknown>>
type Reader = OperationSpec & Required<Pick<OperationSpec, 'read'>>

const SILENCE = wavOf(Buffer.alloc(24_000), 24_000)

/** A small request for each purpose; a transcription is a form, not JSON. */
const QUESTIONS: Readonly<
  Record<Exclude<ModelPurpose, 'transcription'>, readonly [spec: Reader, fields: Fields]>
> = {
  rerank: [rerank, { query: 'hi', documents: ['hello'] }],
  moderation: [moderation, { input: 'hi' }],
  embeddings: [embeddings, { input: ['hello world'] }],
  speech: [speech, { input: 'hi', voice: 'alloy' }],
  image: [imageGenerations, { prompt: 'a dot' }],
}

/** Chosen by the upstream model name, which is more telling than the administrator's alias. */
export async function questionOf(
  model: string,
  sentModel: string,
  options: { isStream: boolean; readContext: ReadContext },
): Promise<TestQuestion> {
  const { isStream, readContext } = options
  const purpose = purposeOf(sentModel)
  if (purpose === 'transcription') return { spec: transcription, work: await transcriptionWork(model) }
  const chatFields = {
    messages: [{ role: 'user', content: 'hi' }],
    max_tokens: MAX_TOKENS,
    ...(isStream ? { stream: true } : {}),
  }
  const [spec, fields] = purpose ? QUESTIONS[purpose] : [chat as Reader, chatFields]
  const body = { model, ...fields }
  return { spec, work: spec.read(body, Buffer.from(JSON.stringify(body)), readContext) }
}

/** Half a second of silence. */
const transcriptionWork = (model: string): Promise<Work> =>
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
