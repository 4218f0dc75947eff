import { isObject, type JsonObject } from '../domain/json-object.ts'
import { fieldValues, fill, providerOf } from '../providers/index.ts'

/**
 * An Admin may not read stored secrets, so an Admin's change must not send one to a new destination, where it could be read.
 * This file decides where the secrets of a channel are sent, and in which header.
 */

/** The columns of a channel that determine the destination, with `header_override` and `setting` decrypted. */
export type DestinationColumns = {
  readonly type: number
  readonly base_url: string
  readonly setting: string
  readonly header_override: string
  readonly param_override: string
}

/** Settings with these names are addresses that requests are sent to or through. */
export const ADDRESS_SETTING = /proxy|endpoint|host|gateway|base_?url|token_ur[il]/i

/** Headers by which a server selects one of several sites on its address. */
const HOST_HEADERS: ReadonlySet<string> = new Set([
  'forwarded',
  'host',
  'x-forwarded-host',
  'x-forwarded-server',
  'x-host',
  'x-http-host-override',
  'x-original-host',
])

const API_KEY = '{api_key}'

const parse = (text: string) => JSON.parse(text) as JsonObject

/** The origins of the channel's base URL, or of its provider's, with all placeholders filled in. */
export function originsOf({ type, base_url, setting }: DestinationColumns): readonly string[] {
  const provider = providerOf(type)
  const own = base_url.trim()
  const addresses = own === '' ? [provider?.baseUrl ?? '', provider?.models?.baseUrl ?? ''] : [own]
  const values = provider === undefined ? {} : fieldValues(provider, '', parse(setting))
  return addresses.map(address => {
    const filled = fill(address, values) ?? address
    return URL.canParse(filled) ? new URL(filled).origin : filled
  })
}

function addressSettings(setting: JsonObject, path = 'setting'): readonly string[] {
  return Object.entries(setting).flatMap(([name, value]) => {
    const at = `${path}.${name}`
    if (ADDRESS_SETTING.test(name)) return value ? [`${at}=${JSON.stringify(value)}`] : []
    return isObject(value) ? addressSettings(value, at) : []
  })
}

type Operation = { readonly text: string; readonly words: readonly string[] }

/** Operations of `param_override`, each with the texts that may name a header: `x-a`, `header:x-a`, `x-a, x-b`. */
function operationsOf({ param_override }: DestinationColumns): readonly Operation[] {
  const { operations } = parse(param_override)
  if (!Array.isArray(operations)) return []
  return operations.filter(isObject).map(operation => ({
    text: JSON.stringify(operation),
    words: [operation.path, operation.from, operation.to, operation.value]
      .flat()
      .filter(word => typeof word === 'string')
      .flatMap(word => word.replace(/^header:/, '').split(','))
      .map(word => word.trim().toLowerCase()),
  }))
}

const headersOf = ({ header_override }: DestinationColumns) =>
  Object.entries(parse(header_override)).map(([name, value]) => [name.toLowerCase(), String(value)] as const)

function hostHeaders(channel: DestinationColumns): readonly string[] {
  const set = headersOf(channel).filter(([name]) => HOST_HEADERS.has(name))
  const changed = operationsOf(channel).filter(({ words }) => words.some(word => HOST_HEADERS.has(word)))
  return [...set.map(([name, value]) => `${name}: ${value}`), ...changed.map(({ text }) => text)]
}

/** The properties of a channel that determine the destination of its secrets. */
const DESTINATION: Readonly<Record<string, (channel: DestinationColumns) => readonly string[]>> = {
  'the type': ({ type }) => [String(type)],
  'the origin of base_url': originsOf,
  'the proxy': ({ setting }) => addressSettings(parse(setting)),
  // With a certificate and a place on the way, such as a proxy, a TLS connection can be read.
  'the trusted certificate': ({ setting }) => [JSON.stringify(parse(setting).ca ?? '')],
  'the Host header': hostHeaders,
}

/**
 * Where else the key is written: headers with `{api_key}`, and operations that write it or copy
 * such a header, perhaps into the body, which a client can make a model repeat.
 */
function keyCopies(channel: DestinationColumns): ReadonlySet<string> {
  const headers = headersOf(channel).filter(([, value]) => value.includes(API_KEY))
  const copies = new Set(headers.map(([name, value]) => `${name}: ${value}`))
  const carriers = new Set(headers.map(([name]) => name))
  const operations = operationsOf(channel)
  // An operation may copy the copy of another one, so the search repeats until it finds no further copy.
  for (let previousSize = -1; previousSize !== copies.size; ) {
    previousSize = copies.size
    for (const { text, words } of operations) {
      if (!text.includes(API_KEY) && !words.some(word => carriers.has(word))) continue
      copies.add(text)
      for (const word of words) carriers.add(word)
    }
  }
  return copies
}

const isSame = (one: readonly string[], other: readonly string[]) =>
  JSON.stringify(one.toSorted()) === JSON.stringify(other.toSorted())

/** Why the stored secrets would be sent to a new destination; empty if they would not. */
export function movesOf(before: DestinationColumns, after: DestinationColumns): readonly string[] {
  const moved = Object.entries(DESTINATION).flatMap(([name, read]) =>
    isSame(read(before), read(after)) ? [] : [`${name} changes`],
  )
  const isCopied = !keyCopies(after).isSubsetOf(keyCopies(before))
  return isCopied ? [...moved, `an override adds ${API_KEY}`] : moved
}

/** Whether a change sends the stored secrets to a new destination. */
export const isMove = (before: DestinationColumns, after: DestinationColumns): boolean =>
  movesOf(before, after).length > 0

/** The columns that determine the destination: a change of other columns moves no secret. */
export const DESTINATION_COLUMNS = [
  'type',
  'base_url',
  'setting',
  'header_override',
  'param_override',
] as const satisfies readonly (keyof DestinationColumns)[]
