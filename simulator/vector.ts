/**
 * A unit vector for a text: the same text has the same vector. A shorter vector has the direction of the longer one's first
 * numbers, as with providers that support `dimensions`.
 */
export function vectorOf(text: string, dimensions: number): Float32Array {
  const draw = drawerOf(text)
  const drawn = Array.from({ length: dimensions }, draw)
  const length = Math.sqrt(drawn.reduce((sum, value) => sum + value * value, 0))
  return Float32Array.from(drawn, value => value / length)
}

/** Numbers between -1 and 1, never 0, from a xorshift generator that starts at the text's FNV-1a hash. */
function drawerOf(text: string): () => number {
  let state = 0x811c9dc5
  for (let at = 0; at < text.length; at += 1) state = Math.imul(state ^ text.charCodeAt(at), 0x01000193)
  // A xorshift generator would stay at 0.
  if (state === 0) state = 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state / 0x80000000
  }
}
