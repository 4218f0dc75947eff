import { systemTimers, type Timers } from '../host/timers.ts'

const TICKS = 10

/**
 * A timeout that is extended by the lag of the event loop: a store that has responded does not time out only because this
 * process was too busy to read the response. Returns a function that cancels the timeout.
 */
export function lagTimeout(
  ms: number,
  onTimeout: () => void,
  timers: Pick<Timers, 'every'> = systemTimers,
): () => void {
  let ticksLeft = TICKS
  const stop = timers.every(ms / TICKS, () => {
    ticksLeft -= 1
    if (ticksLeft > 0) return
    stop()
    onTimeout()
  })
  return stop
}
