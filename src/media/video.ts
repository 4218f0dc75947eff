import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import type { When } from '../domain/price.ts'
import { codePoints } from '../domain/text.ts'
import type { VideoStatus } from '../domain/video.ts'
import type { LostContent } from '../domain/warning.ts'
import { DECISIVE } from '../requests/field-names.ts'
import { textNameFault } from '../requests/field-rules.ts'
import { type RequestFields, type RequestReading, readRequest } from '../requests/request-fields.ts'
import { routingFieldsIn, withoutRouting } from '../requests/routing-fields.ts'
import { parsedOrNothing } from '../wire/json-bounds.ts'
import type { FormPart, StoredFile } from '../wire/multipart.ts'
import { readStill, type Still } from './still.ts'
import { extentOf, lookOf } from './video-extent.ts'
import { modesIn } from './video-modes.ts'

/** A video request (docs/reference/videos.md: Video request). */
export type VideoAsk = {
  /** Empty: the gateway's default. */
  readonly model: string
  readonly prompt: string | undefined
  /** The first frame, then the last frame or further references. */
  readonly stills: readonly Still[]
  readonly seconds: number | undefined
  readonly width: number | undefined
  readonly height: number | undefined
  readonly fps: number | undefined
  readonly n: number
  readonly seed: number | undefined
  /** Vendor-specific and unknown fields. They replace the gateway's fields, except for the model. */
  readonly metadata: JsonObject
  /** Fields of the client that are sent to no vendor, since they would choose another model or host. */
  readonly removed?: readonly string[]
  readonly user: string | undefined
  readonly responseFormat: string | undefined
}

/** The facts of a request that are stored with its job. */
export type VideoFacts = Pick<VideoAsk, 'seconds' | 'width' | 'height' | 'fps' | 'n' | 'seed'> & {
  readonly prompt: string
  readonly stills: number
}

/** One HTTP call about a job. Its path may have the placeholders of a provider's paths. */
export type VideoCall = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly json?: JsonObject
  readonly parts?: readonly FormPart[]
}

export type Submission = VideoCall & {
  /** The kind of job, if later calls depend on it. */
  readonly kind?: string
  /** Warnings about parts of the request that the vendor does not support. */
  readonly warnings?: readonly string[]
}

/** A refusal inside a response with a success status, with the error status that it should have. */
export type VendorRefusal = { readonly status: number; readonly code: string; readonly message: string }

/** A finished video: its URL, or the vendor's name for it. */
export type VideoResult = { readonly url?: string; readonly ref?: string }

export type UpstreamJob = {
  readonly id: string
  readonly kind: string
  readonly model: string
}

export type VideoState = {
  readonly status: VideoStatus
  /** From 0 to 1. */
  readonly progress?: number | undefined
  readonly results?: readonly VideoResult[] | undefined
  readonly error?: { readonly code: string; readonly message: string } | undefined
  readonly expiresTime?: number | undefined
  readonly seconds?: string | undefined
  readonly size?: string | undefined
}

/** The facts by which a lost submission is searched for. */
export type Sought = VideoFacts & {
  readonly model: string
  readonly sentTime: number
  readonly kind: string
  /** The gateway's name for the job, if the vendor stores one. */
  readonly reference: string
}

/** Where to fetch a result: by a call with the channel's key, or at a URL without a key. */
export type VideoSource =
  | { readonly call: VideoCall }
  | { readonly url: string; readonly withKey?: boolean }
  | { readonly type: string; readonly base64: string }

/** Calls a vendor about a job, and returns the parsed body of a success. */
type AskVendor = (call: VideoCall) => Promise<unknown>

/** How a vendor accepts video jobs. */
export type VideoDialect = {
  /** The default length of a video in seconds; absent: the request must state it if the price depends on it. */
  readonly secondsOf?: (model: string) => number | undefined
  /** The vendor's default modes: its base price includes them, so requesting them costs nothing more. */
  readonly usualModes?: When
  /** The maximum number of videos per call; absent: 1. */
  readonly most?: number
  /** The maximum number of images in a request; absent or undefined: no fixed one. */
  mostStills?(model: string): number | undefined
  /** Seconds between two polls of a job; absent: 2. */
  readonly pauseS?: number
  /** Why the vendor cannot take this request, with the field at fault. */
  unfit?(ask: VideoAsk, model: string): { readonly path: string; readonly message: string } | undefined
  /** `reference`: the gateway's name for the job, by which it can be found again. */
  submit(ask: VideoAsk, model: string, reference?: string): Submission | Promise<Submission>
  /** The vendor's id of the job; throws AnswerError if there is none. */
  accepted(answer: unknown): string
  /** A refusal inside a response with a success status. */
  refused?(answer: unknown): VendorRefusal | undefined
  poll(job: UpstreamJob): VideoCall
  state(answer: unknown, job: UpstreamJob): VideoState
  /** A further call for the results of a finished job, or for the reason why there are none (a 4xx). */
  readonly finish?: { call(job: UpstreamJob): VideoCall; state(answer: unknown): VideoState }
  /** Searches for jobs whose submission was not answered; returns ids, oldest first. */
  readonly find?: { call(sought: Sought): VideoCall; ids(answer: unknown, sought: Sought): readonly string[] }
  /** Where to fetch the bytes; absent: at the result's own URL, without a key. */
  source?(
    job: UpstreamJob,
    result: VideoResult,
    ask: AskVendor,
    variant: string | undefined,
  ): VideoSource | Promise<VideoSource>
  /** The other renderings of a result. */
  readonly variants?: readonly string[]
  remove?(job: UpstreamJob): VideoCall
  remix?(job: UpstreamJob, prompt: string): Submission
}

const MAX_VIDEOS = 10
const MAX_VIDEO_SECONDS = 3_600
const MAX_PROMPT = 32_000
const MAX_SIDE = 8_192
const MAX_FPS = 240
const MAX_WORD = 128
const MAX_METADATA_BYTES = 65_536
const MAX_STILLS = 8

/** The gateway's own request fields; all others belong to a vendor. */
export const VIDEO_FIELDS: ReadonlySet<string> = new Set([
  'model',
  'prompt',
  'image',
  'images',
  'input_reference',
  'duration',
  'seconds',
  'width',
  'height',
  'size',
  'fps',
  'n',
  'seed',
  'response_format',
  'metadata',
  'user',
])

/** Numbers that forms, and some JSON clients, send as text. */
const VIDEO_NUMBERS = ['duration', 'seconds', 'width', 'height', 'fps', 'n', 'seed'] as const

const presentMember = (body: JsonObject, name: string) => member(body, name) ?? undefined

/** `duration` and `seconds` are synonyms. */
function readSeconds(fields: RequestFields, body: JsonObject): number | undefined {
  const durationFields = (['duration', 'seconds'] as const).filter(
    name => presentMember(body, name) !== undefined,
  )
  const [first] = durationFields
  if (first === undefined) return undefined
  const values = durationFields.map(name => fields.number(name, 0, MAX_VIDEO_SECONDS))
  if (values.includes(0)) fields.refuse(first, 'must be greater than 0')
  if (new Set(values).size > 1) fields.refuse('seconds', 'must be the same as duration')
  return values[0]
}

/** The length and number in a vendor's own fields: they are checked and charged like the gateway's own. */
function readExtent(
  fields: RequestFields,
  own: JsonObject,
  { seconds, fps }: Pick<VideoAsk, 'seconds' | 'fps'>,
) {
  let longest = seconds
  for (const [name, value] of Object.entries(own)) {
    const ownExtent = extentOf({ [name]: value }, fps)
    if (ownExtent.isOpen) fields.refuse(name, 'must set lengths and counts as positive numbers')
    if ((ownExtent.videos ?? 1) !== 1) fields.refuse(name, 'must not set the number of videos: use n')
    if (ownExtent.seconds === undefined) continue
    if (ownExtent.seconds > MAX_VIDEO_SECONDS || (seconds !== undefined && ownExtent.seconds > seconds))
      fields.refuse(
        name,
        `must not be longer than ${seconds === undefined ? `${MAX_VIDEO_SECONDS} seconds` : 'duration'}`,
      )
    if (seconds === undefined) longest = Math.max(longest ?? 0, ownExtent.seconds)
  }
  return longest === 0 ? undefined : longest
}

/** The class of a resolution in pixels; `auto` lets the vendor choose. */
const classOf = (size: string) => {
  const [width, height] = size.split('x').map(Number)
  return resolutionOf({ width, height })
}
const isLeftOpen = (resolution: string) => resolution === 'auto' || resolution === 'adaptive'

/** A video is billed as requested, so a vendor's own fields must not contradict its size and resolution. */
function checkLook(fields: RequestFields, own: JsonObject, sides: Pick<VideoAsk, 'width' | 'height'>): void {
  const requestedSize = sizeText(sides)
  const sizeFields = {
    size: requestedSize,
    resolution: requestedSize === undefined ? undefined : classOf(requestedSize),
  }
  for (const [name, value] of Object.entries(own)) {
    const { sizes, resolutions } = lookOf({ [name]: value })
    for (const size of sizes) {
      sizeFields.size ??= size
      if (size !== sizeFields.size) fields.refuse(name, `must match the size ${sizeFields.size}`)
    }
    for (const resolution of [...sizes.flatMap(size => classOf(size) ?? []), ...resolutions]) {
      if (isLeftOpen(resolution)) continue
      sizeFields.resolution ??= resolution
      if (resolution !== sizeFields.resolution)
        fields.refuse(name, `must match the resolution ${sizeFields.resolution}`)
    }
  }
}

const QUALITIES = ['quality_level', 'quality'] as const

function checkQuality(fields: RequestFields, own: JsonObject): void {
  const [first, second] = QUALITIES.map(name => presentMember(own, name))
  if (first !== undefined && second !== undefined && first !== second)
    fields.refuse('metadata', `must have the same value in ${QUALITIES.join(' and ')}`)
}

const SIZE = /^(\d{1,5})[x*:](\d{1,5})$/i

function readSides(fields: RequestFields, body: JsonObject): Pick<VideoAsk, 'width' | 'height'> {
  const width = fields.integer('width', MAX_SIDE)
  const height = fields.integer('height', MAX_SIDE)
  const size = presentMember(body, 'size')
  if (size === undefined || size === '' || size === 'auto') return { width, height }
  const [, wide, high] = SIZE.exec(typeof size === 'string' ? size : '') ?? []
  const sides = { width: Number(wide), height: Number(high) }
  if (!(sides.width >= 1 && sides.width <= MAX_SIDE && sides.height >= 1 && sides.height <= MAX_SIDE))
    fields.refuse('size', `must be WIDTHxHEIGHT with 1 to ${MAX_SIDE} pixels each, such as 1280x720`)
  else if ((width ?? sides.width) !== sides.width || (height ?? sides.height) !== sides.height)
    fields.refuse('size', 'must match width and height')
  return sides
}

function readMetadata(fields: RequestFields, body: JsonObject): JsonObject {
  const value = presentMember(body, 'metadata')
  if (value === undefined || value === '') return {}
  const parsed = typeof value === 'string' ? parsedOrNothing(value) : value
  if (!isObject(parsed)) {
    fields.refuse('metadata', 'must be an object')
    return {}
  }
  const fault = typeof value === 'string' ? textNameFault(value, parsed, 'metadata') : undefined
  if (fault) fields.refuse(fault.path, fault.message)
  if (Buffer.byteLength(JSON.stringify(parsed)) > MAX_METADATA_BYTES)
    fields.refuse('metadata', `must have at most ${MAX_METADATA_BYTES} bytes`)
  return parsed
}

/**
 * A vendor's own fields without those that name a model, which the gateway sets. Some servers merge nested objects into
 * the body, so those must not name a model either.
 */
function withoutModel(fields: RequestFields, own: JsonObject): JsonObject {
  const entries = Object.entries(own).filter(([name]) => !MODEL_NAMES.has(name))
  for (const [name, value] of entries)
    if (namesModel(value)) fields.refuse(name, 'must not set a model: use the field model')
  return Object.fromEntries(entries)
}

const MODEL_NAMES: ReadonlySet<string> = new Set(DECISIVE.model)

const namesModel = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  Object.entries(value).some(([name, inner]) => MODEL_NAMES.has(name) || namesModel(inner))

function readStills(fields: RequestFields, body: JsonObject, files: readonly StoredFile[]): readonly Still[] {
  const images = ['image', 'input_reference', 'images'].flatMap(name =>
    [presentMember(body, name) ?? []].flat().map(value => ({ name, value })),
  )
  const stills: Still[] = files.map(file => ({ kind: 'file', file }))
  for (const { name, value } of images) {
    if (value === '' || value === null) continue
    const still = readStill(value)
    if (still) stills.push(still)
    else fields.refuse(name, 'must be a URL (http or https) or a base64 image')
  }
  if (stills.length > MAX_STILLS) fields.refuse('images', `must have at most ${MAX_STILLS} images`)
  return stills
}

function readSeed(fields: RequestFields, body: JsonObject): number | undefined {
  const seed = presentMember(body, 'seed')
  if (seed === undefined) return undefined
  if (typeof seed === 'number' && Number.isSafeInteger(seed)) return seed
  fields.refuse('seed', 'must be an integer')
  return undefined
}

function shortText(fields: RequestFields, name: string): string | undefined {
  const text = fields.text(name)
  if (text !== undefined && codePoints(text) > MAX_WORD)
    fields.refuse(name, `must have at most ${MAX_WORD} characters`)
  return text === '' ? undefined : text
}

/** Parses numbers in quotes: `seconds` is a text in the common format. */
const unquoted = (body: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(body).map(([name, value]) => {
      const isNumber =
        (VIDEO_NUMBERS as readonly string[]).includes(name) &&
        typeof value === 'string' &&
        /^-?\d+(\.\d+)?$/.test(value)
      return [name, isNumber ? Number(value) : value]
    }),
  )

export function readVideoRequest(parsed: unknown, files: readonly StoredFile[]): RequestReading<VideoAsk> {
  const body = isObject(parsed) ? unquoted(parsed) : parsed
  return readRequest(body, (fields, requested) => {
    const model =
      presentMember(requested, 'model') === undefined || requested.model === '' ? '' : fields.model()
    const prompt = fields.text('prompt')
    if (prompt !== undefined && codePoints(prompt) > MAX_PROMPT)
      fields.refuse('prompt', `must have at most ${MAX_PROMPT} characters`)
    const fps = fields.integer('fps', MAX_FPS)
    const vendorFields = readMetadata(fields, requested)
    const others = Object.fromEntries(Object.entries(requested).filter(([name]) => !VIDEO_FIELDS.has(name)))
    const metadata = withoutModel(fields, withoutRouting(vendorFields))
    const more = withoutModel(fields, withoutRouting(others))
    const removed = [
      ...routingFieldsIn(others),
      ...routingFieldsIn(vendorFields).map(name => `metadata.${name}`),
    ]
    const sides = readSides(fields, requested)
    checkLook(fields, { ...more, metadata }, sides)
    checkQuality(fields, { ...more, ...metadata })
    return {
      model,
      prompt: prompt === '' ? undefined : prompt,
      stills: readStills(fields, requested, files),
      seconds: readExtent(fields, { ...more, metadata }, { seconds: readSeconds(fields, requested), fps }),
      ...sides,
      fps,
      n: fields.integer('n', MAX_VIDEOS) ?? 1,
      seed: readSeed(fields, requested),
      metadata: { ...more, ...metadata },
      ...(removed.length > 0 && { removed }),
      user: shortText(fields, 'user'),
      responseFormat: shortText(fields, 'response_format'),
    }
  })
}

export const factsOf = (ask: VideoAsk, seconds: number | undefined): VideoFacts => ({
  prompt: ask.prompt ?? '',
  seconds,
  width: ask.width,
  height: ask.height,
  fps: ask.fps,
  n: ask.n,
  seed: ask.seed,
  stills: ask.stills.length,
})

type Sides = { readonly width?: number | undefined; readonly height?: number | undefined }

export const sizeText = ({ width, height }: Sides, between = 'x'): string | undefined =>
  width === undefined || height === undefined ? undefined : `${width}${between}${height}`

/** The class of a resolution, by its shorter side: 720p. */
export function resolutionOf({ width, height }: Sides): string | undefined {
  if (width === undefined || height === undefined) return undefined
  const side = Math.min(width, height)
  return side >= 2_160 ? '4k' : `${side}p`
}

/** The aspect ratio in lowest terms: 16:9. */
export function ratioOf({ width, height }: Sides): string | undefined {
  if (width === undefined || height === undefined) return undefined
  const common = (a: number, b: number): number => (b === 0 ? a : common(b, a % b))
  const by = common(width, height)
  return `${width / by}:${height / by}`
}

/** The price conditions of a video. */
export function whenOf(ask: VideoAsk): When {
  const { sizes, resolutions } = lookOf(ask.metadata)
  const size = sizeText(ask) ?? sizes[0]
  const resolution =
    (size === undefined ? undefined : classOf(size)) ?? resolutions.find(each => !isLeftOpen(each))
  const quality = QUALITIES.map(name => ask.metadata[name]).find(
    (each): each is string => typeof each === 'string',
  )
  return {
    ...(size !== undefined && { size }),
    ...(resolution !== undefined && { resolution }),
    ...(quality !== undefined && { quality }),
    ...modesIn(ask.metadata),
  }
}

/** The images of a request beyond those that the vendor's call can express. */
export function lostStills(
  { mostStills }: Pick<VideoDialect, 'mostStills'>,
  { stills }: Pick<VideoAsk, 'stills'>,
  model: string,
): LostContent | undefined {
  const most = mostStills?.(model) ?? Number.POSITIVE_INFINITY
  return stills.length > most
    ? { path: 'images', reason: `more than ${most} image${most === 1 ? '' : 's'} cannot be sent` }
    : undefined
}

/** The fields of a request that a vendor's call cannot express. */
export function unsupportedWarnings(ask: VideoAsk, supportedFields: readonly (keyof VideoAsk)[]): string[] {
  const fieldLabels: readonly (readonly [keyof VideoAsk, string])[] = [
    ['width', 'width and height'],
    ['fps', 'fps'],
    ['seed', 'seed'],
    ['seconds', 'duration'],
    ['user', 'user'],
  ]
  const lost = fieldLabels.filter(([name]) => ask[name] !== undefined && !supportedFields.includes(name))
  const words = lost.map(([, word]) => `${word} is not supported by this provider`)
  if ((ask.width === undefined) !== (ask.height === undefined))
    words.push('width and height are supported only together')
  if (ask.responseFormat !== undefined && ask.responseFormat !== 'url')
    words.push('response_format is not supported by this provider')
  return words
}
