import { X } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import type { LogRow } from '../../api/contract.ts'
import { Button } from '../../look/button.tsx'
import { span } from '../../look/format.ts'
import { NARROWING, type Narrowing, type UsageFilters } from './usage-filters.ts'

/** Filters that are set, each to be dropped by itself. */
export function FilterChips({
  filters,
  row,
  onDrop,
}: {
  readonly filters: UsageFilters
  /** One of the rows that they leave: it knows the names behind the numbers. */
  readonly row: LogRow | undefined
  readonly onDrop: (changes: Partial<UsageFilters>) => void
}) {
  const { t } = useTranslation()
  const words: Record<Narrowing, readonly [name: string, value: string]> = {
    model: [t('usage.by.model'), filters.model ?? ''],
    channel: [t('usage.by.channel'), row?.channel_name || `#${filters.channel}`],
    token: [t('usage.by.token'), filters.token ?? ''],
    token_id: [t('usage.by.token'), row?.token_name || `#${filters.token_id}`],
    user: [t('usage.by.user'), filters.user ?? ''],
    user_id: [t('usage.by.user'), row?.username || `#${filters.user_id}`],
    stream: [t('usage.stream'), filters.stream === 'true' ? t('common.yes') : t('common.no')],
    source: [t('usage.counted_by'), filters.source ? t(`usage.source.${filters.source as 'zero'}`) : ''],
    ip: [t('usage.address'), filters.ip ?? ''],
    min_cost: [t('usage.cost'), `≥ $${filters.min_cost}`],
    min_ms: [t('usage.total'), `≥ ${span(filters.min_ms)}`],
    min_first_ms: [t('usage.first'), `≥ ${span(filters.min_first_ms)}`],
    min_attempts: [t('usage.attempts_title'), `≥ ${filters.min_attempts}`],
  }
  return NARROWING.filter(name => filters[name] !== undefined).map(name => {
    const [label, value] = words[name]
    return (
      <Button
        key={name}
        icon={X}
        title={t('usage.drop', { name: label })}
        onClick={() => onDrop({ [name]: undefined, cursor: undefined })}
        className="max-w-full"
      >
        <span className="min-w-0 truncate">
          {label}: {value}
        </span>
      </Button>
    )
  })
}
