/** The clock of rate limits: a correction of the system clock neither opens a new minute nor repeats an old one. */
export const monotonicMs = (): number => performance.now()

/**
 * A clock that never goes back. When the system clock is set back, this clock continues from its last value: it does not
 * stand still until the old time returns, and it counts no time twice.
 */
export function createMonotonicClock(nowMs: () => number): () => number {
  let lastMs = nowMs()
  let elapsedMs = lastMs
  return () => {
    const atMs = nowMs()
    if (atMs > lastMs) elapsedMs += atMs - lastMs
    lastMs = atMs
    return elapsedMs
  }
}
