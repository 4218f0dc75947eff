import { isObject, type JsonObject, member } from '../../domain/json-value.ts'
import { compact, extrasOf, type FieldReader } from '../hub/fields.ts'
import type { Citation, Part, TextPart, ToolCallPart } from '../hub/hub.ts'

export const FORMAT = 'cohere'

/** Decodes a call; without arguments, the vendor sends the text `null`. */
export function decodeCall(call: unknown, newId: (prefix: string) => string): ToolCallPart {
  const functionFields = member(call, 'function')
  const [id, name, json] = [
    member(call, 'id'),
    member(functionFields, 'name'),
    member(functionFields, 'arguments'),
  ]
  return {
    type: 'toolCall',
    id: typeof id === 'string' && id !== '' ? id : newId('call_'),
    name: typeof name === 'string' ? name : '',
    arguments: argumentsText(json),
  }
}

export function argumentsText(json: unknown): string {
  if (isObject(json)) return JSON.stringify(json)
  return typeof json === 'string' && json.trim() !== 'null' ? json : ''
}

/** The blocks of a message; a tool plan becomes reasoning. */
export function decodeContent(message: FieldReader): readonly Part[] {
  const content = message.any('content')
  if (typeof content === 'string') return content === '' ? [] : [{ type: 'text', text: content }]
  return message.each('content').flatMap(decodeBlock)
}

function decodeBlock(block: FieldReader): readonly Part[] {
  const text = block.text('text')
  const thinking = block.text('thinking')
  if (thinking !== undefined) return thinking === '' ? [] : [{ type: 'reasoning', text: thinking }]
  if (text !== undefined) return text === '' ? [] : [{ type: 'text', text }]
  return Object.keys(block.value).length === 0 ? [] : [{ type: 'vendor', format: FORMAT, value: block.value }]
}

/** Each source has its own description; the first one names the citation. */
export function decodeCitation(value: JsonObject): Citation {
  const { start, end, content_index: _, ...rest } = value as Record<string, unknown>
  const sources = Array.isArray(value.sources) ? value.sources : []
  const document = member(sources[0], 'document')
  const [url, title] = [member(document, 'url'), member(document, 'title')]
  return compact<Citation>({
    url: typeof url === 'string' ? url : undefined,
    title: typeof title === 'string' ? title : undefined,
    start: typeof start === 'number' ? start : undefined,
    end: typeof end === 'number' ? end : undefined,
    extras: extrasOf(FORMAT, Object.keys(rest).length === 0 ? undefined : rest),
  })
}

/** Citations of a tool plan belong to no part of the answer. */
export const isOfText = (citation: JsonObject): boolean => citation.type !== 'PLAN'

/** Adds the citations to the texts that they belong to; without an index, to the first text. */
export function withCitations(parts: readonly Part[], citations: readonly JsonObject[]): readonly Part[] {
  if (citations.length === 0) return parts
  const first = parts.findIndex(part => part.type === 'text')
  return parts.map((part, index) => {
    if (part.type !== 'text') return part
    const own = citations.filter(({ content_index: at }) =>
      typeof at === 'number' && parts[at]?.type === 'text' ? at === index : index === first,
    )
    return own.length === 0 ? part : ({ ...part, citations: own.map(decodeCitation) } satisfies TextPart)
  })
}
