import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { Http1Error } from './errors.ts'

/** A body of known length that is read while it is sent. */
export type StreamedBody = { readonly length: number; open(): Readable }
export type ClientBody = Buffer | readonly Buffer[] | StreamedBody

/** Up to this size, the head and the body are one write: a copy costs less than a second system call. */
const JOINED_BYTES = 64 * 1024

const isStreamed = (body: ClientBody): body is StreamedBody => 'open' in body

export function lengthOf(body: ClientBody): number {
  if (Buffer.isBuffer(body) || isStreamed(body)) return body.length
  return body.reduce((sum, piece) => sum + piece.length, 0)
}

/** A body that is being sent. */
export type BodyTransfer = {
  isComplete(): boolean
  stop(): void
}

type Request = { readonly head: string; readonly body: ClientBody | undefined }

/**
 * Writes a request. Returns undefined if all of it has been passed to the socket. `onFailure`: the body could not be read
 * as announced, so the connection is in an undefined state.
 */
export function writeRequest(
  socket: Socket,
  { head, body }: Request,
  onFailure: (error: Error) => void,
): BodyTransfer | undefined {
  if (body === undefined) socket.write(head, 'latin1')
  else if (isStreamed(body)) return sendStreamed(socket, { head, body }, onFailure)
  else if (Buffer.isBuffer(body) && body.length <= JOINED_BYTES) {
    const bytes = Buffer.allocUnsafe(head.length + body.length)
    bytes.write(head, 'latin1')
    body.copy(bytes, head.length)
    socket.write(bytes)
  } else {
    socket.cork()
    socket.write(head, 'latin1')
    for (const piece of Buffer.isBuffer(body) ? [body] : body) socket.write(piece)
    socket.uncork()
  }
  return undefined
}

/** A byte more than announced would be the start of another request, so the length is checked before every write. */
function sendStreamed(
  socket: Socket,
  { head, body }: { readonly head: string; readonly body: StreamedBody },
  onFailure: (error: Error) => void,
): BodyTransfer {
  const source = body.open()
  let remainingBytes = body.length
  let isComplete = false
  const onDrain = () => void source.resume()
  const stop = () => {
    socket.off('drain', onDrain)
    source.destroy()
  }
  socket.write(head, 'latin1')
  socket.on('drain', onDrain)
  source
    .on('data', (chunk: Buffer) => {
      remainingBytes -= chunk.length
      if (remainingBytes < 0)
        onFailure(new Http1Error('MALFORMED_REQUEST', 'the body is longer than announced'))
      else if (!socket.write(chunk)) source.pause()
    })
    .on('end', () => {
      isComplete = remainingBytes === 0
      socket.off('drain', onDrain)
      if (!isComplete) onFailure(new Http1Error('MALFORMED_REQUEST', 'the body is shorter than announced'))
    })
    .on('error', onFailure)
  return { isComplete: () => isComplete, stop }
}
