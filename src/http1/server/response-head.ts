import { flatText } from '../flat-text.ts'
import { MAX_WRITTEN_NAMES, type WrittenHeader, writtenLine } from '../written-header.ts'

/** Lower case only, so that no header that concerns the framing goes unnoticed. */
const NAME = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
/** The headers that the server writes itself. */
const OWN: ReadonlySet<string> = new Set(['transfer-encoding', 'date', 'keep-alive'])
const LENGTH = /^[0-9]{1,15}$/

const responseHeaders = new Map<string, WrittenHeader>()

/** Undefined if it is not the name of a header that the caller may set. */
function headerOf(name: string): WrittenHeader | undefined {
  const cached = responseHeaders.get(name)
  if (cached !== undefined) return cached
  if (!NAME.test(name) || OWN.has(name)) return undefined
  if (responseHeaders.size >= MAX_WRITTEN_NAMES) responseHeaders.clear()
  const header: WrittenHeader = { value: undefined, line: undefined }
  responseHeaders.set(name, header)
  return header
}

/** Statuses whose responses have no body (RFC 9110, 15.3.5 and 15.4.5). */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 304])

type HeadOptions = {
  readonly status: number
  readonly reason: string
  readonly headers: Readonly<Record<string, string>>
  /** The line of the `Date` header. */
  readonly dateLine: string
  readonly keepsAlive: boolean
  readonly keepAliveS: number
}

/** How the body is framed: `chunked`, its length, or `none`. */
export type BodyFraming = 'chunked' | 'none' | number

export type WrittenHead = {
  readonly text: string
  readonly framing: BodyFraming
  readonly keepsAlive: boolean
}

/** The first and the last lines of most heads. They are the same in all responses of a second. */
let lastStatus = { status: 0, reason: '', line: '' }
let lastEnd = { dateLine: '', keepAliveS: 0, lines: '' }

function statusLine(status: number, reason: string): string {
  if (lastStatus.status !== status || lastStatus.reason !== reason)
    lastStatus = { status, reason, line: flatText(`HTTP/1.1 ${status} ${reason}\r\n`) }
  return lastStatus.line
}

function keepAliveLines(dateLine: string, keepAliveS: number): string {
  if (lastEnd.dateLine !== dateLine || lastEnd.keepAliveS !== keepAliveS) {
    const lines = `${dateLine}Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveS}\r\n`
    lastEnd = { dateLine, keepAliveS, lines: flatText(lines) }
  }
  return lastEnd.lines
}

/** Writes a head with the same lines as node:http. Invalid names and values throw: they could split the response. */
export function writeResponseHead(options: HeadOptions): WrittenHead {
  const { status, reason, headers, dateLine, keepAliveS } = options
  let { keepsAlive } = options
  let framing: BodyFraming = WITHOUT_BODY.has(status) ? 'none' : 'chunked'
  let text = statusLine(status, reason)
  let hasConnection = false
  for (const name in headers) {
    const value = headers[name] as string
    const header = headerOf(name)
    const line = header && writtenLine(header, name, value)
    if (line === undefined) throw new Error(`invalid response header ${name}`)
    if (name === 'content-length') {
      if (!LENGTH.test(value)) throw new Error('invalid content-length')
      if (framing === 'chunked') framing = Number(value)
    } else if (name === 'connection') {
      hasConnection = true
      keepsAlive &&= value !== 'close'
    }
    text += line
  }
  if (hasConnection) text += dateLine
  else text += keepsAlive ? keepAliveLines(dateLine, keepAliveS) : `${dateLine}Connection: close\r\n`
  text += framing === 'chunked' ? 'Transfer-Encoding: chunked\r\n\r\n' : '\r\n'
  return { text, framing, keepsAlive }
}

/** The line of the `Date` header, formatted once a second. */
export function createDateLine(nowMs: () => number): () => string {
  let second = Number.NaN
  let line = ''
  return () => {
    const now = Math.floor(nowMs() / 1000)
    if (now !== second) {
      second = now
      line = `Date: ${new Date(now * 1000).toUTCString()}\r\n`
    }
    return line
  }
}
