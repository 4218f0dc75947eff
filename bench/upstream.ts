import { readFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { parseArgs } from 'node:util'
import { ANSWER, lastEvents, STREAM, wordEvent } from './answers.ts'

/**
 * A provider with minimal work: it reads requests by their content-length and writes prepared bytes. `--does` selects its
 * behaviour; `--cert` and `--key` are files for TLS. It prints its address as JSON.
 */
const BEHAVIOURS = {
  /** A stream at an even pace if one is requested, else a whole response. */
  answer: (socket: Socket, body: Buffer) => (body.includes(STREAMED) ? stream(socket) : socket.write(WHOLE)),
  /** As much as the client reads, up to a limit. */
  flood: (socket: Socket) => flood(socket),
  /** A megabyte of audio for a speech request, else a transcript. */
  media: (socket: Socket, body: Buffer) => socket.write(body.includes(VOICE) ? SOUND : HEARD),
  reset: (socket: Socket) => socket.resetAndDestroy(),
  refuse: (socket: Socket) => socket.write(REFUSAL),
} as const satisfies Record<string, (socket: Socket, body: Buffer) => unknown>

/** Silent MPEG audio frames of 417 bytes. */
function soundOf(bytes: number): Buffer {
  const frame = Buffer.alloc(417)
  frame.writeUInt32BE(0xfffb9064)
  return Buffer.alloc(bytes, frame)
}

const VOICE = '"voice"'
const SOUND_BYTES = 1_048_576
const STREAMED = '"stream":true'
const FLOOD_BYTES = 16 * 1_048_576
const HEAD_END = Buffer.from('\r\n\r\n')

const whole = (status: string, text: string) =>
  Buffer.from(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

const WHOLE = whole('200 OK', ANSWER)
const HEARD = whole('200 OK', '{"text":"Hello","usage":{"type":"duration","seconds":65}}')
const SOUND = Buffer.concat([
  Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: audio/mpeg\r\ncontent-length: ${SOUND_BYTES}\r\n\r\n`),
  soundOf(SOUND_BYTES),
])
const REFUSAL = whole('500 Internal Server Error', '{"error":{"message":"broken","type":"server_error"}}')
const STREAM_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n'
const WORD = Buffer.from(chunk(wordEvent(' word')))
const FIRST = Buffer.concat([Buffer.from(STREAM_HEAD), WORD])
const LAST = Buffer.from(`${chunk(lastEvents())}0\r\n\r\n`)
const BURST = Buffer.from(chunk(wordEvent(' word').repeat(200)))

function stream(socket: Socket): void {
  let chunks = 1
  socket.write(FIRST)
  const timer = setInterval(() => {
    if (socket.destroyed) return clearInterval(timer)
    chunks += 1
    if (chunks < STREAM.chunks) return socket.write(WORD)
    clearInterval(timer)
    socket.write(LAST)
  }, STREAM.paceMs)
}

function flood(socket: Socket): void {
  let remaining = FLOOD_BYTES
  const more = () => {
    while (remaining > 0 && !socket.destroyed) {
      remaining -= BURST.length
      if (!socket.write(BURST)) return socket.once('drain', more)
    }
    return socket.write(LAST)
  }
  socket.write(STREAM_HEAD)
  more()
}

/** Only the first bytes of a body are kept, to see whether it requests a stream. */
const KEPT = 4_096

function serve(socket: Socket, respond: (socket: Socket, body: Buffer) => unknown): void {
  let head: Buffer = Buffer.alloc(0)
  let start: Buffer = Buffer.alloc(0)
  let remaining = -1
  socket.setNoDelay(true)
  socket.on('error', () => socket.destroy())
  socket.on('data', (data: Buffer) => {
    let rest = data
    if (remaining < 0) {
      head = head.length === 0 ? data : Buffer.concat([head, data])
      const end = head.indexOf(HEAD_END)
      if (end < 0) return
      remaining = Number(/\r\ncontent-length: *(\d+)/i.exec(head.toString('latin1', 0, end))?.[1] ?? 0)
      rest = head.subarray(end + HEAD_END.length)
      start = rest.subarray(0, KEPT)
    } else if (start.length < KEPT) start = Buffer.concat([start, rest.subarray(0, KEPT - start.length)])
    remaining -= rest.length
    if (remaining > 0) return
    head = Buffer.alloc(0)
    remaining = -1
    respond(socket, start)
  })
}

const { values } = parseArgs({
  options: {
    does: { type: 'string', default: 'answer' },
    ports: { type: 'string', default: '1' },
    cert: { type: 'string' },
    key: { type: 'string' },
  },
})
const respond = BEHAVIOURS[values.does as keyof typeof BEHAVIOURS]
if (!respond) throw new Error(`--does must be one of ${Object.keys(BEHAVIOURS).join(', ')}`)

const { cert, key } = values
const protocol = cert === undefined ? 'http' : 'https'
function listener(onSocket: (socket: Socket) => void) {
  if (cert === undefined || key === undefined) return createServer(onSocket)
  return createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) }, onSocket)
}

const urls = await Promise.all(
  Array.from(
    { length: Number(values.ports) },
    () =>
      new Promise<string>((resolve, reject) => {
        const server = listener(socket => serve(socket, respond))
        server.once('error', reject)
        server.listen({ port: 0, host: '127.0.0.1', backlog: 2_048 }, () => {
          const address = server.address()
          resolve(`${protocol}://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`)
        })
      }),
  ),
)
console.log(JSON.stringify(urls))
