import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Refusal } from '../../domain/errors.ts'
import { EMPTY, type Usage, wholeSeconds } from '../../domain/usage.ts'
import { MAX_STILL_BYTES } from '../../formats/media/still.ts'
import { readVideoRequest, type VideoAsk, whenOf } from '../../formats/media/video.ts'
import { bodyOfForm } from '../../formats/openai/transcription-request.ts'
import type { RelayChannel } from '../catalog.ts'
import type { Form, FormFile } from '../form.ts'
import { badParameter } from '../operations/carry.ts'
import type { Desk, OperationSpec, Work } from '../operations/operation.ts'
import { mustRead } from '../operations/written.ts'
import { videoDialect } from './vendor.ts'

/** A request for a video, and what tells it from another one with the same `Idempotency-Key`. */
export type VideoWork = Work & { readonly ask: VideoAsk; digest(): Promise<string> }

const PICTURE = /^(image|images|input_reference)(\[\])?$/

const notOffered = () => badParameter('model', 'is no model that makes videos')

/** Nothing of a submission goes through the hands that dress and meter other answers. */
const unused = (): never => {
  throw new Error('a video job is submitted by itself')
}

/** Seconds of one video: as asked, else what the vendor makes by itself. */
export const secondsOn = (ask: VideoAsk, { provider }: RelayChannel, sent: string): number | undefined =>
  ask.seconds ?? videoDialect(provider, sent)?.secondsOf?.(sent)

export const usageOf = (videos: number, seconds: number | undefined): Usage => ({
  ...EMPTY,
  calls: videos,
  seconds: wholeSeconds(seconds ?? 0) * videos,
})

function modelOf(ask: VideoAsk, desk: Desk): string {
  const model = ask.model || desk.settings().default_video_model
  if (model) return model
  const message = 'is missing, and the gateway has no default_video_model'
  throw new Refusal('missing_parameter', `model ${message}`, { errors: [{ path: 'model', message }] })
}

export function workOf(asked: VideoAsk, desk: Desk, digest: VideoWork['digest']): VideoWork {
  const ask = { ...asked, model: modelOf(asked, desk) }
  return {
    ask,
    digest,
    model: ask.model,
    isStream: false,
    inputTokens: 0,
    countedInput: 0,
    outputTokens: () => 0,
    asked: whenOf(ask),
    unfit({ provider }, sent) {
      const dialect = videoDialect(provider, sent)
      if (!dialect) return notOffered()
      const fault = dialect.unfit?.(ask, sent)
      return fault && badParameter(fault.path, fault.message)
    },
    dress: unused,
    readWhole: unused,
    meter: unused,
  }
}

const digestOf = (bytes: Buffer | string) => createHash('sha256').update(bytes).digest('hex')

/** Of a form the fields and the files count, not the marks between them, which are new each time. */
async function digestOfForm(form: Form): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(form.fields))
  for (const file of form.files) {
    hash.update(`\n${file.field} ${file.name} ${file.size}\n`)
    for await (const piece of file.open()) hash.update(piece as Buffer)
  }
  return hash.digest('hex')
}

/** A form can say an object by naming its members. */
const unbracketed = (form: Form): Form['fields'] =>
  form.fields.map(([name, value]) => {
    const [, outer] = /^(input_reference|image)\[(?:image_url|url)\]$/.exec(name) ?? []
    return [outer ?? name, value] as const
  })

function picturesOf(form: Form): readonly FormFile[] {
  const other = form.files.find(({ field }) => !PICTURE.test(field))
  if (other) throw badParameter(other.field, 'is no file that is taken here')
  for (const { field, size } of form.files) {
    if (size === 0) throw badParameter(field, 'is empty')
    if (size > MAX_STILL_BYTES)
      throw new Refusal('request_too_large', `${field} is larger than ${MAX_STILL_BYTES / 1_048_576} MB`)
  }
  return form.files
}

export const videoSpec = {
  operation: 'videos' as const,
  format: 'openai' as const,
  read: (parsed: Record<string, unknown>, bytes: Buffer, desk: Desk): VideoWork =>
    workOf(mustRead(readVideoRequest(parsed, [])), desk, async () => digestOf(bytes)),
  readForm(form: Form, desk: Desk): VideoWork {
    const ask = mustRead(readVideoRequest(bodyOfForm(unbracketed(form)), picturesOf(form)))
    return workOf(ask, desk, () => digestOfForm(form))
  },
} satisfies OperationSpec

/** The words of a remix: everything else is the source's. */
export const remixSpec = (source: { readonly model: string; readonly ask: Omit<VideoAsk, 'prompt'> }) => ({
  operation: 'videos' as const,
  format: 'openai' as const,
  read(parsed: Record<string, unknown>, bytes: Buffer, desk: Desk): VideoWork {
    const { prompt } = mustRead(readVideoRequest({ prompt: parsed.prompt ?? null }, []))
    return workOf({ ...source.ask, model: source.model, prompt }, desk, async () => digestOf(bytes))
  },
  readForm(form: Form, desk: Desk): VideoWork {
    const { prompt } = mustRead(readVideoRequest({ prompt: bodyOfForm(form.fields).prompt ?? null }, []))
    return workOf({ ...source.ask, model: source.model, prompt }, desk, () => digestOfForm(form))
  },
})

const MAX_KEY = 255

/** The `Idempotency-Key`, which belongs to its path; undefined where none was sent. */
export function repeatKeyOf({ headers }: IncomingMessage, path: string): string | undefined {
  const key = headers['idempotency-key']
  if (key === undefined || key === '') return undefined
  if (Array.isArray(key) || key.length > MAX_KEY || !/^[\x21-\x7e]+$/.test(key))
    throw badParameter('Idempotency-Key', `must be 1 to ${MAX_KEY} printable characters without spaces`)
  return `${path} ${key}`
}
