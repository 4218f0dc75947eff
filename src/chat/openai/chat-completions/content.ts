import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { addressOf } from '../../hub/citation.ts'
import { bodyOf, compact, extrasOf, type FieldReader, ownExtras } from '../../hub/fields.ts'
import type {
  CacheMark,
  Citation,
  MediaPart,
  Part,
  ReasoningPart,
  Signature,
  TextPart,
  ToolCallPart,
} from '../../hub/hub.ts'
import { atClientPath } from '../../hub/lost-content.ts'
import { dataUrl, parseDataUrl, urlOf } from '../../hub/media.ts'
import {
  packSignature,
  signatureOfText,
  signLastText,
  textSignatureThought,
  unpackSignature,
} from '../../hub/signature.ts'
import type { Warnings } from '../../hub/warnings.ts'

export const FORMAT = 'openai-chat'

/** The vendor's other format; file ids are valid in both. */
const SISTER = 'responses'

const AUDIO_TYPES: Readonly<Record<string, string>> = { mp3: 'audio/mpeg' }
const AUDIO_FORMATS: Readonly<Record<string, string>> = { 'audio/mpeg': 'mp3' }

/** `content` of a message: a text, a list of parts, or absent. */
export function decodeContent(message: FieldReader): readonly Part[] {
  const content = message.any('content')
  if (content === undefined || content === '') return []
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  if (!Array.isArray(content)) {
    return message.isStrict ? message.refuse('content', 'must be a string or a list of parts') : []
  }
  return message.each('content').map(part => atClientPath(decodePart(part), part))
}

export function decodePart(part: FieldReader): Part {
  const type = part.needText('type')
  switch (type) {
    case 'text':
      return withExtras(part, { type, text: part.needText('text'), ...cacheIn(part) })
    case 'refusal':
      return withExtras(part, { type, text: part.needText('refusal') })
    case 'image_url':
      return withExtras(part, { ...linked(part, type, 'image'), ...cacheIn(part) })
    case 'video_url':
      return withExtras(part, { ...linked(part, type, 'video'), ...cacheIn(part) })
    case 'input_audio': {
      const audio = part.needFields('input_audio')
      const format = audio.text('format') ?? 'wav'
      return withExtras(part, {
        type: 'media',
        kind: 'audio',
        source: { data: audio.needText('data') },
        mediaType: (Object.hasOwn(AUDIO_TYPES, format) && AUDIO_TYPES[format]) || `audio/${format}`,
      })
    }
    case 'file':
      return withExtras(part, { ...decodeFile(part.needFields('file')), ...cacheIn(part) })
    case 'thinking':
      return { type: 'reasoning', text: thinkingText(part.any('thinking')) }
    default:
      return { type: 'vendor', format: FORMAT, value: part.value }
  }
}

const withExtras = (part: FieldReader, decoded: Part): Part => {
  const extras = extrasOf(FORMAT, part.rest())
  return extras === undefined ? decoded : ({ ...decoded, extras } as Part)
}

/** Some hosts send the URL itself in place of an object around it. */
function linked(part: FieldReader, name: string, kind: 'image' | 'video'): MediaPart {
  const field = part.any(name)
  const url = typeof field === 'string' ? field : part.needFields(name).needText('url')
  const detail = member(field, 'detail')
  const inline = parseDataUrl(url)
  return compact<MediaPart>({
    type: 'media',
    kind,
    source: inline === undefined ? { url } : { data: inline.data },
    mediaType: inline?.mediaType,
    detail: typeof detail === 'string' ? detail : undefined,
  })
}

function decodeFile(file: FieldReader): MediaPart {
  const name = file.text('filename')
  const id = file.text('file_id')
  if (id !== undefined) {
    return compact<MediaPart>({ type: 'media', kind: 'file', source: { fileId: id, format: FORMAT }, name })
  }
  const data = file.needText('file_data')
  const inline = parseDataUrl(data)
  return compact<MediaPart>({
    type: 'media',
    kind: 'file',
    source: { data: inline?.data ?? data },
    mediaType: inline?.mediaType,
    name,
  })
}

/** Mistral's form of reasoning: a text, or a list of texts. */
export function thinkingText(thinking: unknown): string {
  if (typeof thinking === 'string') return thinking
  if (!Array.isArray(thinking)) return ''
  return thinking
    .map(each => member(each, 'text'))
    .filter(text => typeof text === 'string')
    .join('')
}

/** A common extension: Anthropic's cache mark on a part or a tool. */
export function cacheIn(fields: FieldReader): { cache?: CacheMark } {
  const mark = fields.any('cache_control')
  if (mark === undefined) return {}
  const ttl = member(mark, 'ttl')
  return { cache: typeof ttl === 'string' ? { ttl } : {} }
}

export const cacheControl = (cache: CacheMark | undefined): JsonObject =>
  cache === undefined ? {} : { cache_control: { type: 'ephemeral', ...cache } }

/** Encodes one part of a message's `content`; undefined: the format has no such part, and a warning is added. */
export function encodePart(part: Part, path: string, warnings: Warnings): JsonObject | undefined {
  if (part.type !== 'vendor') warnings.foreign(`${path}.`, part)
  switch (part.type) {
    case 'text':
      if (part.signature !== undefined) warnings.lost(path, 'the signature of a text was left out')
      return { ...ownExtras(FORMAT, part), type: 'text', text: part.text, ...cacheControl(part.cache) }
    case 'refusal':
      return { ...ownExtras(FORMAT, part), type: 'refusal', refusal: part.text }
    case 'media': {
      const encoded = encodeMedia(part, path, warnings)
      return encoded && { ...ownExtras(FORMAT, part), ...encoded, ...cacheControl(part.cache) }
    }
    default:
      if (part.type === 'vendor' && part.format === FORMAT) return part.value
      warnings.lostPart(path, part)
      return undefined
  }
}

/** Encodes the parts that the format supports. `path`: the path of the message. */
export const encodeParts = (
  parts: readonly Part[],
  path: string,
  warnings: Warnings,
): readonly JsonObject[] =>
  parts
    .map((part, index) => encodePart(part, `${path}.content[${index}]`, warnings))
    .filter(part => part !== undefined)

function encodeMedia(part: MediaPart, path: string, warnings: Warnings): JsonObject | undefined {
  const { kind, source, mediaType, name, detail, context } = part
  if (context !== undefined) warnings.unsupported(`${path}.context`)
  if (part.isCited) warnings.lost(`${path}.citations`, 'cannot be asked for and were left out')
  if ('text' in source) {
    warnings.lost(path, 'a document in plain text is sent as a text')
    return { type: 'text', text: name === undefined ? source.text : `${name}\n\n${source.text}` }
  }
  if ('fileId' in source) {
    const isOurs = source.format === FORMAT || source.format === SISTER
    if (isOurs && kind === 'file')
      return { type: 'file', file: bodyOf({ file_id: source.fileId, filename: name }) }
    warnings.lostContent(path, 'a file stored with another vendor cannot be sent')
    return undefined
  }
  switch (kind) {
    case 'image':
    case 'video':
      if (name !== undefined) warnings.unsupported(`${path}.name`)
      return {
        type: `${kind}_url`,
        [`${kind}_url`]: bodyOf({ url: urlOf(source, mediaType), detail }),
      }
    case 'audio':
      if ('url' in source) break
      if (name !== undefined) warnings.unsupported(`${path}.name`)
      return { type: 'input_audio', input_audio: { data: source.data, format: audioFormat(mediaType) } }
    default:
      if ('url' in source) break
      return {
        type: 'file',
        file: bodyOf({
          file_data: mediaType === undefined ? source.data : dataUrl(mediaType, source.data),
          filename: name,
        }),
      }
  }
  warnings.lostContent(path, `a URL of media of the type ${kind} cannot be sent`)
  return undefined
}

const audioFormat = (mediaType = 'audio/wav'): string =>
  AUDIO_FORMATS[mediaType] ?? mediaType.replace(/^audio\//, '')

// --- Reasoning: `reasoning_content`, and `reasoning_details` if signatures must survive ---------------------------

type Detail = {
  readonly type: string
  readonly text?: string
  readonly summary?: string
  readonly signature?: string
  readonly data?: string
  readonly format?: string
  readonly id?: string
}

/** The reasoning of a message, in any of the forms that hosts use. */
export function decodeReasoning(message: FieldReader): readonly ReasoningPart[] {
  const text = message.text('reasoning_content')
  const reasoning = message.any('reasoning')
  const plain = text ?? (typeof reasoning === 'string' ? reasoning : undefined)
  const details = (message.list('reasoning_details') ?? []).filter(isObject).map(decodeDetail)
  // If the details contain the text, the other field repeats it.
  if (details.some(detail => detail.text !== '')) return details
  return plain ? [{ type: 'reasoning', text: plain }, ...details] : details
}

export function decodeDetail(value: JsonObject): ReasoningPart {
  const detail = value as Detail
  const format = typeof detail.format === 'string' ? detail.format : FORMAT
  const signed = (text: unknown): Signature | undefined =>
    typeof text === 'string' && text !== '' ? { format, value: text } : undefined
  return compact<ReasoningPart>({
    type: 'reasoning',
    text: asText(detail.text) ?? asText(detail.summary) ?? '',
    signature: signed(detail.signature),
    encrypted: signed(detail.data),
    id: asText(detail.id),
  })
}

const asText = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

/** Reasoning whose signature must be sent back unchanged, with its text, so that several can be distinguished. */
export function encodeDetail(part: ReasoningPart, index: number): JsonObject {
  const { text, signature, encrypted, id } = part
  const signed = signature ?? encrypted
  return bodyOf({
    type: signature === undefined && encrypted !== undefined ? 'reasoning.encrypted' : 'reasoning.text',
    text: text === '' ? undefined : text,
    signature: signature?.value,
    data: encrypted?.value,
    format: signed?.format,
    id,
    index,
  })
}

/** The reasoning of an answer. The signature of its text is added as the last entry. */
export function encodeReasoning(parts: readonly Part[]): JsonObject {
  const thoughts = parts.filter((part): part is ReasoningPart => part.type === 'reasoning')
  const signature = parts.findLast(isSignedText)?.signature
  const text = thoughts.map(part => part.text).join('')
  const needDetails = thoughts.some(part => part.signature ?? part.encrypted ?? part.id)
  const details = [
    ...(needDetails ? thoughts : []),
    ...(signature === undefined ? [] : [textSignatureThought(signature)]),
  ]
  return {
    ...(text !== '' && { reasoning_content: text }),
    ...(details.length > 0 && { reasoning_details: details.map(encodeDetail) }),
  }
}

const isSignedText = (part: Part): part is TextPart => part.type === 'text' && part.signature !== undefined

/** Reasoning and the content after it; a text signature found in the reasoning moves to the text. */
export function withTextSignature(
  thoughts: readonly ReasoningPart[],
  content: readonly Part[],
): readonly Part[] {
  const signature = thoughts.map(signatureOfText).findLast(each => each !== undefined)
  if (signature === undefined) return [...thoughts, ...content]
  const parts: Part[] = [...thoughts.filter(each => signatureOfText(each) === undefined), ...content]
  signLastText(parts, signature)
  return parts
}

// --- Tool calls ---------------------------------------------------------------------------------------------------

export function decodeToolCall(call: FieldReader, newId: (prefix: string) => string): ToolCallPart {
  const id = call.text('id') || newId('call_')
  const signature = decodeCallSignature(call.any('extra_content'))
  const custom = call.fields('custom')
  call.any('type')
  if (custom !== undefined) {
    return compact<ToolCallPart>({
      type: 'toolCall',
      id,
      name: custom.needText('name'),
      arguments: custom.text('input') ?? '',
      isCustom: true,
      signature,
      extras: extrasOf(FORMAT, call.rest()),
    })
  }
  const called = call.needFields('function')
  const { index: _, ...rest } = call.rest() ?? {}
  return compact<ToolCallPart>({
    type: 'toolCall',
    id,
    name: called.needText('name'),
    arguments: argumentsText(called.any('arguments')),
    signature,
    extras: extrasOf(FORMAT, Object.keys(rest).length === 0 ? undefined : rest),
  })
}

/** Some hosts send an object in place of JSON text, or nothing for a tool without arguments. */
export function argumentsText(value: unknown): string {
  if (typeof value === 'string') return value === '' ? '{}' : value
  return value === undefined || value === null ? '{}' : JSON.stringify(value)
}

/** Google's OpenAI-compatible endpoint uses this member for its signatures. The gateway uses it for other vendors' too. */
export function decodeCallSignature(extra: unknown): Signature | undefined {
  const text = member(member(extra, 'google'), 'thought_signature')
  return typeof text === 'string' && text !== '' ? unpackSignature('gemini', text) : undefined
}

export const callSignature = (signature: Signature | undefined): JsonObject =>
  signature === undefined
    ? {}
    : { extra_content: { google: { thought_signature: packSignature('gemini', signature) } } }

export function encodeToolCall(call: ToolCallPart): JsonObject {
  const { id, name, arguments: text, isCustom, signature } = call
  return {
    ...ownExtras(FORMAT, call),
    id,
    ...(isCustom
      ? { type: 'custom', custom: { name, input: text } }
      : { type: 'function', function: { name, arguments: text } }),
    ...callSignature(signature),
  }
}

// --- Citations ----------------------------------------------------------------------------------------------------

export function decodeAnnotation(value: unknown): Citation | undefined {
  const cited = member(value, 'url_citation')
  if (!isObject(cited)) return undefined
  const { url, title, start_index, end_index } = cited as Record<string, unknown>
  return compact<Citation>({
    url: asText(url),
    title: asText(title),
    start: typeof start_index === 'number' ? start_index : undefined,
    end: typeof end_index === 'number' ? end_index : undefined,
  })
}

/**
 * `from` and `to`: the position of the part's text in the message, for a citation without a range. Strict clients accept
 * web citations only, so a file is cited by a URL.
 */
export function encodeAnnotation(citation: Citation, from: number, to: number): readonly JsonObject[] {
  const { title = '', start, end } = citation
  const url = addressOf(citation)
  if (url === undefined || isListed(citation)) return []
  const start_index = start === undefined ? from : from + start
  const end_index = end === undefined ? to : from + end
  return [{ type: 'url_citation', url_citation: { url, title, start_index, end_index } }]
}

/** Marks a citation that this format already has in the extras of the answer. */
export const withListedMark = (citation: Citation): Citation => ({
  ...citation,
  extras: { [FORMAT]: { isListed: true } },
})

const isListed = (citation: Citation): boolean => ownExtras(FORMAT, citation).isListed === true
