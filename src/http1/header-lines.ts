import type { IncomingHttpHeaders } from 'node:http'
import { flatText } from './flat-text.ts'

/** The name of a header. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** A value has visible characters, spaces, tabs and bytes above ASCII (RFC 9110, 5.5): no bare CR or LF, no NUL. */
export const INVALID_VALUE = /[^\t\x20-\x7e\x80-\xff]/
const MAX_LENGTH_DIGITS = 15
const ZERO = 0x30
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
  /** It needs more than storing a text: it concerns the framing or the connection, is counted, or has several values. */
  readonly isSpecial: boolean
  /** The last valid value of a message. Most headers have the same value in every message, and comparing costs least. */
  value: string
  /** How many values in a row were another one. */
  changes: number
  /** The whole line with that value, once the value was repeated. */
  line: string | undefined
  /** The name of the line that followed the last time. */
  next: NameEntry | undefined
}

/** With these headers a message means more than its framing, or the connection changes. node:http drops the last one. */
const OTHER_MEANING: ReadonlySet<string> = new Set([
  'expect',
  'upgrade',
  'proxy-connection',
  'trailer',
  'te',
  '__proto__',
])
const SPECIAL: ReadonlySet<string> = new Set([
  'content-length',
  'transfer-encoding',
  'set-cookie',
  'host',
  ...OTHER_MEANING,
])

/** Bounds of the names and values that are kept, because peers choose them. */
const MAX_NAMES = 1_000
const MAX_VALUE_LENGTH = 256
const MAX_LINE_LENGTH = 512
/** A value that was another one so often, such as the id of a request, is copied only every so often. */
const MANY_CHANGES = 8
/** V8 copies a slice that is shorter; a longer one keeps the whole text in memory. */
const SLICE_LENGTH = 13

const createNameEntry = (lower: string): NameEntry => ({
  lower,
  isSpecial: SPECIAL.has(lower),
  value: '',
  changes: 0,
  line: undefined,
  next: undefined,
})

/** The names that peers of one kind use. */
type KnownNames = {
  readonly entries: Map<string, NameEntry>
  /** Before the first line. */
  readonly start: NameEntry
}

const createKnownNames = (): KnownNames => ({ entries: new Map(), start: createNameEntry('') })

/** Undefined if it is not the name of a header. */
function nameEntryOf({ entries, start }: KnownNames, name: string): NameEntry | undefined {
  const cached = entries.get(name)
  if (cached !== undefined) return cached
  if (!TOKEN.test(name)) return undefined
  const entry = createNameEntry(name.toLowerCase())
  if (entries.size >= MAX_NAMES) {
    entries.clear()
    start.next = undefined
  }
  // V8 copies a text that becomes a key, so the name does not keep the whole head in memory.
  entries.set(name, entry)
  return entry
}

/** Checks a value that is not the last one; undefined if it is invalid. */
function newValue(entry: NameEntry, value: string): string | undefined {
  if (INVALID_VALUE.test(value)) return undefined
  const trimmed = withoutTrailingSpace(value)
  entry.changes += 1
  if (
    trimmed.length <= MAX_VALUE_LENGTH &&
    (entry.changes < MANY_CHANGES || entry.changes % MANY_CHANGES === 0)
  ) {
    entry.value = trimmed.length < SLICE_LENGTH ? trimmed : flatText(trimmed)
    entry.line = undefined
  }
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
   * Values by lower-case name, repeated lines joined as in node:http. The object inherits nothing, so that a header may be
   * named `__proto__` or `constructor`.
   */
  headers: IncomingHttpHeaders
  /** Undefined without content-length. */
  contentLength: number | undefined
  isChunked: boolean
  /** The number of `host` lines: a server must refuse a request that has another number than one. */
  hostLines: number
  /** A header means more than the framing of the body, or changes the connection: `expect`, `upgrade`, `trailer` and such. */
  hasOtherMeaning: boolean
  count: number
  /** Where the next line begins in the head. */
  next: number
}

/**
 * Headers whose names are known. V8 stores the fields of an object without a prototype in a hash table, which takes longer to fill than all
 * else takes. Objects of a class whose prototype is empty inherit nothing either.
 */
class KnownHeaders {}
Object.setPrototypeOf(KnownHeaders.prototype, null)
Reflect.deleteProperty(KnownHeaders.prototype, 'constructor')

export const createHeaderLines = (headers: object = Object.create(null)): HeaderLines => ({
  headers: headers as IncomingHttpHeaders,
  contentLength: undefined,
  isChunked: false,
  hostLines: 0,
  hasOtherMeaning: false,
  count: 0,
  next: 0,
})

/** The names of lines that another parser has split. */
const splitNames = createKnownNames()

/**
 * Adds a line whose name and value are free of invalid characters. False: it makes the length of the body ambiguous
 * (request smuggling).
 */
export function addHeaderLine(lines: HeaderLines, nameInAnyCase: string, paddedValue: string): boolean {
  const entry = nameEntryOf(splitNames, nameInAnyCase)
  return entry !== undefined && addLine(lines, entry, withoutTrailingSpace(paddedValue))
}

function addLine(lines: HeaderLines, { lower: name, isSpecial }: NameEntry, value: string): boolean {
  const { headers } = lines
  lines.count += 1
  const before = headers[name] as string | undefined
  if (isSpecial && !addSpecialLine(lines, name, value)) return false
  if (name === 'set-cookie') return true
  if (before === undefined) headers[name] = value
  else if (!FIRST_COUNTS.has(name)) headers[name] = `${before}${name === 'cookie' ? '; ' : ', '}${value}`
  return true
}

/** The value of `content-length`; undefined if it is not a number of at most 15 digits. A regular expression takes three times as long. */
function lengthIn(value: string): number | undefined {
  if (value.length === 0 || value.length > MAX_LENGTH_DIGITS) return undefined
  let length = 0
  for (let index = 0; index < value.length; index++) {
    const digit = value.charCodeAt(index) - ZERO
    if (digit < 0 || digit > 9) return undefined
    length = length * 10 + digit
  }
  return length
}

/** False: the length of the body is ambiguous. */
function addSpecialLine(lines: HeaderLines, name: string, value: string): boolean {
  const { headers } = lines
  switch (name) {
    case 'content-length':
      if (headers[name] !== undefined || lines.isChunked) return false
      lines.contentLength = lengthIn(value)
      if (lines.contentLength === undefined) return false
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
    default:
      lines.hasOtherMeaning = true
  }
  return true
}

/** Whether the name has never had a value, or only empty ones. */
const isNew = ({ value, changes }: NameEntry) => value === '' && changes === 0

/** V8 makes a hidden class for each name that is added to an object of a class. A peer that invents names would fill its memory. */
function moveToHashTable(lines: HeaderLines): void {
  if (lines.headers instanceof KnownHeaders) lines.headers = Object.assign(Object.create(null), lines.headers)
}

/** Reads the next line part by part, and adds it. Returns the entry of its name. */
function readLine(names: KnownNames, lines: HeaderLines, head: string): NameEntry | HeaderFault {
  const at = lines.next
  // A search for the parts of a line takes half the time of a regular expression with groups, and allocates less.
  const lineEnd = head.indexOf('\r\n', at)
  const colon = head.indexOf(':', at)
  if (lineEnd === -1 || colon === -1 || colon > lineEnd) return 'malformed'
  let valueStart = colon + 1
  while (isBlank(head.charCodeAt(valueStart))) valueStart++
  const entry = nameEntryOf(names, head.slice(at, colon))
  if (entry === undefined) return 'malformed'
  if (isNew(entry)) moveToHashTable(lines)
  lines.next = lineEnd + 2
  let value: string | undefined = head.slice(valueStart, lineEnd)
  if (entry.value !== value) value = newValue(entry, value)
  else {
    entry.changes = 0
    if (lines.next - at <= MAX_LINE_LENGTH) entry.line ??= flatText(head.slice(at, lines.next))
  }
  if (value === undefined) return 'malformed'
  return addLine(lines, entry, value) ? entry : 'framing'
}

/** Whether the text has this part at this place. Comparing a slice takes a third of the time of `startsWith`. */
export const hasAt = (text: string, at: number, part: string) => text.slice(at, at + part.length) === part

/** `head` is the latin1 text of a complete head, including the empty line at its end; its first header line starts at `from`. */
export type HeaderParser = (head: string, from: number, maxLines: number) => HeaderLines | HeaderFault

/**
 * Parses the header lines of complete heads, strictly: each is a token, a colon directly after it, and a value. Folded lines
 * are malformed. The caller limits the number of bytes. Peers of one kind share a parser: it expects the lines of the last head, in the
 * same order, so that one comparison reads a line. Any other line is read part by part.
 */
export function createHeaderParser(): HeaderParser {
  const names = createKnownNames()

  return function parseHeaderLines(head, from, maxLines) {
    const lines = createHeaderLines(new KnownHeaders())
    const end = head.length - 2
    lines.next = from
    let previous = names.start
    while (lines.next < end) {
      if (lines.count === maxLines) return 'too_many'
      const likely = previous.next
      if (likely?.line !== undefined && hasAt(head, lines.next, likely.line)) {
        lines.next += likely.line.length
        if (!addLine(lines, likely, likely.value)) return 'framing'
        previous = likely
      } else {
        const entry = readLine(names, lines, head)
        if (typeof entry === 'string') return entry
        previous.next = entry
        previous = entry
      }
    }
    return lines.next === end && head.endsWith('\r\n') ? lines : 'malformed'
  }
}

const CONNECTION = /^(?:keep-alive|close)$/i

/** Whether a plain `connection` header leaves the connection open; undefined: it says something else. */
export function keepsOpen(connection: string | undefined): boolean | undefined {
  if (connection === undefined || connection === 'keep-alive') return true
  return CONNECTION.test(connection) ? connection.length !== 'close'.length : undefined
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
