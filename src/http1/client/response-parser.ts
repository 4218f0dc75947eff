import type { IncomingHttpHeaders } from 'node:http'
import { addHeaderLine, createHeaderLines, type HeaderLines } from '../header-lines.ts'
import { type Llhttp, loadLlhttp, NO_BODY, nameOf, OK, PAUSED, RESPONSE, USER } from './llhttp.ts'
import { type PlainHead, readPlainHead } from './plain-head.ts'
import { addContent, type ContentState, readContent } from './response-content.ts'

const MAX_HEAD_BYTES = 16 * 1024
const MAX_HEADER_LINES = 256
/** Informational (1xx) responses before the final one. */
const MAX_INFORMATIONAL = 16
/**
 * Bytes that are not content: heads, sizes and extensions of chunks, trailers, empty lines. Chunks of one byte need five
 * for each.
 */
const MAX_OVERHEAD_BYTES = 32 * 1024
const MAX_OVERHEAD_PER_CONTENT = 16

/** Puts llhttp into the middle of a chunked response, after a head that was read without it. */
const CHUNKED_HEAD = Buffer.from('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')

/** llhttp reads a head in pieces of this size, so that it does not get much of the content that follows. */
const HEAD_PIECE_BYTES = 4 * 1024

const KEEP_ALIVE_TIMEOUT = /(?:^|[,;\s])timeout\s*=\s*"?(\d{1,6})/i

/** The response to one request, as far as it has been read. */
export type ResponseReading = {
  /** 0 until the head of the final response is complete. */
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** The content within the bytes of the last `read`: one piece, however many chunks it came in. */
  readonly contentStart: number
  readonly contentEnd: number
  readonly isComplete: boolean
  /** Whether the connection may be used for another request after this response. */
  readonly isPersistent: boolean
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

/** Reads the responses of one connection, which arrive in any pieces. */
export type ResponseParser = {
  /** Begins the response to the next request. */
  begin(method: string): void
  /** The response to the current request, or the last one. */
  reading(): ResponseReading
  /**
   * Reads the first `length` bytes, and moves the content in them together. Returns the fault of a malformed response;
   * the content before the fault is valid.
   */
  read(bytes: Buffer, length: number): string | undefined
  /** The connection has ended: completes a response that ends with it. */
  finish(): void
  /** How long the server keeps an idle connection open; undefined: it does not say. */
  keepAliveMs(): number | undefined
  close(): void
}

/** What has read the head of a response: `none` until its first bytes arrive. */
type HeadReader = 'none' | 'plain' | 'llhttp'

/** A response between the callbacks of llhttp. */
type State = Mutable<ResponseReading> &
  ContentState & {
    method: string
    headReader: HeadReader
    /** Of the head that llhttp reads. */
    lines: HeaderLines | undefined
    lineCount: number
    headBytes: number
    overheadBytes: number
    contentBytes: number
    informational: number
    field: string
    value: string
    hasValue: boolean
  }

const NO_HEADERS: IncomingHttpHeaders = Object.freeze(createHeaderLines().headers)

function createState(method: string): State {
  return {
    status: 0,
    headers: NO_HEADERS,
    contentStart: 0,
    contentEnd: 0,
    isComplete: false,
    isPersistent: false,
    method,
    headReader: 'none',
    lines: undefined,
    lineCount: 0,
    headBytes: 0,
    overheadBytes: 0,
    contentBytes: 0,
    informational: 0,
    field: '',
    value: '',
    hasValue: false,
    fault: undefined,
    framing: undefined,
    missingBytes: 0,
  }
}

/** The lines of the head that llhttp reads. */
function linesOf(state: State): HeaderLines {
  state.lines ??= createHeaderLines()
  return state.lines
}

function refuse(state: State, fault: string): typeof USER {
  state.fault = fault
  return USER
}

/** Ends a header line, whose name and value may have come in several pieces. Trailers are checked and discarded. */
function endLine(state: State): number {
  const { field, value } = state
  state.field = ''
  state.value = ''
  state.hasValue = false
  if (++state.lineCount > MAX_HEADER_LINES) return refuse(state, 'too many headers')
  if (state.status !== 0) return OK
  return addHeaderLine(linesOf(state), field, value) ? OK : refuse(state, 'ambiguous length')
}

/** A response to HEAD, a 204 and a 304 have no body, whatever their headers say (RFC 9112, 6.3). */
const hasNoBody = (status: number, method: string) =>
  status < 200 || status === 204 || status === 304 || method === 'HEAD'

type HeadEnd = {
  readonly status: number
  readonly isPersistent: boolean
  readonly endsWithConnection: boolean
}

function endHead(state: State, { status, isPersistent, endsWithConnection }: HeadEnd): number {
  if (state.hasValue && endLine(state) !== OK) return USER
  const { method } = state
  const lines = linesOf(state)
  const isBodiless = hasNoBody(status, method)
  if (status < 200) return NO_BODY
  const hasLength = lines.isChunked || lines.contentLength !== undefined
  // llhttp does not recognize every spelling that another reader would, such as a tab after `chunked`.
  if (!isBodiless && hasLength === endsWithConnection) return refuse(state, 'ambiguous length')
  state.status = status
  state.headers = lines.headers
  // A server that announces a body where there can be none may also send it.
  const isContradictory =
    isBodiless && method !== 'HEAD' && (lines.isChunked || (lines.contentLength ?? 0) > 0)
  state.isPersistent = isPersistent && !isContradictory
  if (isBodiless) return NO_BODY
  state.missingBytes = lines.contentLength ?? 0
  state.framing = lines.isChunked ? 'chunked' : endsWithConnection ? 'connection' : 'length'
  return PAUSED
}

function endMessage(state: State): number {
  if (state.hasValue && endLine(state) !== OK) return USER
  if (state.status !== 0) {
    state.isComplete = true
    return PAUSED
  }
  // An informational response: the final one follows.
  state.informational++
  state.lines = undefined
  return state.informational > MAX_INFORMATIONAL ? refuse(state, 'too many informational responses') : OK
}

/** Takes over a head that was read without llhttp. Returns where the content begins. */
function beginContent(state: State, { status, lines, keepsAlive, bytes }: PlainHead): number {
  const { contentLength, isChunked } = lines
  state.headReader = 'plain'
  state.status = status
  state.headers = lines.headers
  state.lineCount = lines.count
  state.headBytes = bytes
  state.framing = isChunked ? 'chunked' : contentLength === undefined ? 'connection' : 'length'
  state.missingBytes = contentLength ?? 0
  state.isPersistent = keepsAlive && state.framing !== 'connection'
  return bytes
}

/**
 * Parsers of responses. llhttp has the grammar; the framing of bodies is limited further by the rules of
 * `header-lines.ts`, and every part of a response has a bound. All parsers share one copy of llhttp and the region of its
 * memory into which bytes are copied, so a read is over before the next one begins.
 */
export function createResponseParsers(regionBytes: number) {
  let current = createState('')
  let source: Buffer = Buffer.alloc(0)
  /** The piece of the source that llhttp reads. */
  let pieceStart = 0
  let pieceEnd = 0
  /** The text of a piece of a head, made when the first header in it is read. */
  let text = ''
  let region = 0
  let regionView = new Uint8Array(0)

  function textAt(at: number, length: number): string {
    const start = at - region
    // Trailers may follow much content, and slices of a text keep all of it in memory.
    if (pieceEnd - pieceStart > HEAD_PIECE_BYTES) return source.toString('latin1', start, start + length)
    if (text === '') text = source.toString('latin1', pieceStart, pieceEnd)
    return text.slice(start - pieceStart, start - pieceStart + length)
  }
  const countHead = (length: number): number => {
    current.headBytes += length
    return current.headBytes > MAX_HEAD_BYTES ? refuse(current, 'headers are too large') : OK
  }
  const llhttp: Llhttp = loadLlhttp({
    wasm_on_message_begin: () => OK,
    wasm_on_url: () => OK,
    wasm_on_status: (_parser, _at, length) => countHead(length),
    wasm_on_header_field(_parser, at, length) {
      if (current.hasValue && endLine(current) !== OK) return USER
      current.field += textAt(at, length)
      return countHead(length)
    },
    wasm_on_header_value(_parser, at, length) {
      current.hasValue = true
      current.value += textAt(at, length)
      return countHead(length)
    },
    wasm_on_headers_complete(parser, status, _isUpgrade, isPersistent) {
      if (llhttp.llhttp_get_http_major(parser) !== 1) return refuse(current, 'HPE_INVALID_VERSION')
      if (status === 101) return refuse(current, 'switches protocols')
      return endHead(current, {
        status,
        isPersistent: isPersistent === 1,
        endsWithConnection: llhttp.llhttp_message_needs_eof(parser) === 1,
      })
    },
    wasm_on_body(_parser, at, length) {
      addContent(current, source, at - region, length)
      return OK
    },
    wasm_on_message_complete: () => endMessage(current),
  })
  region = llhttp.malloc(regionBytes)

  function viewRegion(): Uint8Array {
    // The memory grows with the number of parsers; then it is another object.
    if (regionView.buffer !== llhttp.memory.buffer)
      regionView = new Uint8Array(llhttp.memory.buffer, region, regionBytes)
    return regionView
  }

  return function open(): ResponseParser {
    const parser = llhttp.llhttp_alloc(RESPONSE)
    let state = createState('')

    /** llhttp reads from `start` on. Returns where it stopped, or -1 with a fault. */
    function execute(bytes: Buffer, start: number, end: number): number {
      current = state
      source = bytes
      pieceStart = start
      pieceEnd = end
      viewRegion().set(bytes.subarray(start, end), start)
      const code = llhttp.llhttp_execute(parser, region + start, end - start)
      text = ''
      if (code === OK) return end
      if (code === PAUSED) return llhttp.llhttp_get_error_pos(parser) - region
      state.fault ??= nameOf(llhttp, code)
      return -1
    }

    /** Reads on in an incomplete head. Returns where it stopped, as `execute` does. */
    function readHead(bytes: Buffer, length: number): number {
      if (state.headReader === 'none') {
        const head = state.method === 'HEAD' ? undefined : readPlainHead(bytes, length)
        if (head !== undefined) return beginContent(state, head)
        state.headReader = 'llhttp'
        llhttp.llhttp_reset(parser)
      }
      let at = 0
      while (state.framing === undefined && !state.isComplete && at >= 0 && at < length)
        at = execute(bytes, at, Math.min(at + HEAD_PIECE_BYTES, length))
      return at
    }

    /** Leaves the rest of a chunked response to llhttp, from the beginning of a chunk on. */
    function returnToLlhttp(): void {
      if (state.headReader === 'plain') {
        const running = state
        state = createState(running.method)
        llhttp.llhttp_reset(parser)
        execute(CHUNKED_HEAD, 0, CHUNKED_HEAD.length)
        state = running
      }
      state.framing = 'llhttp'
      llhttp.llhttp_resume(parser)
    }

    /** Reads the head, and the content without llhttp as far as its framing is plain. Returns where the response ends. */
    function readOn(bytes: Buffer, length: number): number {
      let at = state.framing === undefined ? readHead(bytes, length) : 0
      if (state.framing !== undefined && state.framing !== 'llhttp')
        at = readContent(state, bytes, at, length)
      if (state.framing === 'chunked' && at < length && !state.isComplete) returnToLlhttp()
      return state.framing === 'llhttp' ? execute(bytes, at, length) : at
    }

    function read(bytes: Buffer, length: number): string | undefined {
      state.contentStart = 0
      state.contentEnd = 0
      const end = readOn(bytes, length)
      const contentBytes = state.contentEnd - state.contentStart
      state.contentBytes += contentBytes
      state.overheadBytes += length - contentBytes
      if (state.isComplete) {
        // Bytes that follow belong to no request, so the connection is not used again.
        if (end < length) state.isPersistent = false
        return undefined
      }
      if (state.fault !== undefined) return state.fault
      const isBloated =
        state.overheadBytes > MAX_OVERHEAD_BYTES + MAX_OVERHEAD_PER_CONTENT * state.contentBytes
      return isBloated ? 'more framing than content' : undefined
    }

    return {
      begin(method) {
        state = createState(method)
      },
      reading: () => state,
      read,
      finish() {
        if (state.framing === 'connection') state.isComplete = true
        state.isPersistent = false
      },
      keepAliveMs() {
        const value = state.headers['keep-alive']
        const seconds = typeof value === 'string' ? KEEP_ALIVE_TIMEOUT.exec(value)?.[1] : undefined
        return seconds === undefined ? undefined : Number(seconds) * 1000
      },
      close: () => llhttp.llhttp_free(parser),
    }
  }
}

export type ResponseParsers = ReturnType<typeof createResponseParsers>
