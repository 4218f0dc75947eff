/**
 * The timers of code whose tests simulate time. They do not keep the process alive. Each function returns a function that
 * cancels the timer.
 */
export type Timers = {
  after(ms: number, run: () => void): () => void
  every(ms: number, run: () => void): () => void
  /** Runs at the end of this turn of the event loop. */
  endOfTurn(run: () => void): void
}

export const systemTimers: Timers = {
  after(ms, run) {
    const timer = setTimeout(run, ms)
    timer.unref()
    return () => clearTimeout(timer)
  },
  every(ms, run) {
    const timer = setInterval(run, ms)
    timer.unref()
    return () => clearInterval(timer)
  },
  endOfTurn: run => void setImmediate(run),
}
