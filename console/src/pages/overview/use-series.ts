import { useCall } from '../../api/query.ts'
import { zone } from '../../look/format.ts'
import { beginOf, RANGES, type RangeName } from '../usage/range.ts'

const REFRESH_MS = 15_000
const QUARTER_S = 900

/** How wide a bar is: some two or three dozen to a range. */
const STEPS: Readonly<Record<RangeName, number>> = {
  '1h': 900,
  '6h': 900,
  '24h': 3_600,
  '7d': 21_600,
  '30d': 86_400,
  '90d': 86_400,
  all: 86_400,
}

export type GroupBy = 'model' | 'token' | 'channel' | 'user'

/** From the beginning of a range to now, by the quarter hours that sums are made of: the question changes no oftener. */
function stretch(range: RangeName) {
  const to = Math.ceil(Date.now() / 1000 / QUARTER_S) * QUARTER_S
  return { from: beginOf(range, to * 1000) ?? to - RANGES['30d'], to }
}

/** Figures over a range, summed by the gateway in this browser's time zone. */
export function useSeries(range: RangeName, groupBy?: GroupBy) {
  const step = STEPS[range]
  const query = { ...stretch(range), step, tz: zone(), group_by: groupBy }
  return { result: useCall('usageSeries', { query }, { everyMs: REFRESH_MS }), step }
}

/** Those that cost most in a range. */
export const useTop = (range: RangeName, by: GroupBy) =>
  useCall('usageTop', { query: { ...stretch(range), by } }, { everyMs: REFRESH_MS })

/** How long answers took in a range. */
export const useTimes = (range: RangeName) =>
  useCall('logTimes', { query: { start_timestamp: stretch(range).from } }, { everyMs: REFRESH_MS })
