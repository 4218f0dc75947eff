import { SPACE } from '../wire/ascii.ts'

/** The beginning of the generated text, JSON-encoded: enough to estimate how many bytes a token has. */
export type TextSample = {
  /** The text between two quotes, at [from, to). */
  take(source: Buffer, from: number, to: number): void
  text(): string
}

const FIRST_BYTES = 512
const MAX_BYTES = 16 * 1024

/** Up to this length, copying a text byte by byte is faster than a call of `copy`: most chunks have one word. */
const SHORT_BYTES = 32

export const createTextSample = (): TextSample => new StoredSample()

/** One object for each stream (ADR 29). */
class StoredSample implements TextSample {
  #bytes: Buffer | undefined
  #size = 0
  #isFull = false

  take(source: Buffer, from: number, to: number): void {
    if (this.#isFull) return
    const size = this.#size
    let end = to
    if (size + to - from > MAX_BYTES) {
      this.#isFull = true
      // Neither an escape nor a multibyte character contains a space.
      end = source.lastIndexOf(SPACE, from + MAX_BYTES - size)
      if (end <= from) return
    }
    const bytes = this.#room(end - from)
    if (end - from > SHORT_BYTES) source.copy(bytes, size, from, end)
    else for (let i = from; i < end; i++) bytes[size + i - from] = source[i] as number
    this.#size = size + end - from
  }

  text(): string {
    const text = this.#bytes?.toString('utf8', 0, this.#size) ?? ''
    if (!text.includes('\\')) return text
    try {
      return JSON.parse(`"${text}"`)
    } catch {
      // The provider escapes incorrectly: the raw text counts.
      return text
    }
  }

  #room(length: number): Buffer {
    const size = this.#size
    this.#bytes ??= Buffer.allocUnsafe(FIRST_BYTES)
    if (size + length <= this.#bytes.length) return this.#bytes
    // Not from the pool: the sample would keep the entire pool alive while the stream runs.
    const grown = Buffer.allocUnsafeSlow(Math.min(MAX_BYTES, Math.max(this.#bytes.length * 2, size + length)))
    this.#bytes.copy(grown, 0, 0, size)
    this.#bytes = grown
    return grown
  }
}
