import { flatText } from '../flat-text.ts'
import { createHeaderParser, type HeaderLines, hasAt, keepsOpen } from '../header-lines.ts'

/** A longer head, or one with more lines, is one of those that llhttp reads. */
const MAX_BYTES = 4 * 1024
const MAX_LINES = 100
const HEAD_END = Buffer.from('\r\n\r\n')
const STATUS_LINE = /^HTTP\/1\.1 ([2-9][0-9]{2})(?: [\x20-\x7e]*)?\r\n/
/** Responses with these statuses have no content, whatever their headers say. */
const WITHOUT_CONTENT: ReadonlySet<number> = new Set([204, 304])

/** A head in the spelling of most servers. */
export type PlainHead = {
  readonly status: number
  readonly lines: HeaderLines
  readonly keepsAlive: boolean
  readonly bytes: number
}

const parseHeaderLines = createHeaderParser()

/** The last status line that was read. Most responses have the same one. */
let lastLine = { text: 'HTTP/1.1 200 OK\r\n', status: 200 }

function readStatusLine(text: string): boolean {
  const line = STATUS_LINE.exec(text)
  if (line === null) return false
  const status = Number(line[1])
  if (WITHOUT_CONTENT.has(status)) return false
  // A copy: a slice would keep the whole head in memory.
  lastLine = { text: flatText(line[0]), status }
  return true
}

/**
 * Reads the head of a final response that has content, in HTTP/1.1, if it is in the first `length` bytes as a whole and in a narrow
 * grammar: line ends are CR LF, lines are not folded and have no tab, and `connection` is absent, `keep-alive` or `close`. There is at
 * most one `content-length` of digits or one `transfer-encoding: chunked`. Undefined for every other head, well-formed or not: llhttp reads or
 * refuses it. It takes half the time of llhttp, which reports every name and value to JavaScript.
 */
export function readPlainHead(bytes: Buffer, length: number): PlainHead | undefined {
  const end = bytes.indexOf(HEAD_END, 0, Math.min(length, MAX_BYTES))
  if (end === -1) return undefined
  const size = end + HEAD_END.length
  const text = bytes.toString('latin1', 0, size)
  // llhttp takes `5\t` and `chunked\t` for other values than `5` and `chunked`.
  if (text.includes('\t')) return undefined
  if (!hasAt(text, 0, lastLine.text) && !readStatusLine(text)) return undefined
  const line = lastLine
  const lines = parseHeaderLines(text, line.text.length, MAX_LINES)
  if (typeof lines === 'string' || lines.hasOtherMeaning) return undefined
  const keepsAlive = keepsOpen(lines.headers.connection)
  if (keepsAlive === undefined) return undefined
  return { status: line.status, lines, keepsAlive, bytes: size }
}
