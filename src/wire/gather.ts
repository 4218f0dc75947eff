import { JOINED_BYTES, joinInSlices } from './json-slices.ts'

const EMPTY = Buffer.alloc(0)
/** Smaller pieces are copied into a block. */
const MIN_UNCOPIED_BYTES = 4 * 1024
const BLOCK_BYTES = 64 * 1024

/**
 * Gathers the pieces of a body. Small pieces are copied into one block: otherwise a body that arrives byte by byte would
 * keep one object and one network chunk in memory for each byte.
 */
export function createGatherer() {
  const pieces: Buffer[] = []
  let block: Buffer | undefined
  let used = 0
  let size = 0

  function closeBlock(): void {
    if (block && used > 0) pieces.push(block.subarray(0, used))
    block = undefined
    used = 0
  }

  return {
    size: () => size,
    push(piece: Buffer): void {
      // Most bodies are a single piece, which need not be copied.
      const isUncopied = piece.length >= MIN_UNCOPIED_BYTES || size === 0
      size += piece.length
      if (isUncopied) {
        closeBlock()
        pieces.push(piece)
        return
      }
      if (block && used + piece.length > block.length) closeBlock()
      block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES)
      used += piece.copy(block, used)
    },
    /** Returns and removes the pieces so far. */
    take(): readonly Buffer[] {
      closeBlock()
      size = 0
      return pieces.splice(0)
    },
    /** The whole body. A large one is joined in slices, which does not block the event loop. */
    whole(): Buffer | Promise<Buffer> {
      closeBlock()
      const [only = EMPTY] = pieces
      if (pieces.length < 2) return only
      return size <= JOINED_BYTES ? Buffer.concat(pieces, size) : joinInSlices(pieces)
    },
  }
}
