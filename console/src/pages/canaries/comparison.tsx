import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { WholeCanary } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { Choice, Field } from '../../look/field.tsx'
import { count, moneyOfOne, moneyOfSum, share, span } from '../../look/format.ts'
import { Section } from '../../look/panel.tsx'
import { Part } from '../../look/states.tsx'

type Comparison = NonNullable<WholeCanary['comparison']>
type Side = Comparison['canary']

const NONE = '–'
const timesText = (times: Side['latency_ms']) =>
  times === null ? NONE : `${span(times.p50)} / ${span(times.p95)}`

/** Both sides of a canary, beside each other. */
export function ComparisonTable({ comparison }: { readonly comparison: Comparison }) {
  const { t } = useTranslation()
  const rows: readonly (readonly [string, (side: Side) => string])[] = [
    [t('canaries.requests'), side => count(side.requests)],
    [t('canaries.error_rate'), side => (side.requests === 0 ? NONE : share(side.errors, side.requests))],
    [t('canaries.latency'), side => timesText(side.latency_ms)],
    [t('canaries.first_token'), side => timesText(side.first_token_ms)],
    [
      t('canaries.cost_per_request'),
      side => (side.cost_per_request === null ? NONE : moneyOfOne(side.cost_per_request)),
    ],
    [t('canaries.cost'), side => moneyOfSum(side.cost)],
  ]
  return (
    <Section title={t('canaries.comparison', { round: comparison.round })}>
      <table className="w-full text-table" data-comparison>
        <thead>
          <tr className="text-label text-ink-3">
            <td />
            <th scope="col" className="py-1 text-right font-medium">
              {t('canaries.side.canary')}
            </th>
            <th scope="col" className="py-1 text-right font-medium">
              {t('canaries.side.baseline')}
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, cell]) => (
            <tr key={name} className="border-t border-line">
              <th scope="row" className="py-1.5 text-left font-normal text-ink-2">
                {name}
              </th>
              <td className="py-1.5 text-right tabular-nums">{cell(comparison.canary)}</td>
              <td className="py-1.5 text-right tabular-nums">{cell(comparison.baseline)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  )
}

const GROUPS = ['day', 'user', 'token'] as const
const ROWS = 50

/** What a shadow price would have charged, by day, user or token. */
export function ShadowReport({ id, shadow }: { id: number; shadow: NonNullable<WholeCanary['shadow']> }) {
  const { t } = useTranslation()
  const [group, setGroup] = useState<(typeof GROUPS)[number]>('day')
  const report = useCall('reportShadowPrice', { params: { id }, query: { group, page_size: ROWS } })
  const rows = [{ key: -1, name: t('canaries.total'), ...shadow }, ...(report.data?.items ?? [])]
  return (
    <Section title={t('canaries.report')}>
      <Field label={t('canaries.group')}>
        {wiring => (
          <Choice
            {...wiring}
            value={group}
            onChange={event => setGroup(GROUPS.find(each => each === event.target.value) ?? 'day')}
          >
            {GROUPS.map(each => (
              <option key={each} value={each}>
                {t(`canaries.groups.${each}`)}
              </option>
            ))}
          </Choice>
        )}
      </Field>
      <Part result={report}>
        <table className="w-full text-table" data-report>
          <thead>
            <tr className="text-label text-ink-3">
              <td />
              {(['requests', 'charged', 'shadow', 'difference'] as const).map(name => (
                <th key={name} scope="col" className="py-1 text-right font-medium">
                  {t(`canaries.${name}`)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(row => (
              <tr key={row.key} className="border-t border-line">
                <th scope="row" className="py-1.5 text-left font-normal break-all text-ink-2">
                  {row.name}
                </th>
                <td className="py-1.5 text-right tabular-nums">{count(row.requests)}</td>
                <td className="py-1.5 text-right tabular-nums">{moneyOfOne(row.cost)}</td>
                <td className="py-1.5 text-right tabular-nums">{moneyOfOne(row.shadow_cost)}</td>
                <td className="py-1.5 text-right tabular-nums">{moneyOfOne(row.difference)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Part>
    </Section>
  )
}
