import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { CallSnippets, exampleChat } from '../../look/snippets.tsx'
import { Empty } from '../../look/states.tsx'
import { FilterChips } from './filter-chips.tsx'
import { isNarrowed, type LogQuery, NO_FILTERS, type UsageFilters } from './usage-filters.ts'

/** An example request for new users. */
function FirstCall() {
  const callable = useCall('pricing', {}).data?.data.find(({ unpriced }) => !unpriced)
  if (!callable) return null
  return (
    <div className="w-full text-left">
      <CallSnippets {...exampleChat(callable.model_name)} />
    </div>
  )
}

type NoRowsProps = {
  readonly filters: UsageFilters
  readonly logQuery: LogQuery
  /** Cursor of the next page. */
  readonly next: string | undefined
  readonly onChoose: (changes: Partial<UsageFilters>) => void
  readonly onStep: (to: string) => void
}

/** The empty state: why there are no rows, and what to do. */
export function NoRows({ filters, logQuery, next, onChoose, onStep }: NoRowsProps) {
  const { t } = useTranslation()
  const allTime =
    filters.range === 'all' ? null : (
      <Button onClick={() => onChoose({ range: 'all', from: undefined, to: undefined })}>
        {t('usage.all_time')}
      </Button>
    )
  // The search stopped at its limit of rows without a match.
  if (next)
    return (
      <Empty title={t('usage.none_so_far')}>
        <Button onClick={() => onStep(next)}>{t('usage.search_older')}</Button>
      </Empty>
    )
  if (isNarrowed(filters))
    return (
      <Empty title={t('common.nothing_matches')}>
        <div className="flex flex-wrap justify-center gap-2">
          <FilterChips filters={filters} logQuery={logQuery} row={undefined} onDrop={onChoose} />
          <Button onClick={() => onChoose(NO_FILTERS)}>{t('common.clear_filters')}</Button>
          {allTime}
        </div>
      </Empty>
    )
  return (
    <Empty title={t('usage.none')}>
      <p>{t('usage.none_help')}</p>
      <FirstCall />
      {allTime}
    </Empty>
  )
}
