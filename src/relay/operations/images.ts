import type { JsonObject } from '../../domain/json-value.ts'
import type { When } from '../../domain/price.ts'
import { EMPTY, type Usage } from '../../domain/usage.ts'
import { createEventMeter } from '../../media/event-meter.ts'
import {
  type ImageAsk,
  type ImageDialect,
  type ImageTask,
  inRequestedForm,
  madeOf,
  type Picture,
  pictureUsage,
  priceConditionsOf,
  readImageRequest,
  readImages,
  writeImages,
} from '../../media/image.ts'
import { bodyOfForm, typed } from '../../media/transcription-request.ts'
import { inputBound, MEDIA_TOKENS, sizeOf } from '../../metering/prompt-size.ts'
import { editTopLevel } from '../../wire/json-edit.ts'
import {
  isCutText,
  parseInSlices,
  parseSkeleton,
  SLICED_BYTES,
  scanInSlices,
} from '../../wire/json-slices.ts'
import type { FormPart } from '../../wire/multipart.ts'
import type { RelayChannel } from '../catalog/catalog.ts'
import type { Form, FormFile } from '../intake/form-content.ts'
import { digestOfBytes, digestOfForm } from '../intake/repeat.ts'
import type { BufferedResponse } from '../upstream/exchange.ts'
import {
  answerFrom,
  badParameter,
  dialectOf,
  formatWith,
  parsedAnswer,
  reading,
  readingDocument,
  readingLater,
  upstreamBody,
} from './carry.ts'
import type { AnswerReading, UpstreamBody } from './channel-request.ts'
import type { OperationSpec, Work } from './operation.ts'
import { clientBody, mustRead } from './request-reader.ts'

const MAX_IMAGES = 16
const MAX_ANSWER_BYTES = 64 * 1_048_576
const EVENT_LIMITS = { maxLineBytes: 32 * 1_048_576, maxEventBytes: 32 * 1_048_576 }
const BYTES_PER_TOKEN = 4
/** The tokens of an image of the usual size and quality, if the provider reports none. */
const USUAL_PICTURE_TOKENS = 1_056
const PARTS = ['image_generation.partial_image', 'image_edit.partial_image']
const LAST = ['image_generation.completed', 'image_edit.completed']

type Encode = (channel: RelayChannel, sentModel: string) => UpstreamBody

type Reading = Omit<AnswerReading, 'usage'> & { readonly count: number; readonly usage: Usage | undefined }

/** Reads the answer of a vendor with its own dialect. */
function readDialect(
  dialect: ImageDialect,
  ask: ImageAsk,
  { body, headers }: BufferedResponse,
  document: unknown,
): Reading {
  const answer = dialect.decode(document, ask)
  const created = Math.floor(Date.parse(String(headers.date ?? '')) / 1000) || Math.floor(Date.now() / 1000)
  return {
    count: answer.pictures.length,
    usage: answer.usage,
    outputBytes: 0,
    answer: answerFrom(body, () => writeImages(answer, ask, created)),
  }
}

/** Whether the client requested a URL but the answer contains the image itself. Only then is the answer rewritten. */
const isRewritten = (body: Buffer, { format }: ImageAsk) => format === 'url' && body.includes('"b64_json"')

function readCommon(ask: ImageAsk, body: Buffer, document: unknown): Reading {
  const reading = { ...readImages(document), outputBytes: 0 }
  if (!isRewritten(body, ask)) return reading
  const parsed = document as { data: Picture[] }
  const value = () => ({ ...parsed, data: parsed.data.map(each => inRequestedForm(each, ask.format)) })
  return { ...reading, answer: answerFrom(body, value) }
}

/** Images are large, so they are only parsed if the answer has to be rewritten. */
async function readLarge(ask: ImageAsk, body: Buffer): Promise<Reading> {
  if (isRewritten(body, ask)) return readCommon(ask, body, await parseInSlices(body))
  const { cuts } = await scanInSlices(body)
  const isText = (value: unknown) => typeof value === 'string' || isCutText(value, body, cuts)
  return { ...readImages(await parseSkeleton(body, cuts), isText), outputBytes: 0 }
}

/** Members with images or image URLs: their tokens do not follow from their bytes. */
const PICTURES = ['image', 'images', 'mask']

const isPresent = (value: unknown) => value !== undefined && value !== null && value !== ''

/** The number of images in the body, without uploaded files. */
const picturesIn = (body: JsonObject): number =>
  PICTURES.flatMap(name => [body[name]].flat()).filter(isPresent).length

function workOf(ask: ImageAsk, encode: Encode, digest: () => string | Promise<string>): Work {
  const pictures = ask.images.length + (ask.mask ? 1 : 0) + picturesIn(ask.body)
  const size = sizeOf(ask.body, ['model', ...PICTURES])
  const inputTokens = inputBound(size) + pictures * MEDIA_TOKENS.images
  const countedInput = Math.ceil(inputBound(size) / BYTES_PER_TOKEN)
  const usageOf = (count: number): Usage => ({
    ...EMPTY,
    input: countedInput,
    imageOutput: count * USUAL_PICTURE_TOKENS,
    images: count,
    calls: ask.n,
  })
  return {
    model: ask.model,
    isStream: ask.isStream,
    inputTokens,
    countedInput,
    counted: () => usageOf(0),
    estimated: () => usageOf(ask.n),
    outputTokens: maximum => (maximum ?? 0) * ask.n,
    outputLimit: maximum => (maximum === undefined ? undefined : maximum * ask.n),
    units: { images: ask.n, calls: ask.n },
    priceConditions: priceConditionsOf(ask),
    unfit: (channel, sentModel) => unfit(ask, channel, sentModel),
    requestFor: (channel, sentModel) => ({
      ...encode(channel, sentModel),
      readBuffered(answer) {
        const { body } = answer
        const dialect = dialectOf('images', 'openai', channel, sentModel)
        const counted = ({ count, usage, ...rest }: Reading): AnswerReading => ({
          ...rest,
          measured: usageOf(count),
          usage: usage && { ...usage, images: count, calls: ask.n },
        })
        if (dialect)
          return readingDocument(body, document => counted(readDialect(dialect, ask, answer, document)))
        if (body.length > SLICED_BYTES) return readingLater(async () => counted(await readLarge(ask, body)))
        return reading(() => counted(readCommon(ask, body, parsedAnswer(body))))
      },
      meter() {
        let lastPicture: When = {}
        let hasBegun = false
        const meter = createEventMeter({
          parts: PARTS,
          last: LAST,
          times: ask.n,
          units: finishes => ({ images: finishes, calls: ask.n }),
          onPart(member) {
            lastPicture = madeOf(member)
            hasBegun = true
          },
          onLast(member) {
            lastPicture = madeOf(member)
            hasBegun = false
          },
          readUsage: pictureUsage,
          limits: EVENT_LIMITS,
        })
        return {
          ...meter,
          imageProperties: () => lastPicture,
          // A part counts as an image: the last one is nearly the image, and the provider generates all of it.
          measured: () => usageOf(meter.reading.finishes + (hasBegun ? 1 : 0)),
        }
      },
    }),
    maxAnswerBytes: MAX_ANSWER_BYTES,
    digest,
  }
}

function unfit(ask: ImageAsk, channel: RelayChannel, sentModel: string) {
  const dialect = dialectOf('images', 'openai', channel, sentModel)
  if (!dialect) return undefined
  if (ask.isStream) return badParameter('stream', 'must be false: the provider does not support streaming')
  if (ask.task !== 'generations' && !dialect.tasks?.includes(ask.task))
    return badParameter('model', `does not support image ${ask.task}`)
  const fault = dialect.unfit?.(ask)
  return fault && badParameter(fault.path, fault.message)
}

/** Some models always return the image itself, and reject `response_format`. */
const withoutForm = (channel: RelayChannel, sentModel: string) =>
  channel.provider.picturesInside?.(sentModel) ? { response_format: undefined } : {}

function fromJson(ask: ImageAsk, bytes: Buffer): Encode {
  return (channel, sentModel) => {
    const dialect = dialectOf('images', 'openai', channel, sentModel)
    if (dialect) return upstreamBody(dialect.encode(ask, sentModel), channel)
    const removed = withoutForm(channel, sentModel)
    const own =
      ask.format !== undefined && 'response_format' in removed ? editTopLevel(bytes, removed) : bytes
    return clientBody({ bytes: own }, ask.model, sentModel, channel)
  }
}

function fromForm(ask: ImageAsk, form: Form): Encode {
  return (channel, sentModel) => {
    const dialect = dialectOf('images', 'openai', channel, sentModel)
    if (dialect) return upstreamBody(dialect.encode(ask, sentModel), channel)
    const removed = withoutForm(channel, sentModel)
    const parts: FormPart[] = [
      { name: 'model', value: sentModel },
      ...form.fields
        .filter(([name]) => name !== 'model' && !(name in removed))
        .map(([name, value]) => ({ name, value })),
      ...form.files.map(file => ({ name: file.field, file })),
    ]
    return upstreamBody({ parts }, channel)
  }
}

const isImage = ({ field }: FormFile) => field === 'image' || field === 'image[]'

function filesOf(form: Form, task: ImageTask) {
  const images = form.files.filter(isImage)
  const mask = form.files.find(({ field }) => field === 'mask')
  const other = form.files.find(file => !isImage(file) && file !== mask)
  if (other) throw badParameter(other.field, 'must not be a file')
  const most = task === 'edits' ? MAX_IMAGES : 1
  if (images.length > most)
    throw badParameter('image', `must be at most ${most} image${most === 1 ? '' : 's'}`)
  const empty = form.files.find(({ size }) => size === 0)
  if (empty) throw badParameter(empty.field, 'must not be empty')
  return { images, mask }
}

const NUMBERS = ['n', 'partial_images', 'output_compression']

const readForm =
  (task: ImageTask) =>
  (form: Form): Work => {
    const body = typed(bodyOfForm(form.fields), NUMBERS, ['stream'])
    const files = filesOf(form, task)
    const hasOwn = files.images.length > 0
    const ask = mustRead(readImageRequest(body, task, files))
    if (!hasOwn) mustHaveImage(body)
    return workOf(ask, fromForm(ask, form), () => digestOfForm(form))
  }

/** The image to edit: a file, or in JSON a URL or the image data. */
function mustHaveImage({ image, images }: JsonObject): void {
  const count = [image, images].flat().filter(isPresent).length
  if (count === 0)
    mustRead({ fault: { param: 'image', code: 'missing_parameter', message: 'image is missing' } })
  if (count > MAX_IMAGES) throw badParameter('image', `must be at most ${MAX_IMAGES} images`)
}

const specOf = (task: ImageTask) => ({
  operation: 'images' as const,
  format: 'openai' as const,
  formatFor: formatWith('images', 'openai'),
  ...(task === 'generations' ? {} : { sibling: task }),
})

export const imageGenerations = {
  ...specOf('generations'),
  read(parsed, bytes): Work {
    const ask = mustRead(readImageRequest(parsed, 'generations', { images: [], mask: undefined }))
    return workOf(ask, fromJson(ask, bytes), () => digestOfBytes(bytes))
  },
} satisfies OperationSpec

export const imageEdits = {
  ...specOf('edits'),
  read(parsed, bytes): Work {
    const ask = mustRead(readImageRequest(parsed, 'edits', { images: [], mask: undefined }))
    mustHaveImage(parsed)
    return workOf(ask, fromJson(ask, bytes), () => digestOfBytes(bytes))
  },
  readForm: readForm('edits'),
} satisfies OperationSpec

export const imageVariations = {
  ...specOf('variations'),
  readForm: readForm('variations'),
} satisfies OperationSpec
