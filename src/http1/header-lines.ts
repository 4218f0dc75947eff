import type { IncomingHttpHeaders } from 'node:http'

/**
 * One header line: a token, a colon directly after it, and a value of visible characters, spaces, tabs and bytes above
 * ASCII (RFC 9110, 5.5). Folded lines, bare CR or LF, NUL and other control characters do not match.
 */
const LINE = /([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)\r\n/y
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

/** Lower-casing the same names again and again would cost more than this table. It has a bound, because peers choose names. */
const MAX_KNOWN_NAMES = 1_000
const lowerNames = new Map<string, string>()

function lowerCaseOf(name: string): string {
  const cached = lowerNames.get(name)
  if (cached !== undefined) return cached
  const lower = name.toLowerCase()
  if (lowerNames.size < MAX_KNOWN_NAMES) lowerNames.set(name, lower)
  return lower
}

function withoutTrailingSpace(value: string): string {
  let end = value.length
  while (end > 0) {
    const code = value.charCodeAt(end - 1)
    if (code !== SPACE && code !== TAB) break
    end--
  }
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
  const name = lowerCaseOf(nameInAnyCase)
  const value = withoutTrailingSpace(paddedValue)
  const { headers } = lines
  const before = headers[name] as string | undefined
  switch (name) {
    case 'content-length':
      if (before !== undefined || lines.isChunked || !DIGITS.test(value)) return false
      lines.contentLength = Number(value)
      break
    case 'transfer-encoding':
      if (before !== undefined || lines.contentLength !== undefined || value.toLowerCase() !== 'chunked')
        return false
      lines.isChunked = true
      break
    case 'set-cookie':
      if (before === undefined) headers['set-cookie'] = [value]
      else headers['set-cookie']?.push(value)
      return true
    case 'host':
      lines.hostLines++
      break
  }
  if (before === undefined) headers[name] = value
  else if (!FIRST_COUNTS.has(name)) headers[name] = `${before}${name === 'cookie' ? '; ' : ', '}${value}`
  return true
}

/**
 * Parses the header lines of a complete head, strictly. `head` is its latin1 text, including the empty line at its end;
 * the first header line starts at `from`. The caller limits the number of bytes.
 */
export function parseHeaderLines(head: string, from: number, maxLines: number): HeaderLines | HeaderFault {
  const lines = createHeaderLines()
  const end = head.length - 2
  let count = 0
  LINE.lastIndex = from
  while (LINE.lastIndex < end) {
    const match = LINE.exec(head)
    if (match === null) return 'malformed'
    if (++count > maxLines) return 'too_many'
    if (!addHeaderLine(lines, match[1] as string, match[2] as string)) return 'framing'
  }
  return LINE.lastIndex === end && head.endsWith('\r\n') ? lines : 'malformed'
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
