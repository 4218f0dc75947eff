import { gzipSync } from 'node:zlib'
import type { StreamFrame } from '../formats/format.ts'
import type { Script } from '../script.ts'
import type { ApplyFault } from './fault.ts'
import { bodyOf, frameOf, instead, withBody, withHeaders } from './frames.ts'

// Responses with correct content and wrong or unusual HTTP.

const BIG_HEADER = 100_000
/** The difference of a wrong content length. */
const LENGTH_ERROR = 20
/** A stream has no content length, so it gets one that it soon exceeds, or never reaches. */
const STREAM_LENGTHS = { short: 100, long: 1_000_000_000 } as const
const BOMB_MEMBER = 10 * 1024 * 1024
const BOMB_MEMBERS = 1_000

/** Compressed, regardless of `accept-encoding`. Each frame of a stream is its own gzip member, so that it is sent at once. */
export const gzip: ApplyFault = script => {
  const zipped = script.isStream
    ? { ...script, frames: zip(script.frames) }
    : withBody(script, gzipSync(bodyOf(script)))
  return { ...zipped, head: withHeaders(zipped.head, { 'content-encoding': 'gzip' }) }
}

export const gzipFalse: ApplyFault = script => ({
  ...script,
  head: withHeaders(script.head, { 'content-encoding': 'gzip' }),
})

/** A compression bomb: ten megabytes that become ten gigabytes. */
export const gzipBomb: ApplyFault = script => {
  const member = gzipSync(Buffer.alloc(BOMB_MEMBER), { level: 9 })
  function* frames(): Generator<StreamFrame> {
    for (let count = 0; count < BOMB_MEMBERS; count += 1) yield frameOf(member)
  }
  const bombScript = instead(script, { status: 200, type: 'application/json', body: '' })
  const size = { 'content-encoding': 'gzip', 'content-length': member.length * BOMB_MEMBERS }
  return { ...bombScript, head: withHeaders(bombScript.head, size), frames: frames() }
}

/** More bytes than announced: the surplus stays in the connection, in place of the next response. */
export const lengthShort: ApplyFault = script => {
  const length = script.isStream ? STREAM_LENGTHS.short : bodyOf(script).length - LENGTH_ERROR
  return { ...script, head: withHeaders(script.head, { 'content-length': length }), isFinished: false }
}

/** Fewer bytes than announced, then the connection is closed. */
export const lengthLong: ApplyFault = script => {
  const length = script.isStream ? STREAM_LENGTHS.long : bodyOf(script).length + LENGTH_ERROR
  const head = withHeaders(script.head, { 'content-length': length })
  return { ...script, head, ending: 'cut', isFinished: false }
}

export const lengthNegative: ApplyFault = script => ({
  ...raw(script, { omit: ['content-length'], lines: ['content-length: -5'] }),
  isFinished: false,
})

export const lengthTwice: ApplyFault = script => ({
  ...raw(script, { omit: ['content-length'], lines: ['content-length: 10', 'content-length: 20'] }),
  isFinished: false,
})

/** A content length and chunks at once: two possible ends, as in request smuggling. */
export const lengthChunked: ApplyFault = script => ({
  ...raw(script, { omit: ['content-length'], lines: ['content-length: 10', 'transfer-encoding: chunked'] }),
  frames: chunked(script.frames, []),
  isFinished: false,
})

/** A header value with line breaks, which injects further headers. */
export const crlfHeader: ApplyFault = script =>
  raw(script, {
    lines: [
      'server: simulator',
      'x-sim-note: harmless\r\nset-cookie: sim-session=injected; Path=/\r\nx-sim-injected: yes',
    ],
  })

export const bigHeader: ApplyFault = script => ({
  ...script,
  head: withHeaders(script.head, { 'x-sim-big': 'x'.repeat(BIG_HEADER) }),
})

/** Interim responses (1xx) before the final one. */
export const interim: ApplyFault = script =>
  raw(script, {
    before:
      'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n',
  })

/** A protocol switch that was not requested. */
export const upgrade: ApplyFault = script => ({
  ...script,
  head: { raw: 'HTTP/1.1 101 Switching Protocols\r\nupgrade: simulated\r\nconnection: upgrade\r\n\r\n' },
  isFinished: false,
})

/** No length and no chunks: only the end of the connection ends the response. */
export const http10: ApplyFault = script => raw(script, { version: 'HTTP/1.0', omit: ['content-length'] })

export const trailers: ApplyFault = script => ({
  ...raw(script, {
    omit: ['content-length'],
    lines: ['transfer-encoding: chunked', 'trailer: x-sim-trailer'],
  }),
  frames: chunked(script.frames, ['x-sim-trailer: late']),
})

type RawHead = {
  readonly version?: string
  /** Sent before the status line. */
  readonly before?: string
  /** Headers of the correct response that are omitted. */
  readonly omit?: readonly string[]
  readonly lines?: readonly string[]
}

/** A raw head, because Node.js writes no invalid one. The connection ends with the response. */
function raw(script: Script, { version = 'HTTP/1.1', before = '', omit = [], lines = [] }: RawHead): Script {
  const { head } = script
  if (head === undefined || 'raw' in head) return script
  const remaining = Object.entries(head.headers).filter(([name]) => !omit.includes(name))
  const all = [
    `${version} ${head.status} ${head.status === 200 ? 'OK' : 'Error'}`,
    ...remaining.map(([name, value]) => `${name}: ${value}`),
    ...lines,
    'connection: close',
  ]
  return { ...script, head: { raw: `${before}${all.join('\r\n')}\r\n\r\n` } }
}

function* zip(frames: Iterable<StreamFrame>): Generator<StreamFrame> {
  for (const { data, tokens } of frames) yield { data: gzipSync(data), tokens }
}

function* chunked(frames: Iterable<StreamFrame>, trailer: readonly string[]): Generator<StreamFrame> {
  for (const { data, tokens } of frames) {
    const bytes = Buffer.from(data)
    if (bytes.length === 0) continue
    yield { data: Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, CRLF]), tokens }
  }
  yield frameOf(['0', ...trailer, '', ''].join('\r\n'))
}

const CRLF = Buffer.from('\r\n')
