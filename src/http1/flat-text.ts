const SCRATCH_BYTES = 1024
const scratch = Buffer.allocUnsafeSlow(SCRATCH_BYTES)

/**
 * A copy of a latin1 text in memory of its own. A concatenated text keeps its parts in memory, and a slice keeps the whole text that it was
 * cut from.
 */
export function flatText(text: string): string {
  if (text.length > SCRATCH_BYTES) return Buffer.from(text, 'latin1').toString('latin1')
  return scratch.toString('latin1', 0, scratch.write(text, 'latin1'))
}
