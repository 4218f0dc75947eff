/** Spans a page can look back over, in seconds. */
export const RANGES = {
  '1h': 3_600,
  '6h': 21_600,
  '24h': 86_400,
  '7d': 604_800,
  '30d': 2_592_000,
  all: 0,
} as const
export type RangeName = keyof typeof RANGES
export const DEFAULT_RANGE: RangeName = '24h'

export const isRange = (name: string | undefined): name is RangeName => name !== undefined && name in RANGES
export const rangeOf = (name: string | undefined): RangeName => (isRange(name) ? name : DEFAULT_RANGE)

const MINUTE_S = 60

/** Where a range begins; whole minutes, so that the same question is asked for a minute. */
export function beginOf(name: RangeName, nowMs = Date.now()): number | undefined {
  const seconds = RANGES[name]
  return seconds === 0 ? undefined : Math.floor(nowMs / 1000 / MINUTE_S) * MINUTE_S - seconds
}
