import { type Path, type Paths, type Provider, pathFor, pathsOf, type Values } from './provider.ts'

/**
 * The address of a path on a channel: its own base URL, or the vendor's where that is empty. People paste base
 * URLs as they find them, so what the base URL already says of the path is not said twice:
 *
 * - `https://host/v1` and `/v1/chat/completions` share the `/v1`, as does any beginning of any path of the vendor;
 * - a base URL that ends in another version (`…/paas/v4`), or in a whole chat call (`…/chat/completions`), stands
 *   for everything in front of the call's own name;
 * - one that ends in `#` is the whole address.
 *
 * Placeholders stay; `fill` fills them. The result depends on the channel only, so it is worked out once for it.
 */
export function endpoint(provider: Provider, baseUrl: string, path: string): string {
  const base = baseUrl.trim() || (provider.baseUrl ?? '')
  if (base.endsWith('#')) return base.slice(0, -1)
  const [address, addressQuery] = cutQuery(base)
  const [call, callQuery] = cutQuery(path)
  const [, origin = '', place = ''] = /^([a-z][a-z0-9+.-]*:\/\/[^/]*)?(.*)$/is.exec(address) ?? []
  const { root, isComplete } = rootOf(provider, segmentsOf(place))
  const rest = isComplete ? nameOf(segmentsOf(call)) : segmentsOf(call)
  const query = [addressQuery, callQuery].filter(part => part !== '').join('&')
  return `${origin}/${[...root, ...rest].join('/')}${query === '' ? '' : `?${query}`}`
}

/** Fills the placeholders of an address; undefined when one has no value. */
export function fill(address: string, values: Values): string | undefined {
  let isFilled = true
  const filled = address.replace(/\{(\+?)(\w+)\}/g, (_, plus: string, name: string) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined
    if (value === undefined) isFilled = false
    return plus === '+' ? (value ?? '').split('/').map(encodeSegment).join('/') : encodeSegment(value ?? '')
  })
  return isFilled ? filled : undefined
}

/** The values of a channel's fields, with the vendor's fallbacks and what it reads from the key. */
export function fieldValues(
  provider: Provider,
  key: string,
  setting: Readonly<Record<string, unknown>>,
): Values {
  const fieldEntries = (provider.fields ?? []).flatMap(({ name, fallback }) => {
    const value = setting[name]
    const text = typeof value === 'string' && value.trim() !== '' ? value.trim() : fallback
    return text === undefined ? [] : [[name, text] as const]
  })
  const fields = Object.fromEntries(fieldEntries)
  return { ...fields, ...provider.placeholders?.(key, fields) }
}

/** What of the base URL stays; it is complete when only the name of the call may follow it. */
function rootOf(
  provider: Provider,
  place: readonly string[],
): { root: readonly string[]; isComplete: boolean } {
  const shared = Math.max(0, ...pathsOf(provider).map(path => overlap(place, segmentsOf(cutQuery(path)[0]))))
  if (shared > 0) return { root: place.slice(0, -shared), isComplete: false }
  const name = chatPaths(provider.chat)
    .map(path => nameOf(segmentsOf(cutQuery(path)[0])))
    .find(candidate => candidate.length > 0 && endsWith(place, candidate))
  if (name !== undefined) return { root: place.slice(0, -name.length), isComplete: true }
  return { root: place, isComplete: isVersion(place.at(-1)) }
}

/** How many of the last segments of `place` are the first ones of `path`. */
function overlap(place: readonly string[], path: readonly string[]): number {
  for (let count = Math.min(place.length, path.length); count > 0; count -= 1) {
    if (endsWith(place, path.slice(0, count))) return count
  }
  return 0
}

/** A path after its last version; a path without a version is all name. */
function nameOf(path: readonly string[]): readonly string[] {
  return path.slice(path.findLastIndex(isVersion) + 1)
}

const chatPaths = (paths: Paths = {}) => Object.values<Path>(paths).map(path => pathFor(path, false))

const endsWith = (place: readonly string[], tail: readonly string[]) =>
  place.length >= tail.length &&
  tail.every((segment, index) => isField(segment) || place[place.length - tail.length + index] === segment)

// A pasted address names the account where the vendor's path has a field for it.
const isField = (segment: string) => /^\{(?!model\}|voice\})\w+\}$/.test(segment)

const isVersion = (segment: string | undefined) => /^v\d+(?:(?:alpha|beta)\d*)?$/.test(segment ?? '')

const segmentsOf = (path: string) => path.split('/').filter(segment => segment !== '')

function cutQuery(address: string): [string, string] {
  const mark = address.indexOf('?')
  return mark < 0 ? [address, ''] : [address.slice(0, mark), address.slice(mark + 1)]
}

// `@` is allowed in a path, and some vendors' model names are only found with it as it is.
const encodeSegment = (value: string) => encodeURIComponent(value).replaceAll('%40', '@')
