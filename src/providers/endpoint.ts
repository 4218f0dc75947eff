import { type Path, type Paths, type Provider, pathFor, pathsOf, type Values } from './provider.ts'

/**
 * The URL of a path on a channel: the channel's base URL, or the vendor's if that is empty. Users paste base URLs in many
 * forms, so a part of the path that the base URL already has is not repeated:
 *
 * - `https://host/v1` and `/v1/chat/completions` share the `/v1`, as does any beginning of any path of the vendor;
 * - a base URL that ends in another version (`…/paas/v4`), or in a whole chat path (`…/chat/completions`), replaces
 *   everything before the last part of the path;
 * - a base URL that ends in `#` is the whole URL.
 *
 * Placeholders stay; `fill` replaces them. The result depends on the channel only, so it is computed once for it.
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

/** Replaces the placeholders of a URL; undefined if one has no value. */
export function fill(address: string, values: Values): string | undefined {
  let isFilled = true
  const filled = address.replace(/\{(\+?)(\w+)\}/g, (_, plus: string, name: string) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined
    if (value === undefined) isFilled = false
    return plus === '+' ? (value ?? '').split('/').map(encodeSegment).join('/') : encodeSegment(value ?? '')
  })
  return isFilled ? filled : undefined
}

/** The values of a channel's fields, with the vendor's fallbacks and the values derived from the key. */
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

/** The part of the base URL to use. If it is complete, only the part of the path after its version follows. */
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

/** How many of the last segments of `place` are the first segments of `path`. */
function overlap(place: readonly string[], path: readonly string[]): number {
  for (let count = Math.min(place.length, path.length); count > 0; count -= 1) {
    if (endsWith(place, path.slice(0, count))) return count
  }
  return 0
}

/** The part of a path after its last version, or the whole path. */
function nameOf(path: readonly string[]): readonly string[] {
  return path.slice(path.findLastIndex(isVersion) + 1)
}

const chatPaths = (paths: Paths = {}) => Object.values<Path>(paths).map(path => pathFor(path, false))

const endsWith = (place: readonly string[], tail: readonly string[]) =>
  place.length >= tail.length &&
  tail.every((segment, index) => isField(segment) || place[place.length - tail.length + index] === segment)

// A pasted URL has the account's id where the vendor's path has a placeholder.
const isField = (segment: string) => /^\{(?!model\}|voice\})\w+\}$/.test(segment)

const isVersion = (segment: string | undefined) => /^v\d+(?:(?:alpha|beta)\d*)?$/.test(segment ?? '')

const segmentsOf = (path: string) => path.split('/').filter(segment => segment !== '')

function cutQuery(address: string): [string, string] {
  const mark = address.indexOf('?')
  return mark < 0 ? [address, ''] : [address.slice(0, mark), address.slice(mark + 1)]
}

// `@` is allowed in a path, and some vendors do not find a model name with an encoded `@`.
const encodeSegment = (value: string) => encodeURIComponent(value).replaceAll('%40', '@')
