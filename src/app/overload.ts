import { monitorEventLoopDelay } from 'node:perf_hooks'

/** New requests are refused while the event loop lags by more than this, to protect running requests. */
const OVERLOAD_LAG_MS = 1_000
const SAMPLE_EVERY_MS = 500
const RESOLUTION_MS = 20
/** A single pause is no overload: so many consecutive samples must lag. */
const SAMPLES_TO_REFUSE = 3

/** The part of Node's delay histogram that the sampler reads. Times are nanoseconds. */
export type DelayHistogram = {
  readonly count: number
  readonly mean: number
  percentile(percentile: number): number
  reset(): void
}

/** Reports an overload after several consecutive samples with a lag. */
export function createLagSampler(histogram: DelayHistogram) {
  let consecutiveLags = 0
  let meanMs = 0
  return {
    sample(): void {
      // The loop was blocked since the last sample, so there is no measurement: the last result still applies.
      if (histogram.count === 0) return
      const lagMs = histogram.percentile(50) / 1e6
      consecutiveLags = lagMs > OVERLOAD_LAG_MS ? consecutiveLags + 1 : 0
      meanMs = histogram.mean / 1e6
      histogram.reset()
    },
    isOverloaded: () => consecutiveLags >= SAMPLES_TO_REFUSE,
    /** The mean delay in the last sample, beyond the interval of the measurement. */
    lagS: () => Math.max(0, meanMs - RESOLUTION_MS) / 1000,
  }
}

/** Samples the event loop twice a second. */
export function watchOverload() {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  histogram.enable()
  const { sample, isOverloaded, lagS } = createLagSampler(histogram)
  const timer = setInterval(sample, SAMPLE_EVERY_MS)
  timer.unref()
  return {
    isOverloaded,
    lagS,
    close(): void {
      clearInterval(timer)
      histogram.disable()
    },
  }
}
