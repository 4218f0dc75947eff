import { Refusal } from '../../domain/errors.ts'
import { EMPTY, type Usage, wholeSeconds } from '../../domain/usage.ts'
import type { RelayIncoming } from '../../http/relay-exchange.ts'
import { MAX_STILL_BYTES } from '../../media/still.ts'
import { bodyOfForm } from '../../media/transcription-request.ts'
import { lostStills, readVideoRequest, VIDEO_FIELDS, type VideoAsk, whenOf } from '../../media/video.ts'
import { extentOf } from '../../media/video-extent.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { Form, FormFile } from '../intake/form-content.ts'
import { digestOfBytes, digestOfForm, idempotencyKeyOf } from '../intake/repeat.ts'
import { badParameter } from '../operations/carry.ts'
import type { OperationSpec, ReadContext, Work } from '../operations/operation.ts'
import { mustRead } from '../operations/request-reader.ts'
import { videoDialect, videoFormat } from './vendor.ts'

/** A request for a video, with the digest that tells it from other requests with the same `Idempotency-Key`. */
export type VideoWork = Work & { readonly ask: VideoAsk; digest(): Promise<string> }

const PICTURE = /^(image|images|input_reference)(\[\])?$/

const notOffered = () => badParameter('model', 'must be a model that creates videos')

/** Video submissions encode their requests and read their answers themselves. */
const unused = (): never => {
  throw new Error('a video job is submitted by itself')
}

/** The seconds of one video: as the channel's override sets them, else as requested, else the vendor's default. */
export const secondsOn = (
  ask: VideoAsk,
  { provider, override }: RelayChannel,
  sentModel: string,
): number | undefined =>
  extentOf(override.members, ask.fps).seconds ??
  ask.seconds ??
  videoDialect(provider, sentModel)?.secondsOf?.(sentModel)

export const usageOf = (videos: number, seconds: number | undefined): Usage => ({
  ...EMPTY,
  calls: videos,
  seconds: wholeSeconds(seconds ?? 0) * videos,
})

function modelOf(ask: VideoAsk, readContext: ReadContext): string {
  const model = ask.model || readContext.settings().default_video_model
  if (model) return model
  const message = 'is missing, and the gateway has no default_video_model setting'
  throw new Refusal('missing_parameter', `model ${message}`, { errors: [{ path: 'model', message }] })
}

export function workOf(parsed: VideoAsk, readContext: ReadContext, digest: VideoWork['digest']): VideoWork {
  const ask = { ...parsed, model: modelOf(parsed, readContext) }
  return {
    ask,
    digest,
    model: ask.model,
    isStream: false,
    inputTokens: 0,
    countedInput: 0,
    outputTokens: () => 0,
    priceConditions: whenOf(ask),
    unfit({ provider }, sentModel) {
      const dialect = videoDialect(provider, sentModel)
      if (!dialect) return notOffered()
      const fault = dialect.unfit?.(ask, sentModel)
      return fault && badParameter(fault.path, fault.message)
    },
    lostContent({ provider }, sentModel) {
      const dialect = videoDialect(provider, sentModel)
      return dialect && lostStills(dialect, ask, sentModel)
    },
    requestFor: unused,
  }
}

const PICTURE_MEMBER = /^(input_reference|image)\[(?:image_url|url)\]$/
const METADATA_MEMBER = /^metadata\[([^[\]]+)\]$/
const LITERAL = /^(?:-?\d{1,15}(?:\.\d{1,15})?|true|false)$/

/** Form fields are text, but a vendor's own fields may be numbers and flags: such literals are parsed. */
function literalOf(text: string): unknown {
  if (!LITERAL.test(text)) return text
  const value = text === 'true' ? true : text === 'false' ? false : Number(text)
  return String(value) === text ? value : text
}

/** A form spells an object as one field per member, as SDKs do. Empty fields are skipped. */
function bodyIn(form: Form): Readonly<Record<string, unknown>> {
  const metadata: [string, unknown][] = []
  const fields: [string, string][] = []
  for (const [name, value] of form.fields) {
    const [, member] = METADATA_MEMBER.exec(name) ?? []
    const [, picture] = PICTURE_MEMBER.exec(name) ?? []
    if (member !== undefined) metadata.push([member, literalOf(value)])
    else if (value !== '') fields.push([picture ?? name, value])
  }
  const body = Object.fromEntries(
    Object.entries(bodyOfForm(fields)).map(([name, value]) => [
      name,
      typeof value === 'string' && !VIDEO_FIELDS.has(name) ? literalOf(value) : value,
    ]),
  )
  return metadata.length === 0 ? body : { metadata: Object.fromEntries(metadata), ...body }
}

function picturesOf(form: Form): readonly FormFile[] {
  const other = form.files.find(({ field }) => !PICTURE.test(field))
  if (other) throw badParameter(other.field, 'must not be a file')
  for (const { field, size } of form.files) {
    if (size === 0) throw badParameter(field, 'must not be empty')
    if (size > MAX_STILL_BYTES)
      throw new Refusal('request_too_large', `${field} is larger than ${MAX_STILL_BYTES / 1_048_576} MiB`)
  }
  return form.files
}

export const videoSpec = {
  operation: 'videos' as const,
  format: 'openai' as const,
  formatFor: videoFormat,
  names: 'vendor' as const,
  read: (parsed: Record<string, unknown>, bytes: Buffer, readContext: ReadContext): VideoWork =>
    workOf(mustRead(readVideoRequest(parsed, [])), readContext, async () => digestOfBytes(bytes)),
  readForm(form: Form, readContext: ReadContext): VideoWork {
    const ask = mustRead(readVideoRequest(bodyIn(form), picturesOf(form)))
    return workOf(ask, readContext, () => digestOfForm(form))
  },
} satisfies OperationSpec

/** The operation of a remix: a prompt; all other fields come from the source job. */
export const remixSpec = (source: { readonly model: string; readonly ask: Omit<VideoAsk, 'prompt'> }) => ({
  operation: 'videos' as const,
  format: 'openai' as const,
  names: 'vendor' as const,
  read(parsed: Record<string, unknown>, bytes: Buffer, readContext: ReadContext): VideoWork {
    const prompt = remixPrompt(parsed)
    return workOf({ ...source.ask, model: source.model, prompt }, readContext, async () =>
      digestOfBytes(bytes),
    )
  },
  readForm(form: Form, readContext: ReadContext): VideoWork {
    const prompt = remixPrompt(bodyOfForm(form.fields))
    return workOf({ ...source.ask, model: source.model, prompt }, readContext, () => digestOfForm(form))
  },
})

/** Without a prompt, a remix would equal its source. */
function remixPrompt({ prompt: value }: Readonly<Record<string, unknown>>): string {
  const { prompt } = mustRead(readVideoRequest({ prompt: value ?? null }, []))
  if (prompt !== undefined) return prompt
  const message = 'is missing'
  throw new Refusal('missing_parameter', `prompt ${message}`, { errors: [{ path: 'prompt', message }] })
}

/** The `Idempotency-Key`, scoped to its path; undefined: none was sent. */
export function repeatKeyOf(request: RelayIncoming, path: string): string | undefined {
  const key = idempotencyKeyOf(request)
  return key === undefined ? undefined : `${path} ${key}`
}
