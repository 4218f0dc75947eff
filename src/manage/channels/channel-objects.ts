import { loopIn, TIMEOUTS } from '../../domain/channel.ts'
import { DIRECT } from '../../domain/channel-network.ts'
import { invalidField } from '../../domain/errors.ts'
import {
  CLIENT_HEADER,
  HEADER_NAME,
  HEADER_VALUE,
  isFraming,
  MAX_PLACEHOLDERS,
  mayForward,
} from '../../domain/header.ts'
import { firstMaskedPath, unmaskSecrets } from '../../domain/secret-name.ts'
import { codePoints, hasControl } from '../../domain/text.ts'
import { NETWORK_MEMBERS, readChannelNetwork } from '../../http/channel-network.ts'
import { type AddressPolicy, refuseProxy } from '../../http/upstream-address.ts'
import { isHeaderPattern, readHeaderPattern } from '../../override/expression.ts'
import { readOverride } from '../../override/override.ts'
import { readObject } from '../server/json-object.ts'

/** Validates the objects of a channel: mappings, overrides and its setting. */

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

/** An object of a channel, sent as an object or as JSON text, with validated content. */
export function readChannelObject(
  name: ObjectField,
  input: string | Json,
  options: { readonly path: string; readonly bytes: number; readonly stored?: Json | undefined },
): Json {
  const { stored, path } = options
  const read = readObject(input, options)
  const object = stored === undefined ? read : unmaskSecrets(read, stored)
  const masked = stored === undefined ? undefined : firstMaskedPath(object, path)
  if (masked !== undefined) throw invalidField(masked, 'is masked; send the whole value')
  return READS[name]?.(object, options.path) ?? object
}

/** The validation of each object. */
const READS: Partial<Record<ObjectField, (object: Json, path: string) => Json | undefined>> = {
  model_mapping: readMapping,
  param_override: checkOverride,
  header_override: checkHeaders,
  status_code_mapping: checkStatusCodes,
  setting: readSetting,
}

function readMapping(input: Json, path: string): Json {
  const mapping: Record<string, string> = {}
  for (const [from, to] of Object.entries(input)) {
    if (!isModelName(from) || !isModelName(to))
      throw invalidField(
        `${path}.${from.slice(0, 100)}`,
        `must map a model name to a model name, each of 1 to ${MAX_MODEL_LENGTH} characters`,
      )
    mapping[from.trim()] = to.trim()
  }
  const cycle = loopIn(mapping)
  if (cycle !== undefined)
    throw invalidField(path, `must not contain a cycle; "${cycle}" maps back to itself`)
  return mapping
}

function checkOverride(overrideObject: Json, path: string): undefined {
  const read = readOverride(overrideObject)
  if ('fault' in read) throw invalidField(`${path}${read.fault.path}`, read.fault.message)
}

const isModelName = (name: unknown): name is string =>
  typeof name === 'string' && name.trim() !== '' && codePoints(name) <= MAX_MODEL_LENGTH && !hasControl(name)

function checkHeaders(headers: Json, path: string): undefined {
  const entries = Object.entries(headers)
  if (entries.length > MAX_HEADERS) throw invalidField(path, `must contain at most ${MAX_HEADERS} headers`)
  const lowercaseNames = new Set<string>()
  for (const [name, value] of entries) {
    const at = `${path}.${name.slice(0, 100)}`
    const lower = name.toLowerCase()
    const nameFault = headerNameFault(name)
    if (nameFault !== undefined) throw invalidField(at, nameFault)
    if (isFraming(name)) throw invalidField(at, 'is set by the connection and cannot be overridden')
    if (lowercaseNames.has(lower)) throw invalidField(at, 'must not be the same header as another one')
    lowercaseNames.add(lower)
    if (typeof value !== 'string' || !HEADER_VALUE.test(value))
      throw invalidField(at, 'must be a string of at most 8192 ASCII characters, without line breaks')
    const fault = placeholderFault(value)
    if (fault !== undefined) throw invalidField(at, fault)
  }
}

function placeholderFault(value: string): string | undefined {
  const names = [...value.matchAll(CLIENT_HEADER)].map(([, name = '']) => name)
  if (names.length > MAX_PLACEHOLDERS) return `must contain at most ${MAX_PLACEHOLDERS} placeholders`
  const bad = names.find(name => !HEADER_NAME.test(name))
  if (bad !== undefined) return `must contain header names only; "${bad.slice(0, 100)}" is not one`
  const withheldName = names.find(name => !mayForward(name))
  return withheldName === undefined
    ? undefined
    : `must not forward ${withheldName} of the client: it is a credential or belongs to the connection`
}

/** Why a name is invalid: it is neither a header name nor `re:` with a regular expression. */
function headerNameFault(name: string): string | undefined {
  if (HEADER_NAME.test(name)) return undefined
  if (!isHeaderPattern(name) || name.length > MAX_PATTERN_LENGTH || hasControl(name))
    return 'is not a valid header name'
  const reading = readHeaderPattern(name)
  return 'fault' in reading ? reading.fault : undefined
}

/** Only an error status can be mapped, and only to another error status. */
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

type NetworkCheck = { readonly path: string; readonly policy: AddressPolicy }

/** Checks how the channel is to connect (docs/operating/network.md: Settings of a channel). */
export function checkNetwork(setting: Json, { path, policy }: NetworkCheck): void {
  const network = readChannelNetwork(setting)
  if (network?.fault) throw invalidField(`${path}.${network.fault.name}`, network.fault.message)
  const proxy = network?.proxy
  const refused = proxy === undefined || proxy === DIRECT ? undefined : refuseProxy(proxy, policy)
  if (refused !== undefined)
    throw invalidField(`${path}.proxy`, `${refused}; SLUICE_PRIVATE_PROXIES can allow it`)
}

const isEmpty = (value: unknown) => value === '' || value === null

/** An empty member about the network is the same as none, so that a form can clear it. */
const withoutEmpty = (setting: Json): Json =>
  NETWORK_MEMBERS.some(name => isEmpty(setting[name]))
    ? Object.fromEntries(
        Object.entries(setting).filter(
          ([name, value]) => !((NETWORK_MEMBERS as readonly string[]).includes(name) && isEmpty(value)),
        ),
      )
    : setting

function readSetting(setting: Json, path: string): Json {
  checkSetting(setting, path)
  return withoutEmpty(setting)
}

function checkSetting(setting: Json, path: string): void {
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
