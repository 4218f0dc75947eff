import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { bodyOf, compact, extrasOf, type FieldReader, lenientFields, ownExtras } from '../../hub/fields.ts'
import type {
  Citation,
  MediaPart,
  MediaSource,
  Part,
  ReasoningPart,
  TextPart,
  ToolCallPart,
  ToolResultPart,
} from '../../hub/hub.ts'
import { atClientPath } from '../../hub/lost-content.ts'
import { dataUrl, parseDataUrl, urlOf } from '../../hub/media.ts'
import { packReasoningSignature, unpackReasoningSignature } from '../../hub/signature.ts'
import type { Warnings } from '../../hub/warnings.ts'
import { decodeLogprobs } from '../chat-completions/logprobs.ts'

export const FORMAT = 'responses'

/** The vendor's other format; file ids are valid in both. */
const SISTER = 'openai-chat'

// --- Reading ------------------------------------------------------------------------------------------------------

/** `content` of a message, or the `output` of a tool: a text, or a list of parts. */
export function decodeContent(holder: FieldReader, name = 'content'): readonly Part[] {
  const content = holder.any(name)
  if (content === undefined || content === '') return []
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  if (!Array.isArray(content)) {
    return holder.isStrict ? holder.refuse(name, 'must be a string or a list of parts') : []
  }
  return holder.each(name).map(part => atClientPath(decodePart(part), part))
}

function decodePart(part: FieldReader): Part {
  const type = part.needText('type')
  switch (type) {
    case 'input_text':
    case 'output_text': {
      const citations = (part.list('annotations') ?? []).filter(isObject).map(decodeAnnotation)
      part.any('logprobs')
      return extended(part, {
        type: 'text',
        text: part.needText('text'),
        ...(citations.length > 0 && { citations }),
      })
    }
    case 'refusal':
      return extended(part, { type, text: part.needText('refusal') })
    case 'input_image':
      return extended(part, decodeImage(part))
    case 'input_file':
      return extended(part, decodeFile(part))
    default:
      return { type: 'vendor', format: FORMAT, value: part.value }
  }
}

function extended<T extends Part>(part: FieldReader, decoded: T): T {
  const extras = extrasOf(FORMAT, part.rest())
  return extras === undefined ? decoded : { ...decoded, extras }
}

function decodeImage(part: FieldReader): MediaPart {
  const detail = part.text('detail')
  const fileId = part.text('file_id')
  const imageUrl = part.text('image_url')
  const inline = imageUrl === undefined ? undefined : parseDataUrl(imageUrl)
  const source: MediaSource =
    inline !== undefined
      ? { data: inline.data }
      : fileId !== undefined
        ? { fileId, format: FORMAT }
        : { url: imageUrl ?? part.needText('image_url') }
  return compact<MediaPart>({ type: 'media', kind: 'image', source, mediaType: inline?.mediaType, detail })
}

function decodeFile(part: FieldReader): MediaPart {
  const name = part.text('filename')
  const fileId = part.text('file_id')
  const url = part.text('file_url')
  const detail = part.text('detail')
  if (fileId !== undefined || url !== undefined) {
    const source: MediaSource = url === undefined ? { fileId: fileId ?? '', format: FORMAT } : { url }
    return compact<MediaPart>({ type: 'media', kind: 'file', source, name, detail })
  }
  const data = part.needText('file_data')
  const inline = parseDataUrl(data)
  const source = { data: inline?.data ?? data }
  return compact<MediaPart>({
    type: 'media',
    kind: 'file',
    source,
    mediaType: inline?.mediaType,
    name,
    detail,
  })
}

/** The parts of an assistant item; undefined for an item of another role. */
export function decodeItem(item: FieldReader, newId: (prefix: string) => string): readonly Part[] {
  const type = item.text('type') ?? 'message'
  // Item ids are valid only if answers are stored.
  switch (type) {
    case 'message': {
      const parts = decodeContent(item)
      for (const name of ['id', 'status', 'role']) item.any(name)
      return ofItem(parts, item.rest())
    }
    case 'reasoning':
      return decodeReasoning(item)
    case 'function_call':
    case 'custom_tool_call':
      return [decodeCall(item, type === 'custom_tool_call', newId)]
    case 'image_generation_call':
      return decodeGeneratedImage(item)
    default:
      return [{ type: 'vendor', format: FORMAT, value: item.value }]
  }
}

/** Fields of the message itself (`phase`) are kept with the first of its parts, under `item`. */
function ofItem(parts: readonly Part[], rest: JsonObject | undefined): readonly Part[] {
  const [first, ...others] = parts
  if (rest === undefined || first === undefined || first.type === 'vendor') return parts
  return [
    { ...first, extras: { ...first.extras, [FORMAT]: { ...ownExtras(FORMAT, first), item: rest } } },
    ...others,
  ]
}

/** The extras of the message, and those of the part itself. */
export function splitExtras(part: Part): { readonly item: JsonObject; readonly own: JsonObject } {
  if (part.type === 'vendor') return { item: {}, own: {} }
  const { item, ...own } = ownExtras(FORMAT, part)
  return { item: isObject(item) ? item : {}, own }
}

/** Each summary becomes a reasoning part; the signature covers all of them and is kept with the last. */
function decodeReasoning(item: FieldReader): readonly ReasoningPart[] {
  const id = item.text('id')
  const encryptedContent = item.text('encrypted_content')
  const texts = [...item.each('summary'), ...item.each('content')].map(each => each.text('text') ?? '')
  const thoughts = texts.filter(text => text !== '')
  if (thoughts.length === 0 && encryptedContent) thoughts.push('')
  return thoughts.map((text, at) => ({
    ...compact<ReasoningPart>({ type: 'reasoning', text, id }),
    ...(encryptedContent &&
      at === thoughts.length - 1 &&
      unpackReasoningSignature(FORMAT, encryptedContent, 'encrypted')),
  }))
}

function decodeCall(item: FieldReader, isCustom: boolean, newId: (prefix: string) => string): ToolCallPart {
  for (const name of ['id', 'status']) item.any(name)
  return compact<ToolCallPart>({
    type: 'toolCall',
    id: item.text('call_id') || newId('call_'),
    name: item.needText('name'),
    arguments: isCustom ? (item.text('input') ?? '') : item.text('arguments') || '{}',
    isCustom: isCustom ? true : undefined,
    extras: extrasOf(FORMAT, item.rest()),
  })
}

/** An image of the vendor's own tool becomes an image for every client. */
function decodeGeneratedImage(item: FieldReader): readonly Part[] {
  const data = item.text('result')
  if (data === undefined) return [{ type: 'vendor', format: FORMAT, value: item.value }]
  for (const name of ['id', 'status']) item.any(name)
  const mediaType = `image/${item.text('output_format') ?? 'png'}`
  return [extended(item, { type: 'media', kind: 'image', source: { data }, mediaType })]
}

export function decodeResult(item: FieldReader, isCustom: boolean): ToolResultPart {
  for (const name of ['id', 'status']) item.any(name)
  return compact<ToolResultPart>({
    type: 'toolResult',
    callId: item.needText('call_id'),
    content: decodeContent(item, 'output'),
    isCustom: isCustom ? true : undefined,
    extras: extrasOf(FORMAT, item.rest()),
  })
}

export function decodeAnnotation(value: JsonObject): Citation {
  const annotation = lenientFields(value)
  const url = annotation.text('url')
  const id = annotation.text('file_id')
  const container = annotation.text('container_id')
  const citation = compact<Citation>({
    url,
    file: id === undefined ? undefined : { id, ...(container !== undefined && { container }) },
    title: annotation.text('title') ?? annotation.text('filename'),
    start: annotation.number('start_index'),
    end: annotation.number('end_index'),
  })
  const extras = url === undefined ? extrasOf(FORMAT, annotation.rest()) : undefined
  return extras === undefined ? citation : { ...citation, extras }
}

/** The log probabilities of all texts in a message. */
export const logprobsIn = (item: unknown) => {
  const content = member(item, 'content')
  return Array.isArray(content)
    ? content.flatMap(part => decodeLogprobs({ content: member(part, 'logprobs') }))
    : []
}

// --- Writing ------------------------------------------------------------------------------------------------------

/** `length`: the length of the text, for a citation without a range. */
export function encodeAnnotation(citation: Citation, length: number): JsonObject {
  const { url, file, title = '', start = 0, end = length } = citation
  const place = { start_index: start, end_index: end }
  if (url !== undefined) return { type: 'url_citation', url, title, ...place }
  const own = ownExtras(FORMAT, citation)
  const file_id = file?.id ?? ''
  // A file that the model created has no name.
  if (own.type === 'file_path') return { ...own, file_id }
  if (file?.container === undefined)
    return { type: 'file_citation', index: end, ...own, file_id, filename: title }
  const container_id = file.container
  return { type: 'container_file_citation', ...own, container_id, file_id, filename: title, ...place }
}

/** Encodes a part of a user message or tool result. */
export function encodeInput(part: Part, path: string, warnings: Warnings): JsonObject | undefined {
  if (part.type !== 'vendor') warnings.foreign(`${path}.`, part)
  switch (part.type) {
    case 'text':
      return { ...ownExtras(FORMAT, part), type: 'input_text', text: part.text }
    case 'refusal':
      return { type: 'input_text', text: part.text }
    case 'media': {
      const encoded = encodeMedia(part, path, warnings)
      return encoded && { ...ownExtras(FORMAT, part), ...encoded }
    }
    default:
      if (part.type === 'vendor' && part.format === FORMAT) return part.value
      warnings.lostPart(path, part)
      return undefined
  }
}

function encodeMedia(part: MediaPart, path: string, warnings: Warnings): JsonObject | undefined {
  const { kind, source, mediaType, name, detail, context } = part
  if (context !== undefined) warnings.unsupported(`${path}.context`)
  if (part.isCited) warnings.lost(`${path}.citations`, 'cannot be asked for and were left out')
  if ('text' in source) {
    warnings.lost(path, 'a document in plain text is sent as a text')
    return { type: 'input_text', text: name === undefined ? source.text : `${name}\n\n${source.text}` }
  }
  const isForeign = 'fileId' in source && source.format !== FORMAT && source.format !== SISTER
  if (isForeign || kind === 'audio' || kind === 'video') {
    const what = isForeign ? 'a file stored with another vendor' : `media of the type ${kind}`
    warnings.lostContent(path, `${what} cannot be sent`)
    return undefined
  }
  const stored = 'fileId' in source ? { file_id: source.fileId } : undefined
  if (kind === 'image') {
    if (name !== undefined) warnings.unsupported(`${path}.name`)
    return bodyOf({ type: 'input_image', ...(stored ?? { image_url: urlOf(source, mediaType) }), detail })
  }
  if (stored !== undefined) return bodyOf({ type: 'input_file', ...stored, filename: name, detail })
  if ('url' in source) return bodyOf({ type: 'input_file', file_url: source.url, filename: name, detail })
  const data = 'data' in source ? source.data : ''
  const file_data = mediaType === undefined ? data : dataUrl(mediaType, data)
  return bodyOf({ type: 'input_file', file_data, filename: name, detail })
}

/** Encodes a text of the assistant, in an answer or in the history. */
export const outputText = (part: TextPart): JsonObject => ({
  ...splitExtras(part).own,
  type: 'output_text',
  text: part.text,
  annotations: part.citations?.map(citation => encodeAnnotation(citation, part.text.length)) ?? [],
})

/** The reasoning parts of one item share an id and one signature. */
export function reasoningItem(parts: readonly ReasoningPart[], id: string | undefined): JsonObject {
  const packed = parts.map(part => packReasoningSignature(FORMAT, part)).filter(proof => proof !== undefined)
  return bodyOf({
    id,
    type: 'reasoning',
    summary: parts.filter(part => part.text !== '').map(({ text }) => ({ type: 'summary_text', text })),
    encrypted_content: packed.at(-1),
  })
}

export const callItem = ({ id, name, arguments: text, isCustom }: ToolCallPart): JsonObject =>
  isCustom
    ? { type: 'custom_tool_call', call_id: id, name, input: text }
    : { type: 'function_call', call_id: id, name, arguments: text }

/** Groups adjacent parts that form one item: texts of a message, reasoning with one id. A signed text ends its message. */
export function grouped(parts: readonly Part[]): readonly (readonly Part[])[] {
  const groups: Part[][] = []
  for (const part of parts) {
    const last = groups.at(-1)
    const before = last?.at(-1)
    const isOpen = before?.type !== 'text' || before.signature === undefined
    const goesOn =
      before !== undefined &&
      ((isMessagePart(before) && isMessagePart(part) && isOpen) || isSameThought(before, part))
    if (goesOn) last?.push(part)
    else groups.push([part])
  }
  return groups
}

const isMessagePart = (part: Part): boolean => part.type === 'text' || part.type === 'refusal'

const isSameThought = (one: Part, other: Part): boolean =>
  one.type === 'reasoning' && other.type === 'reasoning' && one.id !== undefined && one.id === other.id
