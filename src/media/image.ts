import { isObject, type JsonObject, member } from '../domain/json-value.ts'
import type { When } from '../domain/price.ts'
import { codePoints } from '../domain/text.ts'
import type { Usage } from '../domain/usage.ts'
import { readMediaUsage } from '../metering/media-usage.ts'
import { vendorCostIn } from '../metering/openai-usage.ts'
import { type RequestFields, type RequestReading, readRequest } from '../requests/request-fields.ts'
import type { StoredFile } from '../wire/multipart.ts'
import { pictureTypeOf } from '../wire/picture-type.ts'
import { AnswerError, type Dialect } from './dialect.ts'
import { lookOf } from './video-extent.ts'

export type ImageTask = 'generations' | 'edits' | 'variations'

/** An image request. */
export type ImageAsk = {
  readonly task: ImageTask
  readonly model: string
  readonly prompt: string
  readonly n: number
  readonly size: string | undefined
  readonly quality: string | undefined
  readonly resolution: string | undefined
  readonly format: 'url' | 'b64_json' | undefined
  readonly isStream: boolean
  readonly images: readonly StoredFile[]
  readonly mask: StoredFile | undefined
  /** The entire request in the common format. */
  readonly body: JsonObject
}

export type Picture = {
  readonly url?: string | undefined
  readonly b64_json?: string | undefined
  readonly revised_prompt?: string | undefined
}
export type ImageAnswer = {
  readonly pictures: readonly Picture[]
  readonly usage?: Usage | undefined
}
export type ImageDialect = Dialect<ImageAsk, ImageAnswer> & {
  /** The supported tasks beside text to image. */
  readonly tasks?: readonly ImageTask[]
  /** Why the vendor cannot take this request, with the field at fault. */
  unfit?(ask: ImageAsk): { readonly path: string; readonly message: string } | undefined
}

const MAX_PICTURES = 10
export const MAX_PROMPT = 32_000
const MAX_WORD = 64
const FORMATS = ['url', 'b64_json'] as const

function shortText(fields: RequestFields, name: string): string | undefined {
  const text = fields.text(name)
  if (text !== undefined && codePoints(text) > MAX_WORD)
    fields.refuse(name, `must have at most ${MAX_WORD} characters`)
  return text === '' ? undefined : text
}

/** Fields by which hosts accept a number of images. */
const COUNTS = ['num_images', 'number_of_images', 'max_images', 'batch_size', 'num_outputs', 'sample_count']
/** Unless it is disabled, one request makes as many images as the model thinks fit. */
const SEQUENCE = 'sequential_image_generation'

/** Images are held and billed by `n`, so no other field may request more. */
function checkCounts(fields: RequestFields, body: JsonObject, n: number): void {
  for (const name of COUNTS) {
    const count = member(body, name) ?? undefined
    if (count !== undefined && Number(count) !== n)
      fields.refuse(name, 'must not set the number of images: use n')
  }
  const sequence = member(body, SEQUENCE) ?? undefined
  if (sequence !== undefined && sequence !== 'disabled')
    fields.refuse(SEQUENCE, 'must be disabled: use n for several images')
}

/** The size that the price may depend on, from any of its fields. They must agree. */
function readSize(fields: RequestFields, body: JsonObject): string | undefined {
  const size = shortText(fields, 'size')
  const [first, other] = lookOf(body).sizes
  if (other !== undefined) fields.refuse('size', `must be the same in all fields: ${first} or ${other}`)
  return isOpen(size) ? (first ?? size) : size
}

/** The same for the resolution. */
function readResolution(fields: RequestFields, body: JsonObject): string | undefined {
  const [first, other] = lookOf(body).resolutions
  if (other !== undefined) fields.refuse('resolution', `must be the same in all fields: ${first} or ${other}`)
  if (first !== undefined && codePoints(first) > MAX_WORD)
    fields.refuse('resolution', `must have at most ${MAX_WORD} characters`)
  return first
}

type ImageFiles = Pick<ImageAsk, 'images' | 'mask'>

export function readImageRequest(
  parsed: unknown,
  task: ImageTask,
  { images, mask }: ImageFiles,
): RequestReading<ImageAsk> {
  return readRequest(parsed, (fields, body) => {
    const model = fields.model()
    const prompt = task === 'variations' ? (fields.text('prompt') ?? '') : fields.required('prompt')
    if (prompt !== undefined && typeof prompt !== 'string') fields.refuse('prompt', 'must be a string')
    if (typeof prompt === 'string' && codePoints(prompt) > MAX_PROMPT)
      fields.refuse('prompt', `must have at most ${MAX_PROMPT} characters`)
    const n = fields.integer('n', MAX_PICTURES) ?? 1
    checkCounts(fields, body, n)
    const size = readSize(fields, body)
    const quality = shortText(fields, 'quality')
    const resolution = readResolution(fields, body)
    const format = fields.choice('response_format', FORMATS)
    fields.number('partial_images', 0, 3)
    const isStream = fields.flag('stream')
    if (typeof prompt !== 'string') return undefined
    return { task, model, prompt, n, size, quality, resolution, format, isStream, images, mask, body }
  })
}

const isOpen = (value: string | undefined) => value === undefined || value === 'auto'

/** The price conditions of the request; properties that the provider chooses are absent. */
export const priceConditionsOf = ({ size, quality, resolution }: ImageAsk): When =>
  Object.fromEntries(Object.entries({ size, quality, resolution }).filter(([, value]) => !isOpen(value)))

type ImageReading = {
  readonly count: number
  readonly usage: Usage | undefined
  /** The cost that the vendor reports, even without tokens. */
  readonly vendorCost: string | undefined
  readonly imageProperties: When
}

/** Reads an answer in the common format. `isText` recognizes the unparsed texts of a large answer. */
export function readImages(
  answer: unknown,
  isText = (value: unknown): boolean => typeof value === 'string',
): ImageReading {
  if (!isObject(answer)) throw new AnswerError('the response is not a JSON object')
  const memberNamed = (name: string): unknown => member(answer, name)
  const error = memberNamed('error')
  if (error) throw new AnswerError('the response is an error')
  const data = memberNamed('data')
  // An image or its URL is a text; the other one may be null.
  const isPicture = (entry: unknown) => isText(member(entry, 'url')) || isText(member(entry, 'b64_json'))
  const count = Array.isArray(data) ? data.filter(isPicture).length : 0
  if (count === 0) throw new AnswerError('the response has no images')
  const usage = memberNamed('usage')
  return {
    count,
    usage: pictureUsage(usage),
    vendorCost: vendorCostIn(usage),
    imageProperties: madeOf(memberNamed),
  }
}

/** The actual properties of an image, as its answer reports them. */
export function madeOf(memberNamed: (name: string) => unknown): When {
  const word = (name: 'size' | 'quality') => {
    const value = memberNamed(name)
    return typeof value === 'string' ? { [name]: value } : {}
  }
  return { ...word('size'), ...word('quality') }
}

/** All output tokens of such a model are image tokens, unless the details differ. */
export function pictureUsage(source: unknown): Usage | undefined {
  const usage = readMediaUsage(source)
  if (usage === undefined || member(source, 'output_tokens_details') !== undefined) return usage
  return { ...usage, output: 0, imageOutput: usage.imageOutput + usage.output }
}

/** A data URL, for clients that request a URL. */
const dataUrl = (base64: string) => `data:${pictureTypeOf(base64) ?? 'image/png'};base64,${base64}`

export function inRequestedForm(
  { url, b64_json, revised_prompt }: Picture,
  format: ImageAsk['format'],
): Picture {
  const more = revised_prompt === undefined ? {} : { revised_prompt }
  if (format === 'url' && url === undefined && b64_json !== undefined)
    return { url: dataUrl(b64_json), ...more }
  return {
    ...(url === undefined ? {} : { url }),
    ...(b64_json === undefined ? {} : { b64_json }),
    ...more,
  }
}

export function writeImages({ pictures }: ImageAnswer, { format }: ImageAsk, createdS: number) {
  if (pictures.length === 0) throw new AnswerError('the response has no images')
  return { created: createdS, data: pictures.map(picture => inRequestedForm(picture, format)) }
}

/** The warnings of vendors with one quality that return URLs only. */
export const addressesOnly = ({ format, quality }: ImageAsk): readonly string[] => [
  ...(quality === undefined ? [] : ['quality is not supported']),
  ...(format === 'b64_json' ? ['response_format is url'] : []),
]

/** Width and height of `1024x1536`; undefined for a size in another form. */
export function pixelsOf(size: string | undefined): { width: number; height: number } | undefined {
  const [, width, height] = /^(\d{2,5})x(\d{2,5})$/.exec(size ?? '') ?? []
  return width === undefined || height === undefined
    ? undefined
    : { width: Number(width), height: Number(height) }
}

const RATIOS = ['1:1', '3:4', '4:3', '9:16', '16:9'] as const

/** The nearest common aspect ratio, for vendors that accept no pixels. */
export function ratioOf(size: string | undefined): string | undefined {
  if (size !== undefined && /^\d{1,2}:\d{1,2}$/.test(size)) return size
  const pixels = pixelsOf(size)
  if (!pixels) return undefined
  const targetRatio = Math.log(pixels.width / pixels.height)
  const distance = (ratio: string) => {
    const [width = 1, height = 1] = ratio.split(':').map(Number)
    return Math.abs(Math.log(width / height) - targetRatio)
  }
  return RATIOS.toSorted((a, b) => distance(a) - distance(b))[0]
}
