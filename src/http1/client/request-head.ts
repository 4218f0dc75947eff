import { MAX_WRITTEN_NAMES, type WrittenHeader, writtenLine } from '../written-header.ts'
import { Http1Error } from './errors.ts'

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
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

type RequestHeader = WrittenHeader & {
  readonly isSent: boolean
  readonly isHost: boolean
}

/** By name in the spelling of the caller. */
const requestHeaders = new Map<string, RequestHeader>()

/** Throws if it is not the name of a header. */
function checkName(name: string): RequestHeader {
  const cached = requestHeaders.get(name)
  if (cached !== undefined) return cached
  if (!NAME.test(name))
    throw new Http1Error('MALFORMED_REQUEST', `${JSON.stringify(name)} is not a header name`)
  const lower = name.toLowerCase()
  const header = { isSent: !RESERVED.has(lower), isHost: lower === 'host', value: undefined, line: undefined }
  if (requestHeaders.size >= MAX_WRITTEN_NAMES) requestHeaders.clear()
  requestHeaders.set(name, header)
  return header
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
    const line = writtenLine(header, name, value)
    if (line === undefined)
      throw new Http1Error('MALFORMED_REQUEST', `the header ${name} has invalid characters`)
    lines += line
  }
  const hostLine = hasHost ? '' : `host: ${host}\r\n`
  const lengthLine = bodyBytes === undefined ? '' : `content-length: ${bodyBytes}\r\n`
  return `${method} ${path} HTTP/1.1\r\n${hostLine}connection: keep-alive\r\n${lines}${lengthLine}\r\n`
}
