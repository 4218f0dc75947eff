import type { RelayOutgoing } from '../../http/relay-exchange.ts'
import type { BodyCapture } from '../bodies/capture.ts'

/** Above this size a copy costs more than it saves. */
const SMALL_BYTES = 65_536

/** Sends a body. A small one is sent as one latin1 string with the headers: one plain write instead of a gathered one. */
export function endBuffered(response: RelayOutgoing, body: Buffer, capture: BodyCapture | undefined): void {
  if (body.length <= SMALL_BYTES) {
    const text = body.toString('latin1')
    capture?.lastAnswer(body, text)
    response.end(text, 'latin1')
    return
  }
  capture?.answer(body)
  response.end(body)
  closeStalled(response)
}

/** A client that reads nothing of a large answer for this long is disconnected. */
const STALL_MS = 60_000
const CHECK_MS = 20_000

function closeStalled(response: RelayOutgoing): void {
  const { socket } = response
  if (!socket) return
  let stalledMs = 0
  // Bytes in the operating system's buffer count as read; `writableLength` are those still in this process.
  const bytesTaken = () => socket.bytesWritten - socket.writableLength
  let lastBytes = bytesTaken()
  const watch = setInterval(() => {
    stalledMs = bytesTaken() === lastBytes ? stalledMs + CHECK_MS : 0
    lastBytes = bytesTaken()
    if (stalledMs >= STALL_MS) socket.destroy()
  }, CHECK_MS)
  response.once('close', () => clearInterval(watch))
}
