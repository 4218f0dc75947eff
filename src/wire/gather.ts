import { JOINED_BYTES, joinInSlices } from './json-slices.ts'

const EMPTY = Buffer.alloc(0)
/** Smaller pieces are copied into a block. */
const MIN_UNCOPIED_BYTES = 4 * 1024
const BLOCK_BYTES = 64 * 1024

/**
 * Gathers the pieces of a body. Small pieces are copied into one block: otherwise a body that arrives byte by byte would
 * keep one object and one network chunk in memory for each byte. An object of a class, because every answer has one.
 */
export class Gatherer {
  readonly #pieces: Buffer[] = []
  #block: Buffer | undefined
  #used = 0
  #size = 0

  size(): number {
    return this.#size
  }

  push(piece: Buffer): void {
    // Most bodies are a single piece, which need not be copied.
    const isUncopied = piece.length >= MIN_UNCOPIED_BYTES || this.#size === 0
    this.#size += piece.length
    if (isUncopied) {
      this.#closeBlock()
      this.#pieces.push(piece)
      return
    }
    if (this.#block && this.#used + piece.length > this.#block.length) this.#closeBlock()
    this.#block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES)
    this.#used += piece.copy(this.#block, this.#used)
  }

  /** Returns and removes the pieces so far. */
  take(): readonly Buffer[] {
    this.#closeBlock()
    this.#size = 0
    return this.#pieces.splice(0)
  }

  /** The whole body. A large one is joined in slices, which does not block the event loop. */
  whole(): Buffer | Promise<Buffer> {
    this.#closeBlock()
    const pieces = this.#pieces
    if (pieces.length < 2) return pieces[0] ?? EMPTY
    return this.#size <= JOINED_BYTES ? Buffer.concat(pieces, this.#size) : joinInSlices(pieces)
  }

  #closeBlock(): void {
    if (this.#block && this.#used > 0) this.#pieces.push(this.#block.subarray(0, this.#used))
    this.#block = undefined
    this.#used = 0
  }
}
