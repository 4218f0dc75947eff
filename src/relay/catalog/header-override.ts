import type { IncomingHttpHeaders } from 'node:http'
import { CLIENT_HEADER, HEADER_NAME, isForwardedByDefault, mayForward } from '../../domain/header.ts'
import { type Expression, isHeaderPattern, isMatch, readHeaderPattern } from '../../override/expression.ts'

/** A channel's `header_override`, parsed once. */
export type HeaderOverride = {
  /** Headers that are the same for every request, except for the placeholder `{api_key}`. */
  readonly fixed: Readonly<Record<string, string>>
  /** Templates that refer to headers of the client, by lower-case name. */
  readonly templates: readonly (readonly [name: string, template: string])[]
  /** Whether a client header is forwarded as it is; undefined: none is. */
  readonly passes: ((name: string) => boolean) | undefined
  /** Why some of its patterns are disabled: RE2 does not accept their regular expressions. */
  readonly disabled: readonly string[]
}

const MAX_NAMES = 1_000
const MAX_VALUE_LENGTH = 8_192
/** The allowed header values: ASCII, and bytes that clients send beyond it. */
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

/** Clients send the same few header names repeatedly, so each name is matched once. */
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

/** The value of a client header, if it may be forwarded to a provider. */
export function clientHeader(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name.toLowerCase()]
  const isGood = typeof value === 'string' && value.length <= MAX_VALUE_LENGTH && CLIENT_VALUE.test(value)
  return isGood && mayForward(name) ? value : undefined
}

/** Fills in a template; undefined if the client lacks one of its headers, or if the result is too long. */
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

/** The client headers to forward. The gateway's and the channel's own headers override them. */
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
