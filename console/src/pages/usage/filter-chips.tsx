import { useTranslation } from 'react-i18next'
import type { UsageItem } from '../../api/contract.ts'
import { Button } from '../../look/button.tsx'
import { span } from '../../look/format.ts'
import { X } from '../../look/icons.ts'
import { useFacet } from './facet-menu.tsx'
import { FACETS, type UsageFacet } from './facets.ts'
import { type LogQuery, NARROWING, type Narrowing, type UsageFilters } from './usage-filters.ts'

type ChipsProps = {
  readonly filters: UsageFilters
  readonly logQuery: LogQuery
  /** A matching row, which contains names for ids. */
  readonly row: UsageItem | undefined
  readonly onDrop: (changes: Partial<UsageFilters>) => void
}

/** The facet of a list filter, and whether it excludes. */
function listOf(name: Narrowing): { facet: UsageFacet; isNot: boolean } | undefined {
  const entry = Object.entries(FACETS).find(([, { several, none }]) => several === name || none === name)
  return entry && { facet: entry[0] as UsageFacet, isNot: entry[1].none === name }
}

/** The ids of a list filter as names. */
function ListedNames({ facet, list, logQuery }: { facet: UsageFacet; list: string; logQuery: LogQuery }) {
  const { data } = useFacet(facet, logQuery, facet !== 'model' && facet !== 'error')
  const nameOf = (key: string) => data?.values.find(value => value.key === key)?.name
  const isNamed = facet === 'model' || facet === 'error'
  return list
    .split(',')
    .map(key => nameOf(key) ?? (isNamed ? key : `#${key}`))
    .join(', ')
}

/** Active filters, each with a remove button. */
export function FilterChips({ filters, logQuery, row, onDrop }: ChipsProps) {
  const { t } = useTranslation()
  const yesNo = (text: string | undefined) => (text === 'true' ? t('common.yes') : t('common.no'))
  const words: Partial<Record<Narrowing, readonly [name: string, value: string]>> = {
    model: [t('usage.by.model'), filters.model ?? ''],
    channel: [t('usage.by.channel'), row?.channel_name || `#${filters.channel}`],
    token: [t('usage.by.token'), filters.token ?? ''],
    token_id: [t('usage.by.token'), row?.token_name || `#${filters.token_id}`],
    user: [t('usage.by.user'), filters.user ?? ''],
    user_id: [t('usage.by.user'), row?.username || `#${filters.user_id}`],
    stream: [t('usage.stream'), yesNo(filters.stream)],
    source: [t('usage.counted_by'), filters.source ? t(`usage.source.${filters.source as 'zero'}`) : ''],
    ip: [t('usage.address'), filters.ip ?? ''],
    tag: [t('usage.tag'), filters.tag ?? ''],
    min_cost: [t('usage.cost'), `≥ $${filters.min_cost}`],
    min_ms: [t('usage.latency'), `≥ ${span(filters.min_ms)}`],
    min_first_ms: [t('usage.ttft'), `≥ ${span(filters.min_first_ms)}`],
    min_attempts: [t('usage.attempts_title'), `≥ ${filters.min_attempts}`],
    upstream_model: [t('usage.upstream_model'), filters.upstream_model ?? ''],
    cached: [t('usage.line.cachedInput'), yesNo(filters.cached)],
  }
  return NARROWING.filter(name => filters[name] !== undefined).map(name => {
    const list = listOf(name)
    const [label, value] = words[name] ?? [list ? t(`usage.by.${list.facet}`) : name, '']
    return (
      <Button
        key={name}
        icon={X}
        title={t('usage.remove_filter', { name: label })}
        onClick={() => onDrop({ [name]: undefined, cursor: undefined })}
        className="max-w-full"
      >
        <span className="min-w-0 truncate">
          {label}: {list?.isNot ? `${t('usage.is_not')} ` : null}
          {list ? <ListedNames facet={list.facet} list={String(filters[name])} logQuery={logQuery} /> : value}
        </span>
      </Button>
    )
  })
}
