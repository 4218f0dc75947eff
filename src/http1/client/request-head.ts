import { flatText } from '../flat-text.ts'
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

/** The first lines of a request, which are the same for most requests to an origin. */
export type RequestStart = {
  readonly method: string
  readonly path: string
  readonly hasHost: boolean
  readonly text: string
}

/** What requests to one origin have in common. */
export type RequestTarget = {
  /** The value of the `host` header. */
  readonly host: string
  /** Of the last request. */
  start: RequestStart | undefined
}

/** The request line and the lines that the client sets itself. `hasHost`: the caller sets `host`. */
function startOf(target: RequestTarget, { method, path }: ClientRequestHead, hasHost: boolean): string {
  const { start } = target
  if (start?.path === path && start.method === method && start.hasHost === hasHost) return start.text
  if (!PATH.test(path)) throw new Http1Error('MALFORMED_REQUEST', 'the path has invalid characters')
  const hostLine = hasHost ? '' : `host: ${target.host}\r\n`
  const text = flatText(`${method} ${path} HTTP/1.1\r\n${hostLine}connection: keep-alive\r\n`)
  target.start = { method, path, hasHost, text }
  return text
}

/** The head of a request as latin1 text. `bodyBytes`: undefined for a request without a body. */
export function writeRequestHead(
  request: ClientRequestHead,
  target: RequestTarget,
  bodyBytes: number | undefined,
): string {
  const { headers } = request
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
  const end = bodyBytes === undefined ? '\r\n' : `content-length: ${bodyBytes}\r\n\r\n`
  return startOf(target, request, hasHost) + lines + end
}
