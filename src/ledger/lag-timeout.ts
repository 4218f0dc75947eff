const TICKS = 10

/**
 * Waits so long, and longer by as much as this process itself is late: a store that has answered is not given up only
 * because nobody had time to read its answer. Answers how to stop waiting.
 */
export function lagTimeout(ms: number, onOver: () => void): () => void {
  let left = TICKS
  const timer = setInterval(() => {
    left -= 1
    if (left > 0) return
    clearInterval(timer)
    onOver()
  }, ms / TICKS)
  return () => clearInterval(timer)
}
