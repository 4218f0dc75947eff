import { SPACE } from '../wire/ascii.ts'

/** The beginning of the generated text, JSON-encoded: enough to estimate how many bytes a token has. */
export type TextSample = {
  /** The text between two quotes, at [from, to). */
  take(source: Buffer, from: number, to: number): void
  text(): string
}

const FIRST_BYTES = 512
const MAX_BYTES = 16 * 1024

export function createTextSample(): TextSample {
  let sample: Buffer | undefined
  let size = 0
  let isFull = false

  function room(length: number): Buffer {
    const buffer = sample ?? Buffer.allocUnsafe(FIRST_BYTES)
    if (size + length <= buffer.length) return buffer
    // Not from the pool: the sample would keep the entire pool alive while the stream runs.
    const grown = Buffer.allocUnsafeSlow(Math.min(MAX_BYTES, Math.max(buffer.length * 2, size + length)))
    buffer.copy(grown, 0, 0, size)
    return grown
  }

  return {
    take(source, from, to) {
      if (isFull) return
      let end = to
      if (size + to - from > MAX_BYTES) {
        isFull = true
        // Neither an escape nor a multibyte character contains a space.
        end = source.lastIndexOf(SPACE, from + MAX_BYTES - size)
        if (end <= from) return
      }
      sample = room(end - from)
      size += source.copy(sample, size, from, end)
    },
    text() {
      const text = sample?.toString('utf8', 0, size) ?? ''
      if (!text.includes('\\')) return text
      try {
        return JSON.parse(`"${text}"`)
      } catch {
        // The provider escapes incorrectly: the raw text counts.
        return text
      }
    },
  }
}
