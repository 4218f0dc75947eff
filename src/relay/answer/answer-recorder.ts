import { MAX_STORED_BYTES } from '../intake/repeat.ts'
import type { StreamMeter } from '../operations/channel-request.ts'

/** A meter that remembers what goes out, for whoever asks the same again; of what is too long to be kept, only that it is. */
export function recordingMeter(meter: StreamMeter): StreamMeter & { remembered(): Buffer } {
  const chunks: Buffer[] = []
  let size = 0
  let last: readonly Buffer[] | undefined

  function remember(bytes: readonly Buffer[]): readonly Buffer[] {
    for (const chunk of bytes) {
      if (size > MAX_STORED_BYTES) break
      size += chunk.length
      // A piece may be a view of something that is used again.
      chunks.push(Buffer.from(chunk))
    }
    return bytes
  }

  const closing = () => {
    last ??= remember(meter.closing())
    return last
  }
  return {
    ...meter,
    push: chunk => remember(meter.push(chunk)),
    end: () => remember(meter.end()),
    closing,
    /** All of it, once the stream has ended well. */
    remembered() {
      closing()
      return Buffer.concat(chunks)
    },
  }
}
