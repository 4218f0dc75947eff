/** Limits count by it: a correction of the machine's clock neither opens a new minute nor repeats an old one. */
export const monotonicMs = (): number => performance.now()

/**
 * A clock that never goes back. When the machine's does, time goes on from where it was: neither frozen until the old
 * hour comes again, nor counted twice.
 */
export function steady(nowMs: () => number): () => number {
  let seenMs = nowMs()
  let elapsedMs = seenMs
  return () => {
    const atMs = nowMs()
    if (atMs > seenMs) elapsedMs += atMs - seenMs
    seenMs = atMs
    return elapsedMs
  }
}
