import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { IconButton } from '../../look/button.tsx'
import { count, timeRangeText, tokens } from '../../look/format.ts'
import { ChevronLeft, ChevronRight, ZoomOut } from '../../look/icons.ts'
import { Part } from '../../look/states.tsx'
import { zone } from '../../look/zone.ts'
import { Bars } from '../overview/bars.tsx'
import { beginOf, rangeOf, stepOf } from './range.ts'
import type { seriesFilters, UsageFilters } from './usage-filters.ts'

const QUARTER_S = 900
const now = () => Math.ceil(Date.now() / 1000 / QUARTER_S) * QUARTER_S

/** The visible time range; undefined for "All time", which has no chart. */
function timeRangeOf({ from, to, range }: UsageFilters) {
  const begin = from ?? beginOf(rangeOf(range))
  return begin === undefined ? undefined : { from: begin, to: to === undefined ? now() : to + 1 }
}

/** Successful and failed requests over time. A click or drag restricts the rows to its time. */
export function Histogram({
  filters,
  narrowed,
  onChoose,
}: {
  readonly filters: UsageFilters
  readonly narrowed: NonNullable<ReturnType<typeof seriesFilters>>
  readonly onChoose: (changes: Partial<UsageFilters>) => void
}) {
  const { t } = useTranslation()
  const timeRange = timeRangeOf(filters)
  const { from, to } = timeRange ?? { from: 0, to: QUARTER_S }
  const step = stepOf(from, to)
  const result = useCall(
    'usageSeries',
    { query: { from, to, step, tz: zone(), ...narrowed } },
    { enabled: timeRange !== undefined, refetchMs: filters.to === undefined ? 15_000 : false },
  )
  if (!timeRange) return null
  const { starts = [], series = [], totals } = result.data ?? {}
  const [all] = series
  const failed = all?.failures ?? []
  const width = to - from
  const look = (begin: number, end: number) =>
    onChoose({
      from: begin,
      to: end >= now() ? undefined : end - 1,
      range: undefined,
      cursor: undefined,
    })
  return (
    <Part result={result}>
      <div className="relative">
        <div className="absolute top-2 right-3 z-10 flex">
          <IconButton
            icon={ChevronLeft}
            label={t('usage.earlier')}
            onClick={() => look(from - width, to - width)}
          />
          <IconButton
            icon={ChevronRight}
            label={t('usage.later')}
            disabled={to >= now()}
            onClick={() => look(Math.min(from + width, now() - width), Math.min(to + width, now()))}
          />
          <IconButton
            icon={ZoomOut}
            label={t('usage.zoom_out')}
            onClick={() => {
              const half = Math.ceil(width / 2 / QUARTER_S) * QUARTER_S
              look(from - half, Math.min(to + half, now()))
            }}
          />
        </div>
        <Bars
          starts={starts}
          stepS={step}
          format={count}
          onAxis={tokens}
          isWhole
          onPick={(first, last) => look(first, last + step)}
          summary={t('usage.bar', {
            range: timeRangeText(from, to),
            figure: count(totals?.requests),
            failed: count(totals?.failures),
          })}
          stacks={[
            {
              key: 'good',
              name: t('usage.row.2'),
              fill: 'var(--series-1)',
              values: (all?.requests ?? []).map((requests, index) => requests - (failed[index] ?? 0)),
            },
            { key: 'failed', name: t('usage.not_served'), fill: 'var(--bad)', values: failed },
          ]}
        />
      </div>
    </Part>
  )
}
