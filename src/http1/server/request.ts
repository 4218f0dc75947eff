import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { RequestHead } from './request-head.ts'
import { type Room, retained, type SocketReads } from './socket-reads.ts'

/** While nothing reads the body, so many bytes of it are buffered before the socket is paused. */
const BUFFERED_BYTES = 16_384

/** Receives a body in pieces; their bytes are valid during `data` only. See `http/relay-exchange.ts`. */
type BodyReceiver = { data(bytes: Buffer): boolean; end(): void; close(): void; readonly room?: Room }

/**
 * A request in the narrow grammar. A body that is complete when it is read is returned as it arrived; otherwise `openBody`
 * makes a stream of it. It is a class, because a request made of closures would take many times the memory.
 */
export class Http1Request {
  readonly method = 'POST'
  url: string
  readonly headers: IncomingHttpHeaders
  readonly socket: Socket
  readonly contentLength: number
  #missingBytes: number
  /** Bytes of the body that nothing has read. */
  #parts: Buffer[] | undefined
  #bufferedBytes = 0
  #stream: Readable | undefined
  readonly #reads: Pick<SocketReads, 'readInto'>
  #receiver: BodyReceiver | undefined
  #isDiscarded = false

  constructor(
    { socket, reads }: { readonly socket: Socket; readonly reads: Pick<SocketReads, 'readInto'> },
    { headers, contentLength }: RequestHead,
    url: string,
  ) {
    this.socket = socket
    this.#reads = reads
    this.url = url
    this.headers = headers
    this.contentLength = contentLength
    this.#missingBytes = contentLength
  }

  /** Whether the body has arrived completely. */
  get complete(): boolean {
    return this.#missingBytes === 0
  }

  get missingBytes(): number {
    return this.#missingBytes
  }

  get destroyed(): boolean {
    return this.socket.destroyed
  }

  /** The bytes that have arrived and were not read yet. */
  read(): Buffer | null {
    const parts = this.#parts
    if (parts === undefined) return null
    this.#parts = undefined
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)
  }

  /** The body as a stream. */
  openBody(): Readable {
    if (this.#stream) return this.#stream
    const stream = new Readable({ read: () => this.#resume() })
    this.#stream = stream
    for (const part of this.#parts ?? []) stream.push(part)
    this.#parts = undefined
    if (this.complete) stream.push(null)
    return stream
  }

  /** Passes the body to a receiver, until it is complete or the receiver refuses a piece. */
  receiveBody(receiver: BodyReceiver): void {
    const parts = this.#parts ?? []
    this.#parts = undefined
    this.#bufferedBytes = 0
    this.#receiver = receiver
    for (const part of parts) this.#take(part)
    if (this.#receiver === undefined) return
    if (this.complete) {
      this.#endReceiver()
      return
    }
    if (receiver.room) this.#reads.readInto(() => this.#receiver?.room?.())
    this.socket.resume()
  }

  #endReceiver(): void {
    const receiver = this.#receiver
    this.#receiver = undefined
    receiver?.end()
  }

  #resume(): void {
    if (!this.complete && !this.#isDiscarded) this.socket.resume()
  }

  /**
   * Takes bytes of the body, at most `missingBytes`, which the next read of a socket may overwrite. The socket is paused while nothing
   * reads them.
   */
  receive(bytes: Buffer): void {
    this.#missingBytes -= bytes.length
    if (this.#isDiscarded) return
    this.#take(bytes)
    if (this.complete && this.#receiver !== undefined) this.#endReceiver()
  }

  #take(bytes: Buffer): void {
    if (this.#receiver?.data(bytes)) return
    this.#receiver = undefined
    const own = retained(bytes)
    const stream = this.#stream
    if (stream) {
      const hasRoom = stream.push(own)
      if (this.complete) stream.push(null)
      else if (!hasRoom) this.socket.pause()
      return
    }
    if (this.#parts === undefined) this.#parts = [own]
    else this.#parts.push(own)
    this.#bufferedBytes += own.length
    if (this.#bufferedBytes > BUFFERED_BYTES && !this.complete) this.socket.pause()
  }

  /** Drops the rest of the body: the response is complete. */
  discard(): void {
    this.#isDiscarded = true
    this.#parts = undefined
    this.#receiver = undefined
    this.socket.resume()
  }

  /** The client has disconnected. A complete body can still be read. */
  close(): void {
    if (this.complete) return
    this.#stream?.destroy()
    this.#receiver?.close()
  }
}
