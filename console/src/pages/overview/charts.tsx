import { useTranslation } from 'react-i18next'
import { count, moneyOfSum, moneyOnAxis, tokens } from '../../look/format.ts'
import { Sheet } from '../../look/page.tsx'
import { Part } from '../../look/states.tsx'
import { Bars } from './bars.tsx'
import { type Sight, useSeries } from './use-series.ts'

const colour = (index: number) => `var(--series-${(index % 6) + 1})`

function Requests({ sight }: { readonly sight: Sight }) {
  const { t } = useTranslation()
  const { result, step } = useSeries(sight)
  const { starts = [], series = [], totals } = result.data ?? {}
  const [all] = series
  const failed = all?.failures ?? []
  return (
    <Sheet title={t('overview.requests')}>
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
              fill: colour(0),
              values: (all?.requests ?? []).map((requests, index) => requests - (failed[index] ?? 0)),
            },
            { key: 'failed', name: t('usage.row.5'), fill: 'var(--bad)', values: failed },
          ]}
        />
      </Part>
    </Sheet>
  )
}

function Spend({ sight }: { readonly sight: Sight }) {
  const { t } = useTranslation()
  const { result, step } = useSeries(sight, 'model')
  const { starts = [], series = [], totals } = result.data ?? {}
  return (
    <Sheet title={t('overview.spend_by_model')}>
      <Part result={result}>
        <Bars
          starts={starts}
          stepS={step}
          format={value => moneyOfSum(String(value))}
          onAxis={moneyOnAxis}
          summary={t('overview.spend_sum', { amount: moneyOfSum(totals?.cost) })}
          stacks={series.map(({ key, name, cost }, index) => ({
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

function Tokens({ sight }: { readonly sight: Sight }) {
  const { t } = useTranslation()
  const { result, step } = useSeries(sight)
  const { starts = [], series = [], totals } = result.data ?? {}
  const [all] = series
  return (
    <Sheet title={t('overview.tokens')}>
      <Part result={result}>
        <Bars
          starts={starts}
          stepS={step}
          format={tokens}
          onAxis={tokens}
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

export const Charts = ({ sight }: { readonly sight: Sight }) => (
  <>
    <Requests sight={sight} />
    <Spend sight={sight} />
    <Tokens sight={sight} />
  </>
)
