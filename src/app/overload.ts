import { monitorEventLoopDelay } from 'node:perf_hooks'

/** New requests are refused while the event loop lags behind by more than this: running requests must not suffer. */
const OVERLOAD_LAG_MS = 1_000
const SAMPLE_EVERY_MS = 500
/** One pause of the machine is no overload: the lag must last. */
const SAMPLES_TO_REFUSE = 3

/** The part of Node's histogram that decides; times are nanoseconds. */
export type DelayHistogram = { readonly count: number; percentile(percentile: number): number; reset(): void }

/** Reports an overload once several samples in a row lagged. */
export function createLagSampler(histogram: DelayHistogram) {
  let laggingSamples = 0
  return {
    sample(): void {
      // The loop stood still since the last sample, so nothing was measured: the last finding stays in force.
      if (histogram.count === 0) return
      const lagMs = histogram.percentile(50) / 1e6
      laggingSamples = lagMs > OVERLOAD_LAG_MS ? laggingSamples + 1 : 0
      histogram.reset()
    },
    isOverloaded: () => laggingSamples >= SAMPLES_TO_REFUSE,
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
