import { useCall } from '../../api/query.ts'
import { useSelf } from '../../api/self.ts'
import { unitsOfUsd } from '../../look/format.ts'
import { zone } from '../../look/zone.ts'
import { beginOf, RANGES, type RangeName, stepOf } from '../usage/range.ts'

const REFRESH_MS = 15_000
const QUARTER_S = 900
const WEEK_S = 604_800

/** Step of the charts, for 20 to 30 bars in each range. */
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

/** Restricts the figures to one model, token, channel or user. */
export type Scope = {
  readonly model?: string | undefined
  readonly token_id?: number | undefined
  readonly channel_id?: number | undefined
  readonly user_id?: number | undefined
}

/** Time range and scope of the overview: a named range that ends now or at `until`, or `from` to `until`. */
export type OverviewFilter = {
  readonly range: RangeName
  readonly until: number | undefined
  readonly from: number | undefined
  readonly scope: Scope
}

/** Periods to compare with. */
export const COMPARISONS = ['previous', 'week', 'off'] as const
export type Comparison = (typeof COMPARISONS)[number]

const wholeQuarter = (seconds: number) => Math.ceil(seconds / QUARTER_S) * QUARTER_S
export const thisQuarter = () => wholeQuarter(Date.now() / 1000)

/**
 * Start and end of the time range, rounded to the quarter hours of the stored sums. The query therefore changes
 * at most every 15 minutes.
 */
export function timeRange({ range, until, from }: OverviewFilter) {
  const to = until === undefined ? thisQuarter() : wholeQuarter(until)
  if (from !== undefined && from < to) return { from: Math.floor(from / QUARTER_S) * QUARTER_S, to }
  return { from: beginOf(range, to * 1000) ?? to - RANGES['30d'], to }
}

function stepIn(filter: OverviewFilter): number {
  const { from, to } = timeRange(filter)
  return filter.from === undefined ? STEPS[filter.range] : stepOf(from, to)
}

/**
 * The same duration, earlier or later. A range that would end in the future follows the current time instead.
 */
export function shifted(filter: OverviewFilter, direction: -1 | 1) {
  const { from, to } = timeRange(filter)
  const by = direction * (to - from)
  const until = to + by >= thisQuarter() ? undefined : to + by
  if (filter.from === undefined) return { until }
  return { from: (until ?? thisQuarter()) - (to - from), until }
}

const paceOf = ({ until }: OverviewFilter) => (until === undefined ? REFRESH_MS : false)

/** Usage over the time range, in days of the chosen time zone. */
export function useSeries(filter: OverviewFilter, groupBy?: GroupBy) {
  const step = stepIn(filter)
  const query = { ...timeRange(filter), step, tz: zone(), group_by: groupBy, ...filter.scope }
  return { result: useCall('usageSeries', { query }, { refetchMs: paceOf(filter) }), step }
}

/** The same figures of the compared period; undefined without comparison. */
export function useBefore(filter: OverviewFilter, comparison: Comparison) {
  const { from, to } = timeRange(filter)
  const back = comparison === 'week' ? WEEK_S : to - from
  const query = { from: from - back, to: to - back, step: stepIn(filter), tz: zone(), ...filter.scope }
  const { data } = useCall('usageSeries', { query }, { enabled: comparison !== 'off', staleMs: 60_000 })
  return comparison === 'off' ? undefined : data
}

/** Latency over time. */
export function useLatencies(filter: OverviewFilter) {
  const step = stepIn(filter)
  const query = { ...timeRange(filter), step, tz: zone(), ...filter.scope }
  return { result: useCall('usageTimes', { query }, { refetchMs: paceOf(filter) }), step }
}

/**
 * The entries with the highest spend. The range starts at the first bar, so that the totals match the chart.
 */
export function useTop(filter: OverviewFilter, by: GroupBy) {
  const { data, isError } = useSeries(filter).result
  const [begin] = data?.starts ?? []
  const { from, to } = timeRange(filter)
  const query = { from: begin ?? from, to, by, ...filter.scope }
  return useCall(
    'usageTop',
    { query },
    { enabled: begin !== undefined || isError, refetchMs: paceOf(filter) },
  )
}

/** The filter as a query of the request log. */
export function logQuery(filter: OverviewFilter) {
  const { from, to } = timeRange(filter)
  const { model, channel_id, token_id, user_id } = filter.scope
  return {
    start_timestamp: from,
    end_timestamp: filter.until === undefined ? undefined : to - 1,
    model_name: model,
    channel: channel_id,
    token_id,
    user_id,
  }
}

/** Latency quantiles of the time range. */
export const useTimes = (filter: OverviewFilter) =>
  useCall('logTimes', { query: logQuery(filter) }, { refetchMs: paceOf(filter) })

/** The filter as URL parameters of the usage page. */
export function usageSearch(filter: OverviewFilter) {
  const { from, to } = timeRange(filter)
  const { channel_id, ...scope } = filter.scope
  const isUpToNow = filter.until === undefined && filter.from === undefined
  return {
    ...scope,
    channel: channel_id,
    ...(isUpToNow ? { range: filter.range } : { from, to: to - 1 }),
  }
}

const WEEK: OverviewFilter = { range: '7d', until: undefined, from: undefined, scope: {} }
const DAYS = 7

/**
 * Days until the balance is used up, at the rate of the last seven days; undefined without a limit or without
 * usage.
 */
export function useRunway(): number | undefined {
  const { quota, unlimited_quota, id } = useSelf()
  const query = { ...timeRange(WEEK), step: STEPS['7d'], tz: zone(), user_id: id }
  const { data } = useCall('usageSeries', { query }, { enabled: !unlimited_quota, staleMs: 60_000 })
  const spent = unitsOfUsd(Number(data?.totals.cost ?? 0))
  return unlimited_quota || spent === 0 ? undefined : Math.floor((quota / spent) * DAYS)
}
