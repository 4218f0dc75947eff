import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { count, moneyOfSum, share, span, tokens } from '../../look/format.ts'
import type { LogQuery } from './usage-filters.ts'

/** Totals of the matching requests. They have their own loading and error state. */
export function Totals({
  logQuery,
  refetchMs,
}: {
  readonly logQuery: LogQuery
  readonly refetchMs: number | false
}) {
  const { t } = useTranslation()
  const { data, isPlaceholderData } = useCall('logTotals', { query: logQuery }, { refetchMs })
  const failures = data?.failures ?? undefined
  const [input, output] = [data?.prompt_tokens, data?.completion_tokens]
  const times = useCall('logTimes', { query: logQuery }, { refetchMs })
  const first = times.data?.first_ms
  const figures = [
    [t('usage.requests'), data ? `${count(data.count)}${data.is_more ? '+' : ''}` : '–'],
    [t('overview.success'), data && failures !== undefined ? share(data.count - failures, data.count) : '–'],
    [t('usage.spend'), moneyOfSum(data?.cost ?? undefined)],
    [t('usage.tokens'), input != null && output != null ? `${tokens(input)} / ${tokens(output)}` : '–'],
    [t('usage.ttft_quantiles'), first ? `${span(first.p50)} / ${span(first.p95)}` : '–'],
  ] as const
  const isOfNewest = times.data?.is_all === false
  return (
    <dl className={`flex flex-wrap gap-x-8 gap-y-1 text-table ${isPlaceholderData ? 'opacity-60' : ''}`}>
      {figures.map(([name, value]) => (
        <div key={name} className="flex gap-2">
          <dt className="text-ink-3">{name}</dt>
          <dd className="font-medium">
            {value}
            {isOfNewest && name === t('usage.ttft_quantiles') ? (
              <span className="font-normal text-ink-3"> {t('usage.of_newest')}</span>
            ) : null}
          </dd>
        </div>
      ))}
    </dl>
  )
}
