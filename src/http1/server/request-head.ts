import type { IncomingHttpHeaders } from 'node:http'
import { flatText } from '../flat-text.ts'
import { createHeaderParser, hasAt, keepsOpen } from '../header-lines.ts'

/** The start of every head that can be in the narrow grammar. */
const START = 'POST /'
/** A fragment is no part of a request target, and no client sends one. */
const REQUEST_LINE = /^POST (\/[\x21\x22\x24-\x7e]*) HTTP\/1\.1\r\n/
/** Lines, the last of which may be incomplete. */
const PARTIAL_LINES = /^(?:[\t\x20-\x7e\x80-\xff]|\r\n)*\r?$/
const CR = 0x0d

export type RequestHead = {
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly contentLength: number
  readonly keepsAlive: boolean
}

const parseHeaderLines = createHeaderParser()

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
  if (!hasAt(text, 0, lastLine.text) && !readRequestLine(text)) return undefined
  const line = lastLine
  const lines = parseHeaderLines(text, line.text.length, maxHeaders)
  // Requests with `transfer-encoding` have no length.
  if (typeof lines === 'string' || lines.contentLength === undefined) return undefined
  if (lines.hostLines !== 1 || lines.hasOtherMeaning) return undefined
  const { headers, contentLength } = lines
  const keepsAlive = keepsOpen(headers.connection)
  return keepsAlive === undefined ? undefined : { url: line.url, headers, contentLength, keepsAlive }
}

/** Whether an incomplete head may still become one in the narrow grammar. The first `checked` bytes were checked before. */
export function mayBecomeHead(bytes: Buffer, checked: number): boolean {
  const start = bytes.toString('latin1', 0, START.length)
  const from = bytes[checked - 1] === CR ? checked - 1 : checked
  return START.startsWith(start) && PARTIAL_LINES.test(bytes.toString('latin1', from))
}
