import type { IncomingHttpHeaders } from 'node:http'
import { flatText } from './flat-text.ts'

/** The name of a header. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** A value has visible characters, spaces, tabs and bytes above ASCII (RFC 9110, 5.5): no bare CR or LF, no NUL. */
export const INVALID_VALUE = /[^\t\x20-\x7e\x80-\xff]/
const DIGITS = /^[0-9]{1,15}$/
const SPACE = 0x20
const TAB = 0x09

/** Of these, a message has one; as in node:http, the first line counts. */
const FIRST_COUNTS: ReadonlySet<string> = new Set([
  'age',
  'authorization',
  'content-type',
  'etag',
  'expires',
  'from',
  'host',
  'if-modified-since',
  'if-unmodified-since',
  'last-modified',
  'location',
  'max-forwards',
  'proxy-authorization',
  'referer',
  'retry-after',
  'server',
  'user-agent',
])

/** What is known of a name, in the spelling of the peer. */
type NameEntry = {
  readonly lower: string
  /** It needs more than storing a text: it concerns the framing, is counted, or has several values. */
  readonly isSpecial: boolean
  /** The last valid value of a request. Most headers have the same value in every request, and comparing costs least. */
  value: string | undefined
}

const SPECIAL: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding', 'set-cookie', 'host'])

/** Bounds of the names and values that are kept, because peers choose them. */
const MAX_NAMES = 1_000
const MAX_VALUE_LENGTH = 256
const nameEntries = new Map<string, NameEntry>()

/** Undefined if it is not the name of a header. */
function nameEntryOf(name: string): NameEntry | undefined {
  const cached = nameEntries.get(name)
  if (cached !== undefined) return cached
  if (!TOKEN.test(name)) return undefined
  const lower = name.toLowerCase()
  const entry = { lower, isSpecial: SPECIAL.has(lower), value: undefined }
  if (nameEntries.size >= MAX_NAMES) nameEntries.clear()
  // V8 copies a text that becomes a key, so the name does not keep the whole head in memory.
  nameEntries.set(name, entry)
  return entry
}

/** Checks a value; undefined if it is invalid. Returns the string of an earlier request if it is equal. */
function validValue(entry: NameEntry, value: string): string | undefined {
  if (entry.value === value) return entry.value
  if (INVALID_VALUE.test(value)) return undefined
  const trimmed = withoutTrailingSpace(value)
  // A slice would keep the whole head in memory.
  if (trimmed.length <= MAX_VALUE_LENGTH) entry.value = flatText(trimmed)
  return trimmed
}

const isBlank = (code: number) => code === SPACE || code === TAB

function withoutTrailingSpace(value: string): string {
  let end = value.length
  while (end > 0 && isBlank(value.charCodeAt(end - 1))) end--
  return end === value.length ? value : value.slice(0, end)
}

/** `malformed`: a line is not a header. `too_many`: more lines than allowed. `framing`: the length of the body is ambiguous. */
export type HeaderFault = 'malformed' | 'too_many' | 'framing'

export type HeaderLines = {
  /**
   * Values by lower-case name, repeated lines joined as in node:http. The object has no prototype, so that a header may
   * be named `__proto__`.
   */
  readonly headers: IncomingHttpHeaders
  /** Undefined without content-length. */
  contentLength: number | undefined
  isChunked: boolean
  /** The number of `host` lines: a server must refuse a request that has another number than one. */
  hostLines: number
}

export const createHeaderLines = (): HeaderLines => ({
  headers: Object.create(null) as IncomingHttpHeaders,
  contentLength: undefined,
  isChunked: false,
  hostLines: 0,
})

/**
 * Adds a line whose name and value are free of invalid characters. False: it makes the length of the body ambiguous
 * (request smuggling).
 */
export function addHeaderLine(lines: HeaderLines, nameInAnyCase: string, paddedValue: string): boolean {
  const entry = nameEntryOf(nameInAnyCase)
  return entry !== undefined && addLine(lines, entry, withoutTrailingSpace(paddedValue))
}

function addLine(lines: HeaderLines, { lower: name, isSpecial }: NameEntry, value: string): boolean {
  const { headers } = lines
  const before = headers[name] as string | undefined
  if (isSpecial && !addSpecialLine(lines, name, value)) return false
  if (name === 'set-cookie') return true
  if (before === undefined) headers[name] = value
  else if (!FIRST_COUNTS.has(name)) headers[name] = `${before}${name === 'cookie' ? '; ' : ', '}${value}`
  return true
}

/** False: the length of the body is ambiguous. */
function addSpecialLine(lines: HeaderLines, name: string, value: string): boolean {
  const { headers } = lines
  switch (name) {
    case 'content-length':
      if (headers[name] !== undefined || lines.isChunked || !DIGITS.test(value)) return false
      lines.contentLength = Number(value)
      break
    case 'transfer-encoding':
      if (headers[name] !== undefined || lines.contentLength !== undefined) return false
      if (value.toLowerCase() !== 'chunked') return false
      lines.isChunked = true
      break
    case 'set-cookie':
      if (headers[name] === undefined) headers[name] = [value]
      else headers[name].push(value)
      break
    case 'host':
      lines.hostLines++
      break
  }
  return true
}

/**
 * Parses the header lines of a complete head, strictly: each is a token, a colon directly after it, and a value. Folded lines
 * are malformed. `head` is its latin1 text, including the empty line at its end; the first header line starts at `from`. The
 * caller limits the number of bytes.
 */
export function parseHeaderLines(head: string, from: number, maxLines: number): HeaderLines | HeaderFault {
  const lines = createHeaderLines()
  const end = head.length - 2
  let count = 0
  let at = from
  // A search for the parts of a line takes half the time of a regular expression with groups, and allocates less.
  while (at < end) {
    const lineEnd = head.indexOf('\r\n', at)
    const colon = head.indexOf(':', at)
    if (lineEnd === -1 || colon === -1 || colon > lineEnd) return 'malformed'
    let valueStart = colon + 1
    while (isBlank(head.charCodeAt(valueStart))) valueStart++
    const entry = nameEntryOf(head.slice(at, colon))
    const value = entry && validValue(entry, head.slice(valueStart, lineEnd))
    if (entry === undefined || value === undefined) return 'malformed'
    if (++count > maxLines) return 'too_many'
    if (!addLine(lines, entry, value)) return 'framing'
    at = lineEnd + 2
  }
  return at === end && head.endsWith('\r\n') ? lines : 'malformed'
}

/** Whether a comma-separated header such as `connection` has this lower-case token. */
export function hasToken(value: string | undefined, token: string): boolean {
  if (value === undefined) return false
  if (value === token) return true
  if (value.length < token.length) return false
  return value
    .toLowerCase()
    .split(',')
    .some(each => each.trim() === token)
}
