import { monitorEventLoopDelay } from 'node:perf_hooks'

/** New requests are refused while the event loop lags behind by more than this: running requests must not suffer. */
const OVERLOAD_LAG_MS = 1_000
const SAMPLE_EVERY_MS = 500

/** The part of Node's histogram that decides; times are nanoseconds. */
export type DelayHistogram = { readonly count: number; percentile(percentile: number): number; reset(): void }

/** The lag of the event loop as of the last sample. */
export function createLagSampler(histogram: DelayHistogram) {
  let lagMs = 0
  return {
    sample(): void {
      // The loop stood still since the last sample, so nothing was measured: the last lag stays in force.
      if (histogram.count === 0) return
      lagMs = histogram.percentile(50) / 1e6
      histogram.reset()
    },
    isOverloaded: () => lagMs > OVERLOAD_LAG_MS,
  }
}

/** Samples the event loop twice a second. */
export function watchOverload() {
  const histogram = monitorEventLoopDelay({ resolution: 20 })
  histogram.enable()
  const { sample, isOverloaded } = createLagSampler(histogram)
  const timer = setInterval(sample, SAMPLE_EVERY_MS)
  timer.unref()
  return {
    isOverloaded,
    close(): void {
      clearInterval(timer)
      histogram.disable()
    },
  }
}
