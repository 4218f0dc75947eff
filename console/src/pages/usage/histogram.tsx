import { useTranslation } from 'react-i18next'
import { count, tokens } from '../../look/format.ts'
import { Part } from '../../look/states.tsx'
import { Bars } from '../overview/bars.tsx'
import { type SeriesFilter, useSeries } from '../overview/use-series.ts'
import type { RangeName } from './range.ts'

/** Requests over the range, answered and failed; a bar narrows the rows below to its own time. */
export function Histogram({ range, filter }: { readonly range: RangeName; readonly filter: SeriesFilter }) {
  const { t } = useTranslation()
  const { result, step } = useSeries(range, undefined, filter)
  const { starts = [], series = [], totals } = result.data ?? {}
  const [all] = series
  const failed = all?.failures ?? []
  return (
    <Part result={result}>
      <Bars
        starts={starts}
        stepS={step}
        format={count}
        onAxis={tokens}
        summary={t('overview.requests_sum', {
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
          { key: 'failed', name: t('usage.row.5'), fill: 'var(--bad)', values: failed },
        ]}
      />
    </Part>
  )
}
