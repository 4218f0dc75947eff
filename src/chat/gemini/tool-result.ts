import { isObject, type JsonObject } from '../../domain/json-value.ts'
import { geminiGeneration } from '../../models/generation.ts'
import { parseBounded } from '../../wire/json-bounds.ts'
import { compact, extrasOf, type FieldReader, ownExtras } from '../hub/fields.ts'
import type { MediaPart, Part, ToolResultPart } from '../hub/hub.ts'
import { decodePart, encodeMedia, FORMAT, type PartPlace } from './content.ts'

/** A tool result is text in the hub and an object here. An object with one of these names only stands for its text. */
const TEXT_MEMBERS = ['output', 'result'] as const
const FAILED = 'error'

/** The calls without a result yet, oldest first. A result without an id belongs to the first call with its name. */
export type OpenCalls = { readonly id: string; readonly name: string }[]

export function decodeResult(part: FieldReader, open: OpenCalls, newId: () => string): ToolResultPart {
  const result = part.needFields('functionResponse')
  const name = result.needText('name')
  const id = result.text('id')
  const at = open.findIndex(call => (id ? call.id === id : call.name === name))
  const [call] = at === -1 ? [] : open.splice(at, 1)
  const response = result.object('response') ?? {}
  const media = result.each('parts').map(each => decodePart(each, newId))
  return compact<ToolResultPart>({
    type: 'toolResult',
    callId: id || call?.id || newId(),
    name: call?.name === name ? undefined : name,
    content: [...textsIn(response), ...media],
    isError: isTextOnly(response, [FAILED]) ? true : undefined,
    extras: extrasOf(FORMAT, result.rest()),
  })
}

/** Whether an object contains nothing but texts under one of these names. */
function isTextOnly(response: JsonObject, names: readonly string[]): boolean {
  const [name, ...others] = Object.keys(response)
  if (name === undefined || others.length > 0 || !names.includes(name)) return false
  const value = response[name]
  return typeof value === 'string' || (Array.isArray(value) && value.every(each => typeof each === 'string'))
}

function textsIn(response: JsonObject): readonly Part[] {
  if (Object.keys(response).length === 0) return []
  const plainText = isTextOnly(response, [...TEXT_MEMBERS, FAILED])
    ? Object.values(response).flat()
    : [JSON.stringify(response)]
  return plainText.map(text => ({ type: 'text', text: String(text) }))
}

/** Media go inside the result if the model accepts that, otherwise after it. */
export function encodeResult(part: ToolResultPart, name: string, place: PartPlace): readonly JsonObject[] {
  const { path, warnings, model } = place
  warnings.foreign(`${path}.`, part)
  const texts: string[] = []
  const media: JsonObject[] = []
  for (const [index, inner] of part.content.entries()) {
    const at = { ...place, path: `${path}.content[${index}]` }
    if (inner.type === 'text' || inner.type === 'refusal') texts.push(inner.text)
    else if (inner.type === 'media') media.push(...encodeMedia(inner as MediaPart, at))
    else warnings.lostPart(at.path, inner)
  }
  const isInside = geminiGeneration(model).takesMediaInResults
  if (media.length > 0 && !isInside) {
    warnings.lost(path, 'media of a tool result are sent after it')
  }
  const functionResponse = {
    ...ownExtras(FORMAT, part),
    name,
    response: responseOf(texts, part.isError === true),
    id: part.callId,
    ...(isInside && media.length > 0 && { parts: media }),
  }
  return [{ functionResponse }, ...(isInside ? [] : media)]
}

function responseOf(texts: readonly string[], isError: boolean): JsonObject {
  const [only] = texts
  if (isError) return { [FAILED]: texts.length === 1 ? only : texts }
  if (only === undefined) return {}
  if (texts.length > 1) return { [TEXT_MEMBERS[0]]: texts }
  return objectIn(only) ?? { [TEXT_MEMBERS[0]]: only }
}

/** An object is sent as it is, if it serializes to the same text again. */
function objectIn(text: string): JsonObject | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    const value: unknown = parseBounded(text)
    const isSame = isObject(value) && JSON.stringify(value) === text
    return isSame && Object.keys(value).length > 0 && !isTextOnly(value, [...TEXT_MEMBERS, FAILED])
      ? value
      : undefined
  } catch {
    // Text that only starts like an object stays text.
    return undefined
  }
}
