import { delegate } from '../../metering/stream-meter.ts'
import { MAX_STORED_BYTES } from '../intake/repeat.ts'
import type { StreamMeter } from '../operations/channel-request.ts'

/**
 * A meter that records the sent bytes, for a retry with the same `Idempotency-Key`. It stops when they are too many to
 * store.
 */
export function recordingMeter(meter: StreamMeter): StreamMeter & { recording(): Buffer } {
  const chunks: Buffer[] = []
  let size = 0
  let last: readonly Buffer[] | undefined

  function record(bytes: readonly Buffer[]): readonly Buffer[] {
    for (const chunk of bytes) {
      if (size > MAX_STORED_BYTES) break
      size += chunk.length
      // A chunk may be a view of a buffer that is reused.
      chunks.push(Buffer.from(chunk))
    }
    return bytes
  }

  const closing = () => {
    last ??= record(meter.closing())
    return last
  }
  return {
    ...delegate(meter),
    push: chunk => record(meter.push(chunk)),
    end: () => record(meter.end()),
    closing,
    /** The recorded answer, once the stream is complete. */
    recording() {
      closing()
      return Buffer.concat(chunks)
    },
  }
}
