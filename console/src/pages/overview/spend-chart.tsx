import { useNavigate } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Bar, BarChart, CartesianGrid, ResponsiveContainer, Tooltip, XAxis, YAxis } from 'recharts'
import { moment, moneyOfSpan, moneyOnAxis } from '../../look/format.ts'
import { RANGES, type RangeName } from '../usage/range.ts'
import { useSpendSeries } from './use-figures.ts'

const PIECES = 24

/** Spend by equal pieces of the range, from zero; a bar leads to the requests behind it. */
export function SpendChart({ range }: { readonly range: RangeName }) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const buckets = useSpendSeries(RANGES[range], PIECES)
  const data = buckets.map(({ from, to, quota }) => ({ from, to, quota: quota ?? 0 }))
  const known = buckets.filter(({ quota }) => quota !== undefined)
  const highest = known.reduce((most, { quota = 0 }) => Math.max(most, quota), 0)
  return (
    <div className="flex flex-col gap-2 p-4">
      <p className="text-table text-ink-2">
        {known.length < buckets.length
          ? t('common.loading')
          : highest === 0
            ? t('overview.no_spend')
            : t('overview.highest', { amount: moneyOfSpan(highest) })}
      </p>
      <div className="h-52" aria-hidden="true">
        <ResponsiveContainer width="100%" height="100%">
          <BarChart data={data} accessibilityLayer={false} margin={{ top: 4, right: 0, bottom: 0, left: 0 }}>
            <CartesianGrid vertical={false} stroke="var(--line)" />
            <XAxis
              dataKey="from"
              tickFormatter={(from: number) =>
                moment(from).replace(/:\d\d$/, match => (range === '1h' ? match : ''))
              }
              tick={{ fill: 'var(--ink-3)', fontSize: 12 }}
              stroke="var(--line)"
              minTickGap={48}
            />
            <YAxis
              width={64}
              tickFormatter={highest === 0 ? () => '' : moneyOnAxis}
              tick={{ fill: 'var(--ink-3)', fontSize: 12 }}
              stroke="var(--line)"
              tickCount={4}
            />
            <Tooltip
              cursor={{ fill: 'var(--sunken)' }}
              content={({ active, payload }) => {
                const bucket = payload?.[0]?.payload as (typeof data)[number] | undefined
                return active && bucket ? (
                  <p className="sheet px-3 py-1.5 text-table shadow-float">
                    {moment(bucket.from)} – {moment(bucket.to + 1)}
                    <span className="block font-medium">{moneyOfSpan(bucket.quota)}</span>
                  </p>
                ) : null
              }}
            />
            <Bar
              dataKey="quota"
              fill="var(--series-1)"
              isAnimationActive={false}
              cursor="pointer"
              onClick={({ payload }) => {
                const bucket = payload as (typeof data)[number] | undefined
                if (bucket) void navigate({ to: '/usage', search: { from: bucket.from, to: bucket.to } })
              }}
            />
          </BarChart>
        </ResponsiveContainer>
      </div>
      <details>
        <summary className="text-label text-ink-3">{t('overview.as_table')}</summary>
        <table className="mt-2 w-full max-w-md text-table">
          <thead>
            <tr>
              <th scope="col" className="text-left font-medium text-ink-3">
                {t('usage.time')}
              </th>
              <th scope="col" className="text-right font-medium text-ink-3">
                {t('overview.spend')}
              </th>
            </tr>
          </thead>
          <tbody>
            {buckets.map(({ from, quota }) => (
              <tr key={from}>
                <td>{moment(from)}</td>
                <td className="text-right">{moneyOfSpan(quota)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </div>
  )
}
