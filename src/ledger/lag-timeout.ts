const TICKS = 10

/**
 * A timeout that runs longer by as much as the event loop lags: a store that has answered is not given up only because
 * this process had no time to read the answer. Returns a function that cancels the timeout.
 */
export function lagTimeout(ms: number, onTimeout: () => void): () => void {
  let ticksLeft = TICKS
  const timer = setInterval(() => {
    ticksLeft -= 1
    if (ticksLeft > 0) return
    clearInterval(timer)
    onTimeout()
  }, ms / TICKS)
  return () => clearInterval(timer)
}
