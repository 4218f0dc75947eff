import { createServer, type Socket } from 'node:net'
import { parseArgs } from 'node:util'
import { ANSWER, lastEvents, STREAM, wordEvent } from './answers.ts'

/**
 * A provider that does as little as can be: it reads requests off the socket by their content-length and writes bytes
 * that were made once. How it behaves is said by `--does`; it prints where it listens, as JSON.
 */
const BEHAVIOURS = {
  /** A stream in even steps if one is asked for, else a whole answer. */
  answer: (socket: Socket, body: Buffer) => (body.includes(STREAMED) ? stream(socket) : socket.write(WHOLE)),
  /** As much as the reader takes, up to a bound. */
  flood: (socket: Socket) => flood(socket),
  /** A megabyte of sound where a voice is asked for, else what was heard. */
  media: (socket: Socket, body: Buffer) => socket.write(body.includes(VOICE) ? SOUND : HEARD),
  reset: (socket: Socket) => socket.resetAndDestroy(),
  refuse: (socket: Socket) => socket.write(REFUSAL),
} as const satisfies Record<string, (socket: Socket, body: Buffer) => unknown>

/** Frames of MPEG sound, 417 bytes each, with nothing in them. */
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
  let sent = 1
  socket.write(FIRST)
  const timer = setInterval(() => {
    if (socket.destroyed) return clearInterval(timer)
    sent += 1
    if (sent < STREAM.chunks) return socket.write(WORD)
    clearInterval(timer)
    socket.write(LAST)
  }, STREAM.paceMs)
}

function flood(socket: Socket): void {
  let left = FLOOD_BYTES
  const more = () => {
    while (left > 0 && !socket.destroyed) {
      left -= BURST.length
      if (!socket.write(BURST)) return socket.once('drain', more)
    }
    return socket.write(LAST)
  }
  socket.write(STREAM_HEAD)
  more()
}

/** Bodies are kept only to see whether they ask for a stream, so only their first bytes are. */
const KEPT = 4_096

function serve(socket: Socket, respond: (socket: Socket, body: Buffer) => unknown): void {
  let head: Buffer = Buffer.alloc(0)
  let start: Buffer = Buffer.alloc(0)
  let left = -1
  socket.setNoDelay(true)
  socket.on('error', () => socket.destroy())
  socket.on('data', (data: Buffer) => {
    let rest = data
    if (left < 0) {
      head = head.length === 0 ? data : Buffer.concat([head, data])
      const end = head.indexOf(HEAD_END)
      if (end < 0) return
      left = Number(/\r\ncontent-length: *(\d+)/i.exec(head.toString('latin1', 0, end))?.[1] ?? 0)
      rest = head.subarray(end + HEAD_END.length)
      start = rest.subarray(0, KEPT)
    } else if (start.length < KEPT) start = Buffer.concat([start, rest.subarray(0, KEPT - start.length)])
    left -= rest.length
    if (left > 0) return
    head = Buffer.alloc(0)
    left = -1
    respond(socket, start)
  })
}

const { values } = parseArgs({
  options: { does: { type: 'string', default: 'answer' }, ports: { type: 'string', default: '1' } },
})
const respond = BEHAVIOURS[values.does as keyof typeof BEHAVIOURS]
if (!respond) throw new Error(`--does must be one of ${Object.keys(BEHAVIOURS).join(', ')}`)

const urls = await Promise.all(
  Array.from(
    { length: Number(values.ports) },
    () =>
      new Promise<string>((resolve, reject) => {
        const server = createServer(socket => serve(socket, respond))
        server.once('error', reject)
        server.listen({ port: 0, host: '127.0.0.1', backlog: 2_048 }, () => {
          const address = server.address()
          resolve(`http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`)
        })
      }),
  ),
)
console.log(JSON.stringify(urls))
