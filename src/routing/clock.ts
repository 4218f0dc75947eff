/** The clock of rate limits. Corrections of the system clock do not affect it. */
export const monotonicMs = (): number => performance.now()

/**
 * A monotonic clock. When the system clock is set back, this clock continues from its last value instead of standing still
 * until the system clock has caught up.
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
