import { cycleIn, TIMEOUTS } from '../../domain/channel.ts'
import { invalidField } from '../../domain/errors.ts'
import {
  CLIENT_HEADER,
  HEADER_NAME,
  HEADER_VALUE,
  isFraming,
  MAX_PLACEHOLDERS,
  mayPass,
} from '../../domain/header.ts'
import { stillMasked, unmaskSecrets } from '../../domain/secret-name.ts'
import { codePoints, hasControl } from '../../domain/text.ts'
import { isHeaderPattern, readHeaderPattern } from '../../override/expression.ts'
import { readOverride } from '../../override/override.ts'
import { readObject } from '../server/json-object.ts'

/** What may stand inside the objects that a channel carries: mappings, overrides, its setting. */

const MAX_HEADERS = 100
const MAX_MODEL_LENGTH = 255
const MAX_PATTERN_LENGTH = 200

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
  options: { readonly path: string; readonly bytes: number; readonly stored?: Json | undefined },
): Json {
  const { stored, path } = options
  const read = readObject(given, options)
  const object = stored === undefined ? read : unmaskSecrets(read, stored)
  const masked = stored === undefined ? undefined : stillMasked(object, path)
  if (masked !== undefined) throw invalidField(masked, 'is masked; send the whole value')
  return READS[name]?.(object, options.path) ?? object
}

/** What may stand inside each object. */
const READS: Partial<Record<ObjectField, (object: Json, path: string) => Json | undefined>> = {
  model_mapping: readMapping,
  param_override: checkOverride,
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

function checkOverride(given: Json, path: string): undefined {
  const read = readOverride(given)
  if ('fault' in read) throw invalidField(`${path}${read.fault.path}`, read.fault.message)
}

const isModelName = (name: unknown): name is string =>
  typeof name === 'string' && name.trim() !== '' && codePoints(name) <= MAX_MODEL_LENGTH && !hasControl(name)

function checkHeaders(headers: Json, path: string): undefined {
  const entries = Object.entries(headers)
  if (entries.length > MAX_HEADERS) throw invalidField(path, `must hold at most ${MAX_HEADERS} headers`)
  const seen = new Set<string>()
  for (const [name, value] of entries) {
    const at = `${path}.${name.slice(0, 100)}`
    const lower = name.toLowerCase()
    const nameFault = headerNameFault(name)
    if (nameFault !== undefined) throw invalidField(at, nameFault)
    if (isFraming(name)) throw invalidField(at, 'belongs to the connection and cannot be set')
    if (seen.has(lower)) throw invalidField(at, 'is the same header as another one')
    seen.add(lower)
    if (typeof value !== 'string' || !HEADER_VALUE.test(value))
      throw invalidField(at, 'must be a text of plain ASCII without line breaks, at most 8192 characters')
    const fault = placeholderFault(value)
    if (fault !== undefined) throw invalidField(at, fault)
  }
}

function placeholderFault(value: string): string | undefined {
  const names = [...value.matchAll(CLIENT_HEADER)].map(([, name = '']) => name)
  if (names.length > MAX_PLACEHOLDERS) return `must hold at most ${MAX_PLACEHOLDERS} placeholders`
  const bad = names.find(name => !HEADER_NAME.test(name))
  if (bad !== undefined) return `"${bad.slice(0, 100)}" is no name of a header`
  const kept = names.find(name => !mayPass(name))
  return kept === undefined
    ? undefined
    : `${kept} of a client is never passed on: it is a credential or belongs to the connection`
}

/** Why a name stands for no header: neither the name of one nor `re:` and a regular expression. */
function headerNameFault(name: string): string | undefined {
  if (HEADER_NAME.test(name)) return undefined
  if (!isHeaderPattern(name) || name.length > MAX_PATTERN_LENGTH || hasControl(name))
    return 'is not a valid header name'
  const reading = readHeaderPattern(name)
  return 'fault' in reading ? reading.fault : undefined
}

/** Only what failed can be told otherwise, and only as another failure: an error is no answer. */
function checkStatusCodes(mapping: Json, path: string): undefined {
  for (const [from, to] of Object.entries(mapping)) {
    const isWritten = typeof to === 'string' || typeof to === 'number'
    if (!/^[345]\d\d$/.test(from) || !isWritten || !/^[45]\d\d$/.test(String(to)))
      throw invalidField(
        `${path}.${from.slice(0, 100)}`,
        'must map a status from 300 to 599 to a status from 400 to 599',
      )
  }
}

function checkSetting(setting: Json, path: string): undefined {
  const { timeouts, allow_routing_fields } = setting
  if (!['boolean', 'undefined'].includes(typeof (allow_routing_fields ?? undefined)))
    throw invalidField(`${path}.allow_routing_fields`, 'must be true or false')
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
