/** Time ranges in seconds. */
export const RANGES = {
  '1h': 3_600,
  '6h': 21_600,
  '24h': 86_400,
  '7d': 604_800,
  '30d': 2_592_000,
  '90d': 7_776_000,
  all: 0,
} as const
export type RangeName = keyof typeof RANGES
const DEFAULT_RANGE: RangeName = '24h'

export const isRange = (name: string | undefined): name is RangeName => name !== undefined && name in RANGES
export const rangeOf = (name: string | undefined): RangeName => (isRange(name) ? name : DEFAULT_RANGE)

const QUARTER_S = 900

/** Start of a range, at a quarter hour, the resolution of the stored sums. */
export function beginOf(name: RangeName, nowMs = Date.now()): number | undefined {
  const seconds = RANGES[name]
  return seconds === 0 ? undefined : Math.floor(nowMs / 1000 / QUARTER_S) * QUARTER_S - seconds
}

const STEPS_S = [900, 3_600, 21_600, 86_400] as const
const MAX_BARS = 60

/** The smallest step that gives at most `MAX_BARS` bars. */
export const stepOf = (from: number, to: number) =>
  STEPS_S.find(step => (to - from) / step <= MAX_BARS) ?? 86_400
