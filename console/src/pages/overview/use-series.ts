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
  all: 86_400,
}

export type GroupBy = 'model' | 'token' | 'channel' | 'user'

/** Narrows figures to one model or channel. */
export type SeriesFilter = { readonly model?: string | undefined; readonly channel_id?: number | undefined }

/** Figures over a range, summed by the gateway in this browser's time zone. */
export function useSeries(range: RangeName, groupBy?: GroupBy, filter: SeriesFilter = {}) {
  // A quarter hour is what the sums are made of, so the question changes no oftener.
  const to = Math.ceil(Date.now() / 1000 / QUARTER_S) * QUARTER_S
  const from = beginOf(range, to * 1000) ?? to - RANGES['30d']
  const step = STEPS[range]
  const query = { from, to, step, tz: zone(), group_by: groupBy, ...filter }
  return { result: useCall('usageSeries', { query }, { everyMs: REFRESH_MS }), step }
}
