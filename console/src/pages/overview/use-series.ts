import { useCall } from '../../api/query.ts'
import { useSelf } from '../../api/self.ts'
import { unitsOfUsd, zone } from '../../look/format.ts'
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

/** What the page looks at: a range, up to now or to a moment before. */
export type Sight = { readonly range: RangeName; readonly until: number | undefined }

const wholeQuarter = (seconds: number) => Math.ceil(seconds / QUARTER_S) * QUARTER_S
export const thisQuarter = () => wholeQuarter(Date.now() / 1000)

/** From the beginning of a range to its end, by the quarter hours that sums are made of: the question changes no oftener. */
export function stretch({ range, until }: Sight) {
  const to = until === undefined ? thisQuarter() : wholeQuarter(until)
  return { from: beginOf(range, to * 1000) ?? to - RANGES['30d'], to }
}

/** The same range, as much time earlier or later; as late as now it goes on with the time. */
export function moved({ range, until }: Sight, direction: -1 | 1): number | undefined {
  const to = (until ?? thisQuarter()) + direction * RANGES[range]
  return to >= thisQuarter() ? undefined : to
}

const paceOf = ({ until }: Sight) => (until === undefined ? REFRESH_MS : false)

/** Figures over a range, summed by the gateway in this browser's time zone. */
export function useSeries(sight: Sight, groupBy?: GroupBy) {
  const step = STEPS[sight.range]
  const query = { ...stretch(sight), step, tz: zone(), group_by: groupBy }
  return { result: useCall('usageSeries', { query }, { everyMs: paceOf(sight) }), step }
}

/** Those that cost most in a range. */
export const useTop = (sight: Sight, by: GroupBy) =>
  useCall('usageTop', { query: { ...stretch(sight), by } }, { everyMs: paceOf(sight) })

/** How long answers took in a range. */
export function useTimes(sight: Sight) {
  const { from, to } = stretch(sight)
  const end = sight.until === undefined ? undefined : to - 1
  return useCall(
    'logTimes',
    { query: { start_timestamp: from, end_timestamp: end } },
    { everyMs: paceOf(sight) },
  )
}

const WEEK: Sight = { range: '7d', until: undefined }
const DAYS = 7

/** For how many days one's balance lasts at the pace of the last seven; undefined where there is no limit, or no pace. */
export function useRunway(): number | undefined {
  const { quota, unlimited_quota, id } = useSelf()
  const query = { ...stretch(WEEK), step: STEPS['7d'], tz: zone(), user_id: id }
  const { data } = useCall('usageSeries', { query }, { enabled: !unlimited_quota, staleMs: 60_000 })
  const spent = unitsOfUsd(Number(data?.totals.cost ?? 0))
  return unlimited_quota || spent === 0 ? undefined : Math.floor((quota / spent) * DAYS)
}
