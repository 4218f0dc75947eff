import { useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { count, moneyOfSum, moneyOnAxis, span, tokens } from '../../look/format.ts'
import { Sheet } from '../../look/page.tsx'
import { Part } from '../../look/states.tsx'
import { Bars } from './bars.tsx'
import { Lines } from './lines.tsx'
import {
  type Comparison,
  type GroupBy,
  type OverviewFilter,
  usageSearch,
  useBefore,
  useLatencies,
  useSeries,
  useTimes,
} from './use-series.ts'

const colour = (index: number) => `var(--series-${(index % 6) + 1})`

type ChartProps = {
  readonly filter: OverviewFilter
  readonly comparison: Comparison
  readonly onZoom: (from: number, to: number) => void
}

/** Data of a bar chart, with the compared period. A click opens the requests of a bar; a drag zooms in. */
function useBars({ filter, comparison, onZoom }: ChartProps, groupBy?: GroupBy) {
  const navigate = useNavigate()
  const { result, step } = useSeries(filter, groupBy)
  const { starts = [], series = [], totals } = result.data ?? {}
  const before = useBefore(filter, comparison)?.series[0]
  const onPick = (first: number, last: number) => {
    if (last > first) return onZoom(first, last + step)
    const search = { ...usageSearch(filter), range: undefined, from: first, to: first + step - 1 }
    void navigate({ to: '/usage', search })
  }
  return { result, series, totals, before, bars: { starts, stepS: step, onPick } }
}

function Requests(props: ChartProps) {
  const { t } = useTranslation()
  const { result, series, totals, before, bars } = useBars(props)
  const [all] = series
  const failed = all?.failures ?? []
  return (
    <Sheet title={t('overview.requests')}>
      <Part result={result}>
        <Bars
          {...bars}
          format={count}
          onAxis={tokens}
          isWhole
          before={before?.requests}
          summary={t('overview.requests_sum', {
            figure: count(totals?.requests),
            failed: count(totals?.failures),
          })}
          stacks={[
            {
              key: 'good',
              name: t('usage.row.2'),
              fill: colour(0),
              values: (all?.requests ?? []).map((requests, index) => requests - (failed[index] ?? 0)),
            },
            { key: 'failed', name: t('usage.not_served'), fill: 'var(--bad)', values: failed },
          ]}
        />
      </Part>
    </Sheet>
  )
}

function Spend(props: ChartProps) {
  const { t } = useTranslation()
  const { result, series, totals, before, bars } = useBars(props, 'model')
  return (
    <Sheet title={t('overview.spend_by_model')}>
      <Part result={result}>
        <Bars
          {...bars}
          format={value => moneyOfSum(String(value))}
          onAxis={moneyOnAxis}
          before={before?.cost.map(Number)}
          summary={t('overview.spend_sum', { amount: moneyOfSum(totals?.cost) })}
          stacks={series
            // Rejected requests cost nothing.
            .filter(({ cost }) => cost.some(amount => Number(amount) !== 0))
            .map(({ key, name, cost }, index) => ({
              key: `model-${index}`,
              name: key === 'other' ? t('overview.other') : name,
              fill: key === 'other' ? 'var(--edge)' : colour(index),
              values: cost.map(Number),
            }))}
        />
      </Part>
    </Sheet>
  )
}

function Tokens(props: ChartProps) {
  const { t } = useTranslation()
  const { result, series, totals, before, bars } = useBars(props)
  const [all] = series
  return (
    <Sheet title={t('overview.tokens')}>
      <Part result={result}>
        <Bars
          {...bars}
          format={tokens}
          onAxis={tokens}
          isWhole
          before={before?.prompt_tokens.map((input, index) => input + (before.completion_tokens[index] ?? 0))}
          summary={t('overview.tokens_sum', {
            input: tokens(totals?.prompt_tokens ?? 0),
            output: tokens(totals?.completion_tokens ?? 0),
          })}
          stacks={[
            { key: 'input', name: t('rate.input'), fill: colour(0), values: all?.prompt_tokens ?? [] },
            { key: 'output', name: t('rate.output'), fill: colour(1), values: all?.completion_tokens ?? [] },
          ]}
        />
      </Part>
    </Sheet>
  )
}

/** Time to first token and latency, each in one colour: p50 as a solid line, p95 as a dashed one. */
function Latency({ filter }: { readonly filter: OverviewFilter }) {
  const { t } = useTranslation()
  const { result, step } = useLatencies(filter)
  const { starts = [], first_ms: first, total_ms: total, is_all: isAll = true, most = 0 } = result.data ?? {}
  const times = useTimes(filter).data
  return (
    <Sheet title={t('overview.latency')}>
      <Part result={result}>
        <Lines
          starts={starts}
          stepS={step}
          format={span}
          summary={[
            t('overview.latency_sum', {
              first: span(times?.first_ms?.p50),
              total: span(times?.total_ms?.p50),
            }),
            isAll ? '' : t('overview.latency_newest', { figure: count(most) }),
          ].join(' ')}
          tracks={[
            { key: 'first50', name: t('overview.ttft_p50'), fill: colour(0), values: first?.p50 ?? [] },
            {
              key: 'first95',
              name: t('overview.ttft_p95'),
              fill: colour(0),
              values: first?.p95 ?? [],
              dash: '5 3',
            },
            { key: 'total50', name: t('overview.latency_p50'), fill: colour(1), values: total?.p50 ?? [] },
            {
              key: 'total95',
              name: t('overview.latency_p95'),
              fill: colour(1),
              values: total?.p95 ?? [],
              dash: '5 3',
            },
          ]}
        />
      </Part>
    </Sheet>
  )
}

export const Charts = (props: ChartProps) => (
  <>
    <Requests {...props} />
    <Spend {...props} />
    <Latency filter={props.filter} />
    <Tokens {...props} />
  </>
)
