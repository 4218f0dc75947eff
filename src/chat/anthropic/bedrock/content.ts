import { isObject, type JsonObject, member } from '../../../domain/json-value.ts'
import { bodyOf, compact, extrasOf, lenientFields, ownExtras } from '../../hub/fields.ts'
import type {
  CacheMark,
  Citation,
  MediaPart,
  MediaSource,
  Part,
  ReasoningPart,
  TextPart,
} from '../../hub/hub.ts'
import { nativeSignature } from '../../hub/signature.ts'
import { parseArguments } from '../../hub/tools/arguments.ts'
import { fitId, type IdRule } from '../../hub/tools/call-id.ts'
import type { Warnings } from '../../hub/warnings.ts'

export const FORMAT = 'bedrock'

// --- Reading ------------------------------------------------------------------------------------------------------

/** A block is an object with one member, whose name is its type. */
export function decodeBlock(block: JsonObject, newId: (prefix: string) => string): readonly Part[] {
  const { text, toolUse, reasoningContent, citationsContent } = block
  if (typeof text === 'string') return text === '' ? [] : [{ type: 'text', text }]
  if (isObject(toolUse)) {
    const fields = lenientFields(toolUse)
    return [
      {
        type: 'toolCall',
        id: fields.text('toolUseId') || newId('call_'),
        name: fields.needText('name'),
        arguments: JSON.stringify(fields.object('input') ?? {}),
      },
    ]
  }
  if (isObject(reasoningContent)) return decodeThought(reasoningContent)
  if (isObject(citationsContent)) return [decodeCited(citationsContent)]
  return Object.keys(block).length === 0 ? [] : [{ type: 'vendor', format: FORMAT, value: block }]
}

export const signed = (value: string) => ({ format: FORMAT, value })

function decodeThought({ reasoningText, redactedContent }: JsonObject): readonly ReasoningPart[] {
  if (typeof redactedContent === 'string') {
    return [{ type: 'reasoning', text: '', encrypted: signed(redactedContent) }]
  }
  const [text, signature] = [member(reasoningText, 'text'), member(reasoningText, 'signature')]
  if (typeof text !== 'string') return []
  return [{ type: 'reasoning', text, ...(typeof signature === 'string' && { signature: signed(signature) }) }]
}

function decodeCited({ content, citations }: JsonObject): TextPart {
  const cited = Array.isArray(citations) ? citations.filter(isObject).map(decodeCitation) : []
  return { type: 'text', text: textsIn(content), ...(cited.length > 0 && { citations: cited }) }
}

export function decodeCitation(citation: JsonObject): Citation {
  const { title, sourceContent, ...rest } = citation as Record<string, unknown>
  const url = member(member(citation.location, 'web'), 'url')
  return compact<Citation>({
    url: typeof url === 'string' ? url : undefined,
    title: typeof title === 'string' ? title : undefined,
    quote: textsIn(sourceContent) || undefined,
    extras: extrasOf(FORMAT, Object.keys(rest).length === 0 ? undefined : rest),
  })
}

const textsIn = (list: unknown): string =>
  Array.isArray(list)
    ? list
        .map(each => member(each, 'text'))
        .filter(text => typeof text === 'string')
        .join('')
    : ''

// --- Writing ------------------------------------------------------------------------------------------------------

/** Document names must be unique within a request, so the used ones are tracked. */
export type Writing = { readonly warnings: Warnings; readonly documents: Set<string> }

export const encodeBlocks = (parts: readonly Part[], path: string, writing: Writing): readonly JsonObject[] =>
  parts.flatMap((part, index) => {
    const at = `${path}.content[${index}]`
    if (part.type !== 'vendor') writing.warnings.foreign(`${at}.`, part)
    const blocks = encodeBlock(part, at, writing)
    return 'cache' in part && blocks.length > 0 ? [...blocks, cachePoint(part.cache)] : blocks
  })

/** A cache mark is a separate block after the marked one. */
export const cachePoint = (mark: CacheMark | undefined): JsonObject => ({
  cachePoint: bodyOf({ type: 'default', ttl: mark?.ttl }),
})

const ID_RULE: IdRule = { maxLength: 64, pattern: /^[a-zA-Z0-9_-]+$/ }

function encodeBlock(part: Part, path: string, writing: Writing): readonly JsonObject[] {
  const { warnings } = writing
  switch (part.type) {
    case 'text':
      if (part.citations !== undefined) warnings.lost(`${path}.citations`, 'cannot be sent back')
      if (part.signature !== undefined) warnings.lost(path, 'the signature of a text was left out')
      return textBlocks(part.text)
    case 'refusal':
      return textBlocks(part.text)
    case 'reasoning':
      return encodeThought(part, path, warnings)
    case 'toolCall': {
      if (part.signature !== undefined) warnings.lost(path, 'the signature of a call was left out')
      const lost = (field: string, message: string) => warnings.lost(`${path}.${field}`, message)
      const toolUseId = fitId(part.id, ID_RULE)
      return [{ toolUse: { toolUseId, name: part.name, input: parseArguments(part.arguments, lost) } }]
    }
    case 'toolResult': {
      const content = encodeBlocks(part.content, path, writing)
      const toolResult = {
        toolUseId: fitId(part.callId, ID_RULE),
        content: content.length === 0 ? [{ text: '(empty)' }] : content,
        ...(part.isError && { status: 'error' }),
      }
      return [{ toolResult }]
    }
    case 'media':
      return encodeMedia(part, path, writing)
    default:
      if (part.format === FORMAT) return [part.value]
      warnings.lostPart(path, part)
      return []
  }
}

/** The vendor rejects whitespace only, so such texts are left out. */
const textBlocks = (text: string): readonly JsonObject[] => (text.trim() === '' ? [] : [{ text }])

/** The vendor accepts reasoning with its own signature only. */
function encodeThought(part: ReasoningPart, path: string, warnings: Warnings): readonly JsonObject[] {
  const signature = nativeSignature(FORMAT, part.signature)
  const redactedContent = nativeSignature(FORMAT, part.encrypted)
  if (signature !== undefined) {
    return [{ reasoningContent: { reasoningText: { text: part.text, signature } } }]
  }
  if (redactedContent !== undefined) return [{ reasoningContent: { redactedContent } }]
  if (part.text === '' && part.signature === undefined && part.encrypted === undefined) return []
  warnings.lost(path, 'reasoning that this vendor did not sign was left out')
  return []
}

/** Formats by media type; for others, the last part of the type is the format. */
const FORMATS: Readonly<Record<string, string>> = {
  'application/msword': 'doc',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'text/plain': 'txt',
  'text/markdown': 'md',
  'audio/mpeg': 'mp3',
  'video/quicktime': 'mov',
  'video/x-matroska': 'mkv',
}

const SUPPORTED_FORMATS = {
  image: ['jpeg', 'png', 'gif', 'webp'],
  file: ['pdf', 'csv', 'doc', 'docx', 'xls', 'xlsx', 'html', 'txt', 'md'],
  video: ['mkv', 'mov', 'mp4', 'webm', 'flv', 'mpeg', 'mpg', 'wmv', '3gp'],
  audio: ['mp3', 'opus', 'wav', 'aac', 'flac', 'mp4', 'ogg', 'webm'],
} as const satisfies Record<MediaPart['kind'], readonly string[]>

const DEFAULT_FORMATS = { image: 'png', file: 'pdf', video: 'mp4', audio: 'wav' } as const

function encodeMedia(part: MediaPart, path: string, { warnings, documents }: Writing): readonly JsonObject[] {
  const { kind, detail, mediaType, source } = part
  if (detail !== undefined && detail !== 'auto') {
    warnings.unsupported(`${path}.detail`)
  }
  const encoded = encodeSource(source)
  const format = 'text' in source ? 'txt' : formatOf(kind, mediaType)
  if (encoded === undefined || format === undefined) {
    const why = 'url' in source ? ' by its address' : ''
    warnings.lostContent(
      path,
      `media of the type ${kind} ${mediaType ? `(${mediaType}) ` : ''}cannot be sent${why}`,
    )
    return []
  }
  const own = ownExtras(FORMAT, part)
  if (kind !== 'file') return [{ [kind]: { ...own, format, source: encoded } }]
  const document = bodyOf({
    ...own,
    format,
    name: uniqueName(part.name, documents),
    source: encoded,
    context: part.context,
    citations: part.isCited ? { enabled: true } : undefined,
  })
  return [{ document }]
}

function formatOf(kind: MediaPart['kind'], mediaType: string | undefined): string | undefined {
  if (mediaType === undefined) return DEFAULT_FORMATS[kind]
  const format = FORMATS[mediaType] ?? mediaType.split('/').at(-1) ?? ''
  return (SUPPORTED_FORMATS[kind] as readonly string[]).includes(format) ? format : undefined
}

/** Bytes, text, or an object in the vendor's own storage; the vendor fetches no URLs. */
function encodeSource(source: MediaSource): JsonObject | undefined {
  if ('data' in source) return { bytes: source.data }
  if ('text' in source) return { text: source.text }
  return 'url' in source && source.url.startsWith('s3://') ? { s3Location: { uri: source.url } } : undefined
}

/** The vendor accepts only letters, digits, single spaces, hyphens and brackets, and requires unique names. */
function uniqueName(requestedName: string | undefined, usedNames: Set<string>): string {
  const clean = (requestedName ?? '')
    .replace(/[^a-zA-Z0-9\s\-()[\]]/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, 180)
  const base = clean === '' ? 'Document' : clean
  let name = base
  for (let count = 2; usedNames.has(name); count++) name = `${base} ${count}`
  usedNames.add(name)
  return name
}
