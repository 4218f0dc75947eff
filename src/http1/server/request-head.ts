import type { IncomingHttpHeaders } from 'node:http'
import { flatText } from '../flat-text.ts'
import { parseHeaderLines } from '../header-lines.ts'

/** The start of every head that can be in the narrow grammar. */
const START = 'POST /'
/** A fragment is no part of a request target, and no client sends one. */
const REQUEST_LINE = /^POST (\/[\x21\x22\x24-\x7e]*) HTTP\/1\.1\r\n/
const CONNECTION = /^(?:keep-alive|close)$/i
/** Lines, the last of which may be incomplete. */
const PARTIAL_LINES = /^(?:[\t\x20-\x7e\x80-\xff]|\r\n)*\r?$/
const CR = 0x0d

/** With these headers the request means more than a body of known length. node:http drops the last one. */
const OTHER_GRAMMAR = [
  'transfer-encoding',
  'expect',
  'upgrade',
  'proxy-connection',
  'trailer',
  'te',
  '__proto__',
] as const

export type RequestHead = {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly contentLength: number
  readonly keepsAlive: boolean
}

/** The last valid request line. Most requests have the same one. */
let lastLine = { text: `${START} HTTP/1.1\r\n`, url: '/' }

function readRequestLine(text: string): boolean {
  const line = REQUEST_LINE.exec(text)
  if (line === null) return false
  // Copies: a slice would keep the whole head in memory.
  lastLine = { text: flatText(line[0]), url: flatText(line[1] as string) }
  return true
}

/**
 * Parses a complete head in a narrow grammar: POST in HTTP/1.1, one Host, one Content-Length, and no header that changes the
 * framing or the connection. Undefined for every other head, well-formed or not: node:http serves or refuses it. `text` is
 * latin1 and ends with the empty line.
 */
export function parseRequestHead(text: string, maxHeaders: number): RequestHead | undefined {
  if (!text.startsWith(lastLine.text) && !readRequestLine(text)) return undefined
  const line = lastLine
  const lines = parseHeaderLines(text, line.text.length, maxHeaders)
  if (typeof lines === 'string' || lines.contentLength === undefined || lines.hostLines !== 1)
    return undefined
  const { headers, contentLength } = lines
  for (const name of OTHER_GRAMMAR) if (headers[name] !== undefined) return undefined
  const { connection } = headers
  if (connection !== undefined && !CONNECTION.test(connection)) return undefined
  return {
    url: line.url,
    headers,
    contentLength,
    keepsAlive: connection === undefined || connection.length !== 'close'.length,
  }
}

/** Whether an incomplete head may still become one in the narrow grammar. The first `checked` bytes were checked before. */
export function mayBecomeHead(bytes: Buffer, checked: number): boolean {
  const start = bytes.toString('latin1', 0, START.length)
  const from = bytes[checked - 1] === CR ? checked - 1 : checked
  return START.startsWith(start) && PARTIAL_LINES.test(bytes.toString('latin1', from))
}
