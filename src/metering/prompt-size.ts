import { isObject, type JsonObject } from '../domain/json-value.ts'
import { isLongTextName, type LongText, longText } from '../wire/json-skim.ts'

/** Media in a prompt, whose tokens do not follow from their bytes. */
type MediaCounts = {
  readonly images: number
  readonly audio: number
  readonly files: number
  readonly videos: number
}

/**
 * Tokens to hold for each, since neither a URL nor a compressed file reveals them. images: the maximum of vendors that do
 * not limit their counts (OpenAI and Anthropic stay below 5,000, Qwen's largest setting is 16,384). audio: 17 minutes at
 * Gemini's 32 tokens a second, 54 at OpenAI's 10. files and videos: 40 pages at Anthropic's maximum of 3,000, or seven
 * minutes of video at Gemini's 300 a second.
 */
export const MEDIA_TOKENS: MediaCounts = { images: 16_384, audio: 32_768, files: 131_072, videos: 131_072 }

const MEDIA_PARTS: Readonly<Record<string, keyof MediaCounts>> = {
  image_url: 'images',
  input_image: 'images',
  image: 'images',
  computer_screenshot: 'images',
  input_audio: 'audio',
  audio_url: 'audio',
  file: 'files',
  input_file: 'files',
  document: 'files',
  // Mistral; Zhipu and Perplexity.
  document_url: 'files',
  file_url: 'files',
  // Refers to content that the vendor stores.
  item_reference: 'files',
  video_url: 'videos',
  input_video: 'videos',
  video: 'videos',
}

/** Google's format does not name the kind of a part: the member with the file has its type. */
const CARRIERS: ReadonlySet<string> = new Set(['inlineData', 'inline_data', 'fileData', 'file_data'])

function carriedKind({ mimeType, mime_type }: JsonObject): keyof MediaCounts {
  const type = String(mimeType ?? mime_type ?? '')
  if (type.startsWith('image/')) return 'images'
  if (type.startsWith('audio/')) return 'audio'
  return type.startsWith('video/') ? 'videos' : 'files'
}

/** Members of a media part that hold the data or a URL. */
const PAYLOADS: ReadonlySet<string> = new Set([
  'url',
  'data',
  'file_data',
  'file_url',
  'document_url',
  'image_url',
  'audio_url',
  'video_url',
])

export const isCarrier = (name: string) => CARRIERS.has(name)
export const isPayload = (name: string) => PAYLOADS.has(name)
export const isMediaPart = ({ type }: JsonObject) =>
  typeof type === 'string' && Object.hasOwn(MEDIA_PARTS, type)

const PDF = 'data:application/pdf'
const BYTES_PER_BASE64_CHARACTER = 3 / 4

// JSON syntax around and between values; a model that is shown a schema sees it too.
const TEXT_FRAME_BYTES = 2
const MEMBER_FRAME_BYTES = 4
const LIST_FRAME_BYTES = 2
const NUMBER_BYTES = 24
const WORD_BYTES = 5

export type PromptSize = {
  /** No tokenizer yields more tokens than the text has UTF-8 bytes. */
  readonly textBytes: number
  readonly media: MediaCounts
}

/**
 * The size of everything in a request that may become prompt: all keys and values at any depth, since an unknown field
 * may be shown to the model. `except`: top-level members to leave out.
 */
export function sizeOf(request: JsonObject, except: readonly string[] = []): PromptSize {
  const media: MutableCounts = { images: 0, audio: 0, files: 0, videos: 0 }
  let textBytes = 0
  for (const key of Object.keys(request)) {
    if (!except.includes(key)) textBytes += memberSize(media, key, request[key], false)
  }
  if (Array.isArray(request.input)) media.files += request.input.filter(isBareReference).length
  return { textBytes, media }
}

/** An item of Responses with an id alone is an `item_reference`: the type is optional. */
const isBareReference = (item: unknown) =>
  isObject(item) &&
  typeof item.id === 'string' &&
  (item.type ?? undefined) === undefined &&
  (item.role ?? undefined) === undefined

type MutableCounts = { -readonly [kind in keyof MediaCounts]: number }

// The functions below add the media that they find to `media`. `isMedia`: the value is inside a media part.

function sizeOfValue(media: MutableCounts, value: unknown, isMedia: boolean): number {
  if (typeof value === 'string') return utf8Bytes(value) + TEXT_FRAME_BYTES
  if (typeof value === 'number') return NUMBER_BYTES
  if (Array.isArray(value)) return listSize(media, value, isMedia)
  return isObject(value) ? objectSize(media, value, isMedia) : WORD_BYTES
}

function listSize(media: MutableCounts, list: readonly unknown[], isMedia: boolean): number {
  let bytes = LIST_FRAME_BYTES + list.length
  for (const value of list) {
    const kind = isObject(value) ? (isMedia ? kindInDocument(value) : untypedKind(value)) : undefined
    if (kind !== undefined) media[kind] += 1
    bytes += sizeOfValue(media, value, isMedia)
  }
  return bytes
}

/** A document may be a list of images. */
const kindInDocument = (part: JsonObject) => (kindOf(part) === 'images' ? 'images' : undefined)

/** vLLM accepts parts without a type: `{"image_url": "https://…"}`. */
function untypedKind({ type, image_url, audio_url, video_url }: JsonObject): keyof MediaCounts | undefined {
  if ((type ?? undefined) !== undefined) return undefined
  if (image_url !== undefined) return 'images'
  if (audio_url !== undefined) return 'audio'
  return video_url === undefined ? undefined : 'videos'
}

const kindOf = ({ type }: JsonObject): keyof MediaCounts | undefined =>
  typeof type === 'string' && Object.hasOwn(MEDIA_PARTS, type) ? MEDIA_PARTS[type] : undefined

function objectSize(media: MutableCounts, object: JsonObject, isInMedia: boolean): number {
  const { type } = object
  const kind = kindOf(object)
  if (kind !== undefined && !isInMedia) media[kind] += 1
  let bytes = LIST_FRAME_BYTES
  // Text inside a document counts as text: it has no URL or file.
  const isMedia = (isInMedia || kind !== undefined) && type !== 'text'
  // A `for in` loop without a list of keys: parsed objects inherit no enumerable names.
  for (const key in object) {
    if (isLongTextName(key)) return (longText(object)?.bytes ?? 0) + TEXT_FRAME_BYTES
    const inner = object[key]
    const carried = CARRIERS.has(key) && isObject(inner) ? carriedKind(inner) : undefined
    if (carried !== undefined && !isInMedia) media[carried] += 1
    bytes += memberSize(media, key, inner, isMedia || carried !== undefined)
  }
  return bytes
}

function memberSize(media: MutableCounts, key: string, value: unknown, isMedia: boolean): number {
  const payload = isMedia && PAYLOADS.has(key) ? lengthOf(value) : undefined
  const bytes = payload === undefined ? sizeOfValue(media, value, isMedia) : payloadSize(key, payload)
  return utf8Bytes(key) + MEMBER_FRAME_BYTES + bytes
}

/** A short text is measured here, because a native call takes longer. */
const SHORT_LENGTH = 24

function utf8Bytes(text: string): number {
  if (text.length > SHORT_LENGTH) return Buffer.byteLength(text)
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0x7f) return Buffer.byteLength(text)
  return text.length
}

const lengthOf = (value: unknown): LongText | undefined =>
  typeof value === 'string' ? { bytes: value.length, head: value.slice(0, PDF.length) } : longText(value)

/** A file other than PDF is mostly text: its text counts in addition to the constant. */
function payloadSize(key: string, { bytes, head }: LongText): number {
  if (key !== 'file_data' || head.startsWith(PDF)) return 0
  return Math.ceil(bytes * BYTES_PER_BASE64_CHARACTER)
}

/** An upper bound of the prompt's tokens. */
export function inputBound({ textBytes, media }: PromptSize): number {
  return (
    textBytes +
    media.images * MEDIA_TOKENS.images +
    media.audio * MEDIA_TOKENS.audio +
    media.files * MEDIA_TOKENS.files +
    media.videos * MEDIA_TOKENS.videos
  )
}
