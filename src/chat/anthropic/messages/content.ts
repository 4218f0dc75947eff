import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { bodyOf, compact, extrasOf, type FieldReader, ownExtras } from '../../hub/fields.ts'
import type {
  CacheMark,
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
import { mediaText } from '../../hub/media.ts'
import { plainOrList } from '../../hub/plain-text.ts'
import {
  attachSignatures,
  nativeSignature,
  packCallSignature,
  packReasoningSignature,
  packSignature,
  textSignatureThought,
  unpackReasoningSignature,
  unpackSignature,
} from '../../hub/signature.ts'
import { FREE_TEXT, parseArguments } from '../../hub/tools/arguments.ts'
import { fitId, type IdRule } from '../../hub/tools/call-id.ts'
import type { Warnings } from '../../hub/warnings.ts'

export const FORMAT = 'anthropic'

/** `content`: a text, or a list of blocks. */
export function decodeBlocks(holder: FieldReader, name = 'content'): readonly Part[] {
  const content = holder.any(name)
  if (content === undefined || content === '') return []
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  if (!Array.isArray(content)) {
    return holder.isStrict ? holder.refuse(name, 'must be a string or a list of blocks') : []
  }
  return attachSignatures(holder.each(name).map(block => atClientPath(decodeBlock(block), block)))
}

const CLIENT_BLOCKS = new Set(['image', 'document', 'tool_result'])

export function decodeBlock(block: FieldReader): Part {
  const type = block.needText('type')
  // A malformed block in a request is rejected. In an answer it is kept as a block of the vendor.
  if (!block.isStrict && CLIENT_BLOCKS.has(type))
    return { type: 'vendor', format: FORMAT, value: block.value }
  switch (type) {
    case 'text': {
      const citations = (block.list('citations') ?? []).filter(isObject).map(decodeCitation)
      return extended(block, {
        type,
        text: block.needText('text'),
        ...(citations.length > 0 && { citations }),
        ...cacheIn(block),
      })
    }
    case 'image':
      return extended(block, {
        type: 'media',
        kind: 'image',
        ...decodeSource(block.needFields('source')),
        ...cacheIn(block),
      })
    case 'document':
      return decodeDocument(block)
    case 'thinking':
      return extended(block, decodeThinking(block.needText('thinking'), block.text('signature')))
    case 'redacted_thinking':
      return extended(block, {
        type: 'reasoning',
        text: '',
        encrypted: unpackSignature(FORMAT, block.needText('data')),
      })
    case 'tool_use':
      return extended(block, {
        type: 'toolCall',
        id: block.needText('id'),
        name: block.needText('name'),
        arguments: JSON.stringify(block.any('input') ?? {}),
        ...cacheIn(block),
      })
    case 'tool_result':
      return decodeResult(block)
    default:
      return { type: 'vendor', format: FORMAT, value: block.value }
  }
}

function extended(block: FieldReader, part: Part): Part {
  const extras = extrasOf(FORMAT, block.rest())
  return extras === undefined ? part : ({ ...part, extras } as Part)
}

export const decodeThinking = (text: string, signature: string | undefined): ReasoningPart => ({
  type: 'reasoning',
  text,
  ...(signature && unpackReasoningSignature(FORMAT, signature, 'signature')),
})

function decodeResult(block: FieldReader): ToolResultPart {
  const isError = block.flag('is_error')
  return compact<ToolResultPart>({
    type: 'toolResult',
    callId: block.needText('tool_use_id'),
    content: decodeBlocks(block),
    isError: isError === true ? true : undefined,
    ...cacheIn(block),
    extras: extrasOf(FORMAT, block.rest()),
  })
}

function decodeDocument(block: FieldReader): Part {
  const source = block.needFields('source')
  // A document of blocks is a form that only this format has.
  if (source.text('type') === 'content') return { type: 'vendor', format: FORMAT, value: block.value }
  const isCited = block.fields('citations')?.flag('enabled')
  return compact<MediaPart>({
    type: 'media',
    kind: 'file',
    ...decodeSource(source),
    name: block.text('title'),
    context: block.text('context'),
    isCited: isCited === true ? true : undefined,
    ...cacheIn(block),
    extras: extrasOf(FORMAT, block.rest()),
  })
}

function decodeSource(source: FieldReader): { source: MediaSource; mediaType?: string } {
  const mediaType = source.text('media_type')
  const typed = mediaType === undefined ? {} : { mediaType }
  switch (source.needText('type')) {
    case 'base64':
      return { source: { data: source.needText('data') }, ...typed }
    case 'text':
      return { source: { text: source.needText('data') }, ...typed }
    case 'url':
      return { source: { url: source.needText('url') } }
    case 'file':
      return { source: { fileId: source.needText('file_id'), format: FORMAT } }
    default:
      return source.refuse('type', 'must be one of base64, text, url, file')
  }
}

/** A citation of the client's own search result names its source, usually a URL. */
const SEARCH_RESULT = 'search_result_location'

export function decodeCitation(value: JsonObject): Citation {
  const { cited_text, url, title, document_title, ...rest } = value as Record<string, unknown>
  const text = (value: unknown) => (typeof value === 'string' ? value : undefined)
  const id = text(rest.file_id)
  return compact<Citation>({
    url: text(url) ?? (rest.type === SEARCH_RESULT ? text(rest.source) : undefined),
    file: id === undefined ? undefined : { id },
    title: text(title) ?? text(document_title),
    quote: text(cited_text),
    extras: extrasOf(FORMAT, rest),
  })
}

/** A citation from another format gets the form with the fewest required fields. */
export function encodeCitation(citation: Citation): JsonObject {
  const { url, file, title = null, quote = '' } = citation
  const own = ownExtras(FORMAT, citation)
  if (own.type === SEARCH_RESULT) return { ...own, cited_text: quote, title }
  if (url !== undefined) {
    const type = { type: 'web_search_result_location', encrypted_index: '' }
    return { ...type, ...own, cited_text: quote, url, title }
  }
  if (own.type !== undefined) return { ...own, cited_text: quote, document_title: title }
  const place = { document_index: 0, start_char_index: 0, end_char_index: 0, file_id: file?.id ?? null }
  return { type: 'char_location', ...place, cited_text: quote, document_title: title }
}

function cacheIn(block: FieldReader): { cache?: CacheMark } {
  const mark = block.any('cache_control')
  if (mark === undefined) return {}
  const ttl = member(mark, 'ttl')
  return { cache: typeof ttl === 'string' ? { ttl } : {} }
}

export const decodeCache = cacheIn

export const cacheControl = (cache: CacheMark | undefined): JsonObject =>
  cache === undefined ? {} : { cache_control: { type: 'ephemeral', ...cache } }

// --- Writing ------------------------------------------------------------------------------------------------------

/** Encodes the blocks of a message for the vendor. Content that it would reject is left out, with a warning. */
export const encodeBlocks = (
  parts: readonly Part[],
  path: string,
  warnings: Warnings,
): readonly JsonObject[] =>
  parts.flatMap((part, index) => encodeBlock(part, `${path}.content[${index}]`, warnings))

function encodeBlock(part: Part, path: string, warnings: Warnings): readonly JsonObject[] {
  if (part.type !== 'vendor') warnings.foreign(`${path}.`, part)
  switch (part.type) {
    case 'text':
      return encodeText(part, path, warnings)
    case 'refusal':
      return part.text === '' ? [] : [{ type: 'text', text: part.text }]
    case 'reasoning':
      return encodeThought(part, path, warnings)
    case 'toolCall':
      if (part.signature !== undefined && part.signature.format !== FORMAT) {
        warnings.lost(path, 'the signature that another vendor gave to a tool call was left out')
      }
      return [encodeCall(part, (field, message) => warnings.lost(`${path}.${field}`, message))]
    case 'toolResult': {
      const blocks = encodeBlocks(part.content, path, warnings)
      return [
        bodyOf({
          ...ownExtras(FORMAT, part),
          type: 'tool_result',
          tool_use_id: fitId(part.callId, ID_RULE),
          content: blocks.length === 0 ? blocks : plainOrList(blocks),
          is_error: part.isError,
          ...cacheControl(part.cache),
        }),
      ]
    }
    case 'media':
      return encodeMedia(part, path, warnings)
    default:
      if (part.format === FORMAT) return [part.value]
      warnings.lostPart(path, part)
      return []
  }
}

/** The vendor rejects empty texts, so they are left out. It accepts its own citations only. */
function encodeText(part: TextPart, path: string, warnings: Warnings): readonly JsonObject[] {
  if (part.text === '') return []
  const ownCitations = part.citations?.filter(citation => citation.extras?.[FORMAT] !== undefined) ?? []
  if (ownCitations.length < (part.citations?.length ?? 0)) {
    warnings.lost(`${path}.citations`, 'citations from elsewhere were left out')
  }
  if (part.signature !== undefined) warnings.lost(path, 'the signature of a text was left out')
  const citations = ownCitations.length === 0 ? {} : { citations: ownCitations.map(encodeCitation) }
  return [
    { ...ownExtras(FORMAT, part), type: 'text', text: part.text, ...citations, ...cacheControl(part.cache) },
  ]
}

/** The vendor accepts reasoning with its own signature only. */
function encodeThought(part: ReasoningPart, path: string, warnings: Warnings): readonly JsonObject[] {
  const signature = nativeSignature(FORMAT, part.signature)
  const data = nativeSignature(FORMAT, part.encrypted)
  if (signature !== undefined) {
    return [{ ...ownExtras(FORMAT, part), type: 'thinking', thinking: part.text, signature }]
  }
  if (data !== undefined) return [{ ...ownExtras(FORMAT, part), type: 'redacted_thinking', data }]
  if (part.text === '' && part.signature === undefined && part.encrypted === undefined) return []
  warnings.lost(path, 'reasoning that this vendor did not sign was left out')
  return []
}

const ID_RULE: IdRule = { maxLength: 64, pattern: /^[a-zA-Z0-9_-]+$/ }

export function encodeCall(part: ToolCallPart, lost: (field: string, message: string) => void): JsonObject {
  const { id, name, arguments: text, isCustom, cache } = part
  return {
    ...ownExtras(FORMAT, part),
    type: 'tool_use',
    id: fitId(id, ID_RULE),
    name,
    input: isCustom ? { [FREE_TEXT]: text } : parseArguments(text, lost),
    ...cacheControl(cache),
  }
}

function encodeMedia(part: MediaPart, path: string, warnings: Warnings): readonly JsonObject[] {
  const { kind, detail, mediaType = '', name, source } = part
  if (detail !== undefined && detail !== 'auto') {
    warnings.unsupported(`${path}.detail`)
  }
  const own = { ...ownExtras(FORMAT, part), ...cacheControl(part.cache) }
  if (kind === 'image') {
    if (name !== undefined) warnings.unsupported(`${path}.name`)
    const encoded = encodeSource(source, mediaType || 'image/png')
    if (encoded !== undefined) return [{ ...own, type: 'image', source: encoded }]
  }
  if (kind === 'file') {
    const encoded = encodeDocumentSource(source, mediaType)
    if (encoded !== undefined) {
      const citations = part.isCited ? { enabled: true } : undefined
      return [
        bodyOf({ ...own, type: 'document', source: encoded, title: name, context: part.context, citations }),
      ]
    }
  }
  warnings.lostContent(path, `media of the type ${kind}${mediaType && ` (${mediaType})`} cannot be sent`)
  return []
}

function encodeSource(source: MediaSource, mediaType: string): JsonObject | undefined {
  if ('data' in source) return { type: 'base64', media_type: mediaType, data: source.data }
  if ('url' in source) return { type: 'url', url: source.url }
  if ('text' in source) return { type: 'text', media_type: 'text/plain', data: source.text }
  return source.format === FORMAT ? { type: 'file', file_id: source.fileId } : undefined
}

/** PDF and plain text; the vendor accepts no other documents. */
function encodeDocumentSource(source: MediaSource, mediaType: string): JsonObject | undefined {
  if ('data' in source && mediaType.startsWith('text/')) {
    return encodeSource({ text: Buffer.from(source.data, 'base64').toString() }, mediaType)
  }
  if ('data' in source && mediaType !== '' && mediaType !== 'application/pdf') return undefined
  return encodeSource(source, 'application/pdf')
}

// --- Answers ------------------------------------------------------------------------------------------------------

/** Encodes the blocks of an answer for a client. Foreign signatures are packed, so that the client sends them back. */
export function answerBlocks(part: Part): readonly JsonObject[] {
  switch (part.type) {
    case 'text':
      // The vendor omits `citations` if there are none, and some clients do not accept null.
      return [
        {
          ...ownExtras(FORMAT, part),
          type: 'text',
          text: part.text,
          ...(part.citations && { citations: part.citations.map(encodeCitation) }),
        },
        ...(part.signature ? answerThought(textSignatureThought(part.signature)) : []),
      ]
    case 'refusal':
      return [{ type: 'text', text: part.text }]
    case 'reasoning':
      return answerThought(part)
    case 'toolCall':
      return [...callSignature(part), encodeCall(part, () => {})]
    case 'media':
      return [{ type: 'text', text: mediaText(part) }]
    case 'vendor':
      return part.format === FORMAT ? [part.value] : []
    default:
      return []
  }
}

function answerThought(part: ReasoningPart): readonly JsonObject[] {
  const { text, signature, encrypted } = part
  const own = ownExtras(FORMAT, part)
  if (text === '' && signature === undefined && encrypted !== undefined) {
    return [{ ...own, type: 'redacted_thinking', data: packSignature(FORMAT, encrypted) }]
  }
  if (text === '' && signature === undefined) return []
  return [{ ...own, type: 'thinking', thinking: text, signature: packReasoningSignature(FORMAT, part) ?? '' }]
}

function callSignature(part: ToolCallPart): readonly JsonObject[] {
  const signature = packCallSignature(FORMAT, part)
  return signature === undefined ? [] : [{ type: 'thinking', thinking: '', signature }]
}
