/** Use is measured over this time, or since the first sample. */
const WINDOW_MS = 60_000
const SAMPLE_EVERY_MS = 5_000
/** The first requests of an account say little about its use: they count as those of this much time. */
const LEAST_MS = 1_000

/** What requests have used of a lease. The counters are changed by every request. */
export type UseCounters = {
  /** The sum that requests have ever spent. */
  spent: number
  /** The largest hold since the last sample. */
  largestHold: number
}

/** Measures how fast the lease of an account is spent, by samples of its counters. */
export function createRecentUse() {
  const samples: { readonly timeMs: number; readonly spent: number; readonly largestHold: number }[] = []
  return {
    /** Adds a sample, unless the last one is recent. */
    sample(counters: UseCounters, nowMs: number): void {
      const last = samples.at(-1)
      if (last && nowMs - last.timeMs < SAMPLE_EVERY_MS) return
      samples.push({ timeMs: nowMs, ...counters })
      counters.largestHold = 0
      while (samples[0] && nowMs - samples[0].timeMs > WINDOW_MS) samples.shift()
    },
    /** What is spent in this time, if the account is used as it was lately. */
    spentIn(ms: number, { spent }: UseCounters, nowMs: number): number {
      const [first] = samples
      return first ? Math.ceil(((spent - first.spent) * ms) / Math.max(LEAST_MS, nowMs - first.timeMs)) : 0
    },
    largestHold: ({ largestHold }: UseCounters): number =>
      samples.reduce((largest, sample) => Math.max(largest, sample.largestHold), largestHold),
  }
}

export type RecentUse = ReturnType<typeof createRecentUse>
