import type { Socket } from 'node:net'
import {
  type Listeners,
  NO_LISTENERS,
  type ResponseEvent,
  withListener,
  withoutListener,
} from './listeners.ts'
import type { Http1Request } from './request.ts'
import { type BodyFraming, type WrittenHead, writeResponseHead } from './response-head.ts'

/** Up to this size a copy into one string costs less than a second write. */
const SMALL_BYTES = 16_384
/** Above this size, the last bytes of a response are not copied. */
const LARGE_BYTES = 65_536
const LAST_CHUNK = '0\r\n\r\n'

/** What a response needs of its connection. */
export type ResponseConnection = {
  /** Of the `Keep-Alive` header. */
  readonly keepAliveS: number
  reasonOf(status: number): string
  dateLine(): string
  /** The response is written, and its last byte was handed to the operating system. */
  onResponseEnd(keepsAlive: boolean): void
  /** Whether the rest of the request's body is too large to be read before the next request. */
  leavesBody(): boolean
}

/** Learns that the client disconnected before the response was complete. */
export type DisconnectWatcher = { onDisconnect(): void }

/**
 * Memory for a large write. All responses use it one after another: the operating system has usually taken the bytes when a write
 * returns. If it has not, they belong to that write, and the next one has new memory.
 */
let joined = Buffer.alloc(0)
/** 256 KiB, with a head or the framing of a chunk. */
const JOINED_BYTES = 257 * 1024
const MIN_JOINED_BYTES = 64 * 1024

/** Whether the socket is likely to pass bytes on at once. TLS never does. */
const isPrompt = (socket: Socket) => socket.writableLength === 0 && !('encrypted' in socket)

/** Memory for a write. A client that stalls would keep all of the shared memory, so it is not used for small chunks. */
function memoryFor(socket: Socket, length: number): Buffer {
  if (length < MIN_JOINED_BYTES || length > JOINED_BYTES || !isPrompt(socket))
    return Buffer.allocUnsafe(length)
  if (joined.length === 0) joined = Buffer.allocUnsafeSlow(JOINED_BYTES)
  return joined.subarray(0, length)
}

/** Joins parts into one buffer. The caller may reuse the memory of its bytes as soon as a write returns. */
function joinParts(socket: Socket, before: string, bytes: Buffer, after: string): Buffer {
  const whole = memoryFor(socket, before.length + bytes.length + after.length)
  whole.write(before, 0, 'latin1')
  bytes.copy(whole, before.length)
  whole.write(after, before.length + bytes.length, 'latin1')
  return whole
}

/**
 * The response to a request in the narrow grammar. Every write is one write of the socket, with the framing and, the first
 * time, the head. It has the events of an EventEmitter, but constructing one takes longer than all else here.
 */
export class Http1Response {
  // First the fields that every chunk uses: with many streams at once, each cache line of an object costs 0.2 µs.
  readonly socket: Socket
  #head = ''
  #framing: BodyFraming = 'chunked'
  #bodyBytes = 0
  #hasEnded = false
  headersSent = false
  /** The response is complete, or its connection is closed. */
  destroyed = false
  /** Of node:http, which frames chunks only while it is set. This response frames all chunks itself. */
  chunkedEncoding = false

  readonly req: Http1Request
  statusCode = 200
  writableFinished = false
  shouldKeepAlive: boolean
  readonly writableCorked = 0
  readonly copiesWrites = true
  readonly #connection: ResponseConnection
  #needsDrain = false
  #listeners = NO_LISTENERS
  #isCloseDue = false
  #watcher: DisconnectWatcher | undefined

  constructor(request: Http1Request, connection: ResponseConnection, keepsAlive: boolean) {
    this.socket = request.socket
    this.req = request
    this.#connection = connection
    this.shouldKeepAlive = keepsAlive
  }

  /** `close` follows the end of the response, or of its connection, once. */
  on(event: ResponseEvent, listener: () => void): this {
    return this.#listen({ event, listener, isOnce: false })
  }

  once(event: ResponseEvent, listener: () => void): this {
    return this.#listen({ event, listener, isOnce: true })
  }

  off(event: ResponseEvent, listener: () => void): this {
    this.#listeners = withoutListener(this.#listeners, event, listener)
    return this
  }

  #listen(registration: Listeners[number]): this {
    this.#listeners = withListener(this.#listeners, registration)
    if (this.writableFinished && registration.event === 'close') this.#closeSoon()
    return this
  }

  #emit(event: ResponseEvent): void {
    for (const each of this.#listeners) {
      if (each.event !== event) continue
      if (each.isOnce) this.off(event, each.listener)
      each.listener()
    }
  }

  /** One watcher at a time. Adding a listener to the socket and removing it takes ten times as long. */
  watchClient(watcher: DisconnectWatcher | undefined): void {
    this.#watcher = watcher
  }

  get writableLength(): number {
    return this.#head.length + this.socket.writableLength
  }

  writeHead(status: number, headers: Readonly<Record<string, string>> = {}): this {
    if (this.headersSent) throw new Error('the head of the response is already written')
    const connection = this.#connection
    const head: WrittenHead = writeResponseHead({
      status,
      reason: connection.reasonOf(status),
      headers,
      dateLine: connection.dateLine(),
      keepsAlive: this.shouldKeepAlive && !connection.leavesBody(),
      keepAliveS: connection.keepAliveS,
    })
    this.statusCode = status
    this.headersSent = true
    this.shouldKeepAlive = head.keepsAlive
    this.#head = head.text
    this.#framing = head.framing
    return this
  }

  flushHeaders(): void {
    if (!this.headersSent) this.writeHead(this.statusCode)
    if (this.#head !== '') this.#send('')
  }

  /** False: the client reads too slowly. `drain` follows. */
  write(chunk: Buffer | string, encoding?: BufferEncoding): boolean {
    if (this.#hasEnded) return false
    if (!this.headersSent) this.writeHead(this.statusCode)
    return this.#send(this.#framed(chunk, encoding, ''))
  }

  end(chunk?: Buffer | string, encoding?: BufferEncoding): this {
    if (this.#hasEnded) return this
    if (!this.headersSent) this.writeHead(this.statusCode)
    this.#hasEnded = true
    const after = this.#framing === 'chunked' ? LAST_CHUNK : ''
    if (Buffer.isBuffer(chunk) && chunk.length > LARGE_BYTES) this.#sendLarge(chunk, after)
    else this.#send(this.#framed(chunk ?? '', encoding, after))
    // A body of another length than declared: what follows would be read as a part of it.
    const isExact = typeof this.#framing !== 'number' || this.#framing === this.#bodyBytes
    if (!isExact) this.shouldKeepAlive = false
    const { socket } = this
    // The client has left: `close` follows.
    if (!socket.writable) return this
    if (socket.writableLength === 0) this.#finish()
    else socket.write('', error => void (error ?? this.#finish()))
    return this
  }

  /** Closes the connection; the client sees that the response is incomplete. */
  destroy(): this {
    if (this.destroyed) return this
    this.destroyed = true
    this.socket.destroy()
    return this
  }

  /** The socket takes bytes again. */
  onDrain(): void {
    if (!this.#needsDrain) return
    this.#needsDrain = false
    this.#emit('drain')
  }

  /** The connection is closed. */
  onClose(): void {
    this.destroyed = true
    this.#watcher?.onDisconnect()
    this.#emit('close')
  }

  /** The bytes of a chunk with their framing, as one string or one buffer; `after` follows them. */
  #framed(chunk: Buffer | string, encoding: BufferEncoding | undefined, after: string): Buffer | string {
    if (this.#framing === 'none' || chunk.length === 0) return after
    const isText = typeof chunk === 'string' && encoding === 'latin1'
    const bytes = isText || typeof chunk !== 'string' ? chunk : Buffer.from(chunk, encoding)
    this.#bodyBytes += bytes.length
    const isChunked = this.#framing === 'chunked'
    const before = isChunked ? `${this.#head}${bytes.length.toString(16)}\r\n` : this.#head
    const end = isChunked ? `\r\n${after}` : after
    this.#head = ''
    if (typeof bytes === 'string') return before + bytes + end
    return bytes.length <= SMALL_BYTES
      ? before + bytes.toString('latin1') + end
      : joinParts(this.socket, before, bytes, end)
  }

  /** Sends the last bytes of a response as they are, in one gathered write with their framing. */
  #sendLarge(bytes: Buffer, after: string): void {
    const { socket } = this
    const isChunked = this.#framing === 'chunked'
    socket.cork()
    this.#send(isChunked ? `${bytes.length.toString(16)}\r\n` : '')
    if (this.#framing !== 'none') this.#send(bytes)
    this.#bodyBytes += bytes.length
    this.#send(isChunked ? `\r\n${after}` : '')
    socket.uncork()
  }

  #send(data: Buffer | string): boolean {
    const { socket } = this
    const bytes = this.#head === '' ? data : this.#head + (data as string)
    this.#head = ''
    if (bytes.length === 0) return true
    // After the client has closed its side, the connection ends.
    if (this.destroyed || !socket.writable) return false
    const hasRoom = socket.write(bytes as string, 'latin1')
    if (typeof bytes !== 'string' && bytes.buffer === joined.buffer && socket.writableLength > 0)
      joined = Buffer.alloc(0)
    if (!hasRoom) this.#needsDrain = true
    return hasRoom
  }

  #finish(): void {
    if (this.destroyed) return
    this.writableFinished = true
    this.destroyed = true
    this.#connection.onResponseEnd(this.shouldKeepAlive)
    if (this.#listeners.length > 0) this.#closeSoon()
  }

  /** After the caller of `end` has had time to listen, as in node:http. Most responses have no listener, and need no event. */
  #closeSoon(): void {
    if (this.#isCloseDue) return
    this.#isCloseDue = true
    process.nextTick(() => this.#emit('close'))
  }
}
