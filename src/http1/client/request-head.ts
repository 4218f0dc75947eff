import { flatText } from '../flat-text.ts'
import { Http1Error } from './errors.ts'

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
/** A line break in a value would begin another header or another request. */
const INVALID_VALUE = /[^\t\x20-\x7e\x80-\xff]/
const PATH = /^\/[\x21-\x7e]*$/

/** The client sets these itself: they frame the request and the connection. */
const RESERVED: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** `value`: the last valid value, and its line once it was repeated. Most headers have the same value in every request. */
type CheckedHeader = {
  readonly isSent: boolean
  readonly isHost: boolean
  value: string | undefined
  line: string | undefined
}

/** By name in the spelling of the caller. It has a bound, because callers may forward names that their clients choose. */
const MAX_CHECKED_NAMES = 1_000
const checkedHeaders = new Map<string, CheckedHeader>()

/** Throws if it is not the name of a header. */
function checkName(name: string): CheckedHeader {
  const cached = checkedHeaders.get(name)
  if (cached !== undefined) return cached
  if (!NAME.test(name))
    throw new Http1Error('MALFORMED_REQUEST', `${JSON.stringify(name)} is not a header name`)
  const lower = name.toLowerCase()
  const header = { isSent: !RESERVED.has(lower), isHost: lower === 'host', value: undefined, line: undefined }
  if (checkedHeaders.size < MAX_CHECKED_NAMES) checkedHeaders.set(name, header)
  return header
}

/** Throws if the value is not one of a header. */
function lineOf(header: CheckedHeader, name: string, value: string): string {
  if (header.value === value) {
    header.line ??= flatText(`${name}: ${value}\r\n`)
    return header.line
  }
  if (INVALID_VALUE.test(value))
    throw new Http1Error('MALFORMED_REQUEST', `the header ${name} has invalid characters`)
  header.value = value
  header.line = undefined
  return `${name}: ${value}\r\n`
}

export type ClientRequestHead = {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path and the query, in ASCII. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}

/** The head of a request as latin1 text. `bodyBytes`: undefined for a request without a body. */
export function writeRequestHead(
  request: ClientRequestHead,
  host: string,
  bodyBytes: number | undefined,
): string {
  const { method, path, headers } = request
  if (!PATH.test(path)) throw new Http1Error('MALFORMED_REQUEST', 'the path has invalid characters')
  let hasHost = false
  let lines = ''
  for (const name in headers) {
    const value = headers[name] as string
    const header = checkName(name)
    if (!header.isSent) continue
    if (header.isHost) hasHost = true
    lines += lineOf(header, name, value)
  }
  const hostLine = hasHost ? '' : `host: ${host}\r\n`
  const lengthLine = bodyBytes === undefined ? '' : `content-length: ${bodyBytes}\r\n`
  return `${method} ${path} HTTP/1.1\r\n${hostLine}connection: keep-alive\r\n${lines}${lengthLine}\r\n`
}
