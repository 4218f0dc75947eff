import { isObject, type JsonObject, member } from '../../domain/json-value.ts'
import { geminiGeneration } from '../../models/generation.ts'
import { compact, extrasOf, type FieldReader, ownExtras } from '../hub/fields.ts'
import type { MediaPart, MediaSource, Part, ReasoningPart, Signature, ToolCallPart } from '../hub/hub.ts'
import { atClientPath } from '../hub/lost-content.ts'
import { mediaText } from '../hub/media.ts'
import {
  armored,
  disarmed,
  nativeSignature,
  packReasoningSignature,
  packSignature,
  unpackReasoningSignature,
  unpackSignature,
} from '../hub/signature.ts'
import { FREE_TEXT, parseArguments } from '../hub/tools/arguments.ts'
import type { Warnings } from '../hub/warnings.ts'

export const FORMAT = 'gemini'

/** The value that the vendor accepts as the signature of calls that another model made. */
const NO_SIGNATURE = 'skip_thought_signature_validator'

// --- Reading ------------------------------------------------------------------------------------------------------

/** Decodes a part by itself. Parts that depend on others, such as tool results, are decoded by the caller. */
export const decodePart = (part: FieldReader, newId: () => string): Part =>
  atClientPath(decodeAlone(part, newId), part)

function decodeAlone(part: FieldReader, newId: () => string): Part {
  const { value } = part
  if (isObject(value.functionCall)) return extended(part, decodeCall(part, newId))
  if (isObject(value.inlineData)) return extended(part, decodeInline(part))
  if (isObject(value.fileData)) return extended(part, decodeFile(part))
  if (typeof value.text !== 'string' && !isBareSignature(value))
    return { type: 'vendor', format: FORMAT, value }
  const text = part.needText('text')
  if (part.flag('thought') === true) return extended(part, { type: 'reasoning', text, ...signaturesIn(part) })
  return extended(part, compact<Part>({ type: 'text', text, signature: signatureIn(part) }))
}

/** The last part of a stream may contain only the signature of the text before it. */
const isBareSignature = (part: JsonObject): boolean =>
  'thoughtSignature' in part &&
  Object.keys(part).every(name => name === 'thoughtSignature' || name === 'thought')

function extended(part: FieldReader, decoded: Part): Part {
  const extras = extrasOf(FORMAT, part.rest())
  return extras === undefined ? decoded : ({ ...decoded, extras } as Part)
}

function signatureIn(part: FieldReader): Signature | undefined {
  const text = part.text('thoughtSignature')
  return text === undefined || text === '' || text === NO_SIGNATURE
    ? undefined
    : unpackSignature(FORMAT, disarmed(text))
}

function signaturesIn(part: FieldReader): Pick<ReasoningPart, 'signature' | 'encrypted'> {
  const text = part.text('thoughtSignature')
  return text === undefined || text === ''
    ? {}
    : unpackReasoningSignature(FORMAT, disarmed(text), 'signature')
}

function decodeCall(part: FieldReader, newId: () => string): ToolCallPart {
  const call = part.needFields('functionCall')
  return compact<ToolCallPart>({
    type: 'toolCall',
    id: call.text('id') || newId(),
    name: call.needText('name'),
    arguments: JSON.stringify(call.object('args') ?? {}),
    signature: signatureIn(part),
  })
}

const KINDS = ['image', 'audio', 'video'] as const

const kindOf = (mediaType: string | undefined): MediaPart['kind'] =>
  KINDS.find(kind => mediaType?.startsWith(`${kind}/`)) ?? 'file'

function decodeInline(part: FieldReader): MediaPart {
  const inline = part.needFields('inlineData')
  return medium(part, inline, { data: inline.needText('data') })
}

/** URIs in the vendor's own storage, which other vendors cannot open. All others are ordinary URLs. */
const STORED = /^(gs:\/\/|https:\/\/generativelanguage\.googleapis\.com\/|files\/)/

function decodeFile(part: FieldReader): MediaPart {
  const file = part.needFields('fileData')
  const uri = file.needText('fileUri')
  return medium(part, file, STORED.test(uri) ? { fileId: uri, format: FORMAT } : { url: uri })
}

const DETAILS: Readonly<Record<string, string>> = {
  MEDIA_RESOLUTION_LOW: 'low',
  MEDIA_RESOLUTION_MEDIUM: 'medium',
  MEDIA_RESOLUTION_HIGH: 'high',
}

function medium(part: FieldReader, holder: FieldReader, source: MediaSource): MediaPart {
  const mediaType = holder.text('mimeType')
  const level = member(member(part.value, 'mediaResolution'), 'level')
  const detail = typeof level === 'string' ? DETAILS[level] : undefined
  if (detail !== undefined) part.any('mediaResolution')
  return compact<MediaPart>({
    type: 'media',
    kind: kindOf(mediaType),
    source,
    mediaType,
    name: holder.text('displayName'),
    detail,
  })
}

// --- Writing ------------------------------------------------------------------------------------------------------

export type PartPlace = { readonly model: string; readonly path: string; readonly warnings: Warnings }

/** Encodes the parts of a message for the vendor. Content that it would reject is left out, with a warning. */
export function encodePart(part: Part, place: PartPlace): readonly JsonObject[] {
  const { path, warnings } = place
  if (part.type !== 'vendor') warnings.foreign(`${path}.`, part)
  switch (part.type) {
    case 'text':
      return encodeText(part, place)
    case 'refusal':
      return part.text === '' ? [] : [{ text: part.text }]
    case 'reasoning':
      return encodeThought(part, place)
    case 'toolCall':
      return [encodeCall(part, place)]
    case 'media':
      return encodeMedia(part, place)
    default:
      if (part.type === 'vendor' && part.format === FORMAT) return [part.value]
      warnings.lostPart(path, part)
      return []
  }
}

/** The vendor rejects an empty text unless it carries a signature. */
function encodeText(
  part: Extract<Part, { type: 'text' }>,
  { path, warnings }: PartPlace,
): readonly JsonObject[] {
  if (part.citations !== undefined)
    warnings.lost(`${path}.citations`, 'cannot be sent back and were left out')
  const thoughtSignature = nativeSignature(FORMAT, part.signature)
  if (part.signature !== undefined && thoughtSignature === undefined) {
    warnings.lost(path, 'the signature that another vendor gave to a text was left out')
  }
  if (part.text === '' && thoughtSignature === undefined) return []
  return [{ ...ownExtras(FORMAT, part), text: part.text, ...(thoughtSignature && { thoughtSignature }) }]
}

/** Reasoning may be sent without a signature; a foreign one would be rejected. */
function encodeThought(part: ReasoningPart, { path, warnings }: PartPlace): readonly JsonObject[] {
  const thoughtSignature = nativeSignature(FORMAT, part.signature)
  if (thoughtSignature === undefined && (part.signature ?? part.encrypted) !== undefined) {
    warnings.lost(path, 'the signature that another vendor gave to reasoning was left out')
  }
  if (part.text === '' && thoughtSignature === undefined) return []
  return [
    {
      ...ownExtras(FORMAT, part),
      text: part.text,
      thought: true,
      ...(thoughtSignature && { thoughtSignature }),
    },
  ]
}

function encodeCall(part: ToolCallPart, { path, warnings }: PartPlace): JsonObject {
  const thoughtSignature = nativeSignature(FORMAT, part.signature)
  if (part.signature !== undefined && thoughtSignature === undefined) {
    warnings.lost(path, 'the signature that another vendor gave to a tool call was left out')
  }
  const args = parseArguments(part.arguments, (field, message) => warnings.lost(`${path}.${field}`, message))
  return {
    ...ownExtras(FORMAT, part),
    functionCall: { name: part.name, args, id: part.id },
    ...(thoughtSignature && { thoughtSignature }),
  }
}

/** Newer models reject a turn whose first call is not signed. Of parallel calls only the first is signed. */
export function signFirstCall(parts: readonly JsonObject[], model: string): readonly JsonObject[] {
  const first = parts.findIndex(part => isObject(part.functionCall))
  if (first === -1 || !geminiGeneration(model).needsSignedCalls) return parts
  return parts.map((part, at) => (at === first ? { thoughtSignature: NO_SIGNATURE, ...part } : part))
}

const LEVELS: Readonly<Record<string, string>> = {
  low: 'MEDIA_RESOLUTION_LOW',
  medium: 'MEDIA_RESOLUTION_MEDIUM',
  high: 'MEDIA_RESOLUTION_HIGH',
}

/** A media type is required; if none is known, the most common of the kind is used. */
const LIKELY_TYPES = {
  image: 'image/jpeg',
  audio: 'audio/mpeg',
  video: 'video/mp4',
  file: 'application/pdf',
} as const satisfies Record<MediaPart['kind'], string>

export function encodeMedia(part: MediaPart, place: PartPlace): readonly JsonObject[] {
  const { path, warnings } = place
  const { name, context, isCited, source } = part
  if (name !== undefined) warnings.unsupported(`${path}.name`)
  if (context !== undefined) warnings.unsupported(`${path}.context`)
  if (isCited) warnings.lost(`${path}.citations`, 'cannot be asked for and were left out')
  const holder = holderOf(source, part.mediaType ?? typeInUrl(source) ?? LIKELY_TYPES[part.kind])
  if (holder === undefined) {
    warnings.lostContent(path, 'a file stored with another vendor cannot be sent')
    return []
  }
  return [{ ...ownExtras(FORMAT, part), ...holder, ...encodeDetail(part, place) }]
}

const TYPES_BY_ENDING: Readonly<Record<string, string>> = {
  png: 'image/png',
  webp: 'image/webp',
  gif: 'image/gif',
  heic: 'image/heic',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
}

/** The media type of an image URL by its extension. */
function typeInUrl(source: MediaSource): string | undefined {
  if (!('url' in source)) return undefined
  const ending = /\.(\w+)(?:[?#]|$)/.exec(source.url.toLowerCase())?.[1] ?? ''
  return Object.hasOwn(TYPES_BY_ENDING, ending) ? TYPES_BY_ENDING[ending] : undefined
}

function holderOf(source: MediaSource, mimeType: string): JsonObject | undefined {
  if ('data' in source) return { inlineData: { mimeType, data: source.data } }
  if ('url' in source) return { fileData: { mimeType, fileUri: source.url } }
  if ('text' in source) {
    return { inlineData: { mimeType: 'text/plain', data: Buffer.from(source.text).toString('base64') } }
  }
  return source.format === FORMAT ? { fileData: { mimeType, fileUri: source.fileId } } : undefined
}

function encodeDetail({ detail }: MediaPart, { model, path, warnings }: PartPlace): JsonObject {
  if (detail === undefined || detail === 'auto') return {}
  const level = LEVELS[detail]
  if (level !== undefined && geminiGeneration(model).takesMediaResolution)
    return { mediaResolution: { level } }
  warnings.unsupported(`${path}.detail`)
  return {}
}

// --- Answers ------------------------------------------------------------------------------------------------------

const signed = (signature: string | undefined): JsonObject =>
  signature === undefined ? {} : { thoughtSignature: armored(signature) }

/** Encodes the parts of an answer for a client. Foreign signatures are packed, so that the client sends them back. */
export function answerParts(part: Part): readonly JsonObject[] {
  const own = part.type === 'vendor' ? {} : ownExtras(FORMAT, part)
  switch (part.type) {
    case 'text':
      return [{ ...own, text: part.text, ...signed(part.signature && packSignature(FORMAT, part.signature)) }]
    case 'refusal':
      return [{ text: part.text }]
    case 'reasoning': {
      const signature = packReasoningSignature(FORMAT, part)
      return part.text === '' && signature === undefined
        ? []
        : [{ ...own, text: part.text, thought: true, ...signed(signature) }]
    }
    case 'toolCall':
      return [
        {
          ...own,
          functionCall: { name: part.name, args: argumentsOf(part), id: part.id },
          ...signed(part.signature && packSignature(FORMAT, part.signature)),
        },
      ]
    case 'media':
      return [answerMedium(part, own)]
    case 'vendor':
      return part.format === FORMAT ? [part.value] : []
    default:
      return []
  }
}

const argumentsOf = ({ arguments: text, isCustom }: ToolCallPart): JsonObject =>
  isCustom ? { [FREE_TEXT]: text } : parseArguments(text, () => {})

function answerMedium(part: MediaPart, own: JsonObject): JsonObject {
  const { source, mediaType, kind } = part
  if (!('data' in source) || source.data === '') return { ...own, text: mediaText(part) }
  return { ...own, inlineData: { mimeType: mediaType ?? LIKELY_TYPES[kind], data: source.data } }
}
