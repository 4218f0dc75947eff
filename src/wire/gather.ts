import { JOINED_BYTES, joinInSlices } from './json-slices.ts'

const NOTHING = Buffer.alloc(0)
/** Smaller pieces are copied into a shared block. */
const OWN_BYTES = 4 * 1024
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

  function seal(): void {
    if (block && used > 0) pieces.push(block.subarray(0, used))
    block = undefined
    used = 0
  }

  return {
    size: () => size,
    push(piece: Buffer): void {
      // Most bodies are a single piece, which need not be copied.
      const isOwn = piece.length >= OWN_BYTES || size === 0
      size += piece.length
      if (isOwn) {
        seal()
        pieces.push(piece)
        return
      }
      if (block && used + piece.length > block.length) seal()
      block ??= Buffer.allocUnsafeSlow(BLOCK_BYTES)
      used += piece.copy(block, used)
    },
    /** Returns the pieces so far and forgets them. */
    take(): readonly Buffer[] {
      seal()
      size = 0
      return pieces.splice(0)
    },
    /** The whole body. A large one is joined in slices, so that other requests get their turn. */
    whole(): Buffer | Promise<Buffer> {
      seal()
      const [only = NOTHING] = pieces
      if (pieces.length < 2) return only
      return size <= JOINED_BYTES ? Buffer.concat(pieces, size) : joinInSlices(pieces)
    },
  }
}
