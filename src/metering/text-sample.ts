import { SPACE } from '../wire/ascii.ts'

/** The beginning of what a model wrote, kept as JSON wrote it: enough to tell how many bytes make a token here. */
export type TextSample = {
  /** The text between two quotes, at [from, to). */
  take(source: Buffer, from: number, to: number): void
  text(): string
}

const FIRST_BYTES = 512
const MAX_BYTES = 16 * 1024

export function createTextSample(): TextSample {
  let kept: Buffer | undefined
  let size = 0
  let isFull = false

  function room(length: number): Buffer {
    const held = kept ?? Buffer.allocUnsafe(FIRST_BYTES)
    if (size + length <= held.length) return held
    // Not out of the pool, all of which it would keep for as long as the stream runs.
    const grown = Buffer.allocUnsafeSlow(Math.min(MAX_BYTES, Math.max(held.length * 2, size + length)))
    held.copy(grown, 0, 0, size)
    return grown
  }

  return {
    take(source, from, to) {
      if (isFull) return
      let end = to
      if (size + to - from > MAX_BYTES) {
        isFull = true
        // No escape and no letter of several bytes reaches over a space.
        end = source.lastIndexOf(SPACE, from + MAX_BYTES - size)
        if (end <= from) return
      }
      kept = room(end - from)
      size += source.copy(kept, size, from, end)
    },
    text() {
      const written = kept?.toString('utf8', 0, size) ?? ''
      if (!written.includes('\\')) return written
      try {
        return JSON.parse(`"${written}"`)
      } catch {
        // A provider that escapes wrongly: its letters count as they stand.
        return written
      }
    },
  }
}
