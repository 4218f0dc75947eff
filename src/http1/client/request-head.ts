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

/** Checked names in the spelling of the caller. It has a bound, because callers may forward names that their clients choose. */
const MAX_CHECKED_NAMES = 1_000
const checkedNames = new Map<string, boolean>()

/** Whether a header is sent. Throws if it is not a header. */
function isSent(name: string): boolean {
  const cached = checkedNames.get(name)
  if (cached !== undefined) return cached
  if (!NAME.test(name))
    throw new Http1Error('MALFORMED_REQUEST', `${JSON.stringify(name)} is not a header name`)
  const isOwn = !RESERVED.has(name.toLowerCase())
  if (checkedNames.size < MAX_CHECKED_NAMES) checkedNames.set(name, isOwn)
  return isOwn
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
    if (!isSent(name)) continue
    if (INVALID_VALUE.test(value))
      throw new Http1Error('MALFORMED_REQUEST', `the header ${name} has invalid characters`)
    if (name.length === 4 && name.toLowerCase() === 'host') hasHost = true
    lines += `${name}: ${value}\r\n`
  }
  const hostLine = hasHost ? '' : `host: ${host}\r\n`
  const lengthLine = bodyBytes === undefined ? '' : `content-length: ${bodyBytes}\r\n`
  return `${method} ${path} HTTP/1.1\r\n${hostLine}connection: keep-alive\r\n${lines}${lengthLine}\r\n`
}
