import type { IncomingHttpHeaders } from 'node:http'
import { CLIENT_HEADER, HEADER_NAME, isForwardedByDefault, mayForward } from '../../domain/header.ts'
import { type Expression, isHeaderPattern, isMatch, readHeaderPattern } from '../../override/expression.ts'

/** What a channel's administrator does to the headers of its requests: `header_override`, read once. */
export type HeaderOverride = {
  /** Those that are the same for every request; `{api_key}` still stands for the key. */
  readonly fixed: Readonly<Record<string, string>>
  /** Those that say what the client said, by lower-case name. */
  readonly templates: readonly (readonly [name: string, template: string])[]
  /** Whether a header of the client goes along by itself; undefined: none does. */
  readonly passes: ((name: string) => boolean) | undefined
  /** Why some of its patterns are disabled: RE2 does not accept their regular expressions. */
  readonly disabled: readonly string[]
}

const MAX_NAMES = 1_000
const MAX_VALUE_LENGTH = 8_192
/** What a header may hold besides plain ASCII: bytes that clients send as they are. */
const CLIENT_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

export function readHeaderOverride(headers: Readonly<Record<string, string>>): HeaderOverride {
  const fixed: Record<string, string> = {}
  const templates: [string, string][] = []
  const patterns: Expression[] = []
  const disabled: string[] = []
  let passesAll = false
  for (const [name, value] of Object.entries(headers)) {
    if (name === '*') passesAll = true
    else if (isHeaderPattern(name)) {
      const read = readHeaderPattern(name)
      if ('fault' in read) disabled.push(read.fault)
      else patterns.push(read.expression)
    } else if (value.includes('{client_header:')) templates.push([name.toLowerCase(), value])
    else fixed[name.toLowerCase()] = value
  }
  const passes = passesAll ? isForwardedByDefault : patterns.length > 0 ? createPasses(patterns) : undefined
  return { fixed, templates, passes, disabled }
}

/** Clients send the same few names again and again, so each is matched once. */
function createPasses(patterns: readonly Expression[]) {
  const verdicts = new Map<string, boolean>()
  const matches = (name: string) => patterns.some(pattern => isMatch(name, pattern))
  return (name: string): boolean => {
    const cached = verdicts.get(name)
    if (cached !== undefined) return cached
    if (verdicts.size >= MAX_NAMES) verdicts.clear()
    const isPassed = HEADER_NAME.test(name) && isForwardedByDefault(name) && matches(name)
    verdicts.set(name, isPassed)
    return isPassed
  }
}

/** What the client sent under a name, if that may reach a provider. */
export function clientHeader(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name.toLowerCase()]
  const isGood = typeof value === 'string' && value.length <= MAX_VALUE_LENGTH && CLIENT_VALUE.test(value)
  return isGood && mayForward(name) ? value : undefined
}

/** Fills in a template; undefined where the client sent nothing for one of its places, or too much. */
export function fillHeader(template: string, headers: IncomingHttpHeaders, key: string): string | undefined {
  let isWhole = true
  const filled = template
    .replace(CLIENT_HEADER, (_, name: string) => {
      const value = clientHeader(headers, name)
      isWhole &&= value !== undefined
      return value ?? ''
    })
    .replaceAll('{api_key}', () => key)
  return isWhole && filled.length <= MAX_VALUE_LENGTH ? filled : undefined
}

/** The client's headers that go along, to be put before everything that is ours or the channel's. */
export function forwardedHeaders(
  { passes }: HeaderOverride,
  headers: IncomingHttpHeaders,
): Record<string, string> {
  if (passes === undefined) return {}
  const forwarded: Record<string, string> = {}
  for (const name of Object.keys(headers)) {
    const value = passes(name) ? clientHeader(headers, name) : undefined
    if (value !== undefined) forwarded[name] = value
  }
  return forwarded
}
