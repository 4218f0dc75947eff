import { cycleIn, TIMEOUTS } from '../domain/channel.ts'
import { invalidField } from '../domain/errors.ts'
import { codePoints, hasControl } from '../domain/text.ts'
import { readObject } from './json-object.ts'

/** What may stand inside the objects that a channel carries: mappings, overrides, its setting. */

const MAX_HEADERS = 100
const MAX_MODEL_LENGTH = 255

type Json = Readonly<Record<string, unknown>>

export type ObjectField =
  | 'model_mapping'
  | 'param_override'
  | 'header_override'
  | 'status_code_mapping'
  | 'setting'

/** An object of a channel, as it is given or as JSON text, with everything inside it judged. */
export function readChannelObject(
  name: ObjectField,
  given: string | Json,
  options: { readonly path: string; readonly bytes: number },
): Json {
  const object = readObject(given, options)
  return READS[name]?.(object, options.path) ?? object
}

/** What may stand inside each object; `param_override` takes anything. */
const READS: Partial<Record<ObjectField, (object: Json, path: string) => Json | undefined>> = {
  model_mapping: readMapping,
  header_override: checkHeaders,
  status_code_mapping: checkStatusCodes,
  setting: checkSetting,
}

function readMapping(given: Json, path: string): Json {
  const mapping: Record<string, string> = {}
  for (const [from, to] of Object.entries(given)) {
    if (!isModelName(from) || !isModelName(to))
      throw invalidField(
        `${path}.${from.slice(0, 100)}`,
        `must map a name to a name, each 1 to ${MAX_MODEL_LENGTH} characters`,
      )
    mapping[from.trim()] = to.trim()
  }
  const cycle = cycleIn(mapping)
  if (cycle !== undefined) throw invalidField(path, `leads from "${cycle}" back to "${cycle}"`)
  return mapping
}

const isModelName = (name: unknown): name is string =>
  typeof name === 'string' && name.trim() !== '' && codePoints(name) <= MAX_MODEL_LENGTH && !hasControl(name)

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/
export const HEADER_VALUE = /^[\t\x20-\x7e]{0,8192}$/
/** The connection's own headers: another value would break the framing of the request. */
const FRAMING = new Set([
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

function checkHeaders(headers: Json, path: string): undefined {
  const entries = Object.entries(headers)
  if (entries.length > MAX_HEADERS) throw invalidField(path, `must hold at most ${MAX_HEADERS} headers`)
  for (const [name, value] of entries) {
    const at = `${path}.${name.slice(0, 100)}`
    if (!HEADER_NAME.test(name) && !isHeaderPattern(name)) throw invalidField(at, 'is no name of a header')
    if (FRAMING.has(name.toLowerCase())) throw invalidField(at, 'belongs to the connection and cannot be set')
    if (typeof value !== 'string' || !HEADER_VALUE.test(value))
      throw invalidField(at, 'must be a text of plain ASCII without line breaks, at most 8192 characters')
  }
}

/** `re:` and an expression stands for the client's headers of matching names, as existing clients write it. */
function isHeaderPattern(name: string): boolean {
  if (!name.startsWith('re:') || name.length > 200 || hasControl(name)) return false
  try {
    new RegExp(name.slice(3))
    return true
  } catch {
    // Not an expression.
    return false
  }
}

function checkStatusCodes(mapping: Json, path: string): undefined {
  const isStatus = (value: unknown) => /^[1-5]\d\d$/.test(String(value))
  for (const [from, to] of Object.entries(mapping)) {
    const isWritten = typeof to === 'string' || typeof to === 'number'
    if (!isStatus(from) || !isWritten || !isStatus(to))
      throw invalidField(`${path}.${from.slice(0, 100)}`, 'must map a status to a status, each 100 to 599')
  }
}

function checkSetting(setting: Json, path: string): undefined {
  const { timeouts } = setting
  if (timeouts === undefined || timeouts === null) return
  if (typeof timeouts !== 'object' || Array.isArray(timeouts))
    throw invalidField(`${path}.timeouts`, 'must be an object')
  for (const [name, [least, greatest]] of Object.entries(TIMEOUTS)) {
    const value = (timeouts as Json)[name]
    if (value === undefined || value === null) continue
    if (!Number.isInteger(value) || (value as number) < least || (value as number) > greatest)
      throw invalidField(
        `${path}.timeouts.${name}`,
        `must be a whole number of milliseconds from ${least} to ${greatest}`,
      )
  }
}
