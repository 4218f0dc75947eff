import { useTranslation } from 'react-i18next'
import type { UsageItem } from '../../api/contract.ts'
import { useIsAdmin } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Choice } from '../../look/field.tsx'
import { SearchBox } from '../../look/filters.tsx'
import { SlidersHorizontal } from '../../look/icons.ts'
import { FilterBar } from '../../look/page.tsx'
import { useIsNarrow } from '../../look/use-media.ts'
import { zone } from '../../look/zone.ts'
import { FacetMenu } from './facet-menu.tsx'
import { FilterChips } from './filter-chips.tsx'
import { MoreFilters } from './more-filters.tsx'
import { RANGES, type RangeName, rangeOf } from './range.ts'
import { RangeChoice } from './range-choice.tsx'
import { type LogQuery, NARROWING, NO_FILTERS, type UsageFilters } from './usage-filters.ts'

/** Row types to filter by. */
const KINDS = [
  ['any', { status: undefined, type: undefined }],
  ['ok', { status: 'ok', type: undefined }],
  ['failed', { status: 'failed', type: undefined }],
  ['rejected', { status: 'rejected', type: undefined }],
  ['6', { status: undefined, type: 6 }],
  ['1', { status: undefined, type: 1 }],
] as const satisfies readonly (readonly [string, Partial<UsageFilters>])[]

type UsageFilterBarProps = {
  readonly filters: UsageFilters
  readonly logQuery: LogQuery
  /** A matching row, which contains names for ids. */
  readonly row: UsageItem | undefined
  readonly onChoose: (changes: Partial<UsageFilters>) => void
  /** On a phone most filters are hidden until opened. */
  readonly isUnfolded: boolean
  readonly onUnfold: (isUnfolded: boolean) => void
}

export function UsageFilterBar({
  filters,
  logQuery,
  row,
  onChoose,
  isUnfolded,
  onUnfold,
}: UsageFilterBarProps) {
  const { t } = useTranslation()
  const isNarrow = useIsNarrow()
  const facets = useIsAdmin()
    ? (['model', 'channel', 'token', 'user', 'error'] as const)
    : (['model', 'token', 'error'] as const)
  return (
    <FilterBar>
      <SearchBox
        label={t('usage.search')}
        value={filters.q}
        onChange={value => onChoose({ q: value, model: undefined })}
      />
      <RangeChoice
        names={Object.keys(RANGES) as RangeName[]}
        range={filters.from ? undefined : rangeOf(filters.range)}
        timeRange={
          filters.from === undefined
            ? undefined
            : { from: filters.from, to: (filters.to ?? Math.floor(Date.now() / 1000)) + 1 }
        }
        onRange={range => onChoose({ range, from: undefined, to: undefined })}
        onTimeRange={({ from, to }) => onChoose({ range: undefined, from, to: to - 1 })}
      />
      {isNarrow ? (
        <Button icon={SlidersHorizontal} aria-expanded={isUnfolded} onClick={() => onUnfold(!isUnfolded)}>
          {t('usage.filters')}
        </Button>
      ) : null}
      {isNarrow && !isUnfolded ? null : (
        <>
          <Choice
            aria-label={t('usage.kind')}
            value={String(filters.type ?? filters.status ?? 'any')}
            onChange={event => onChoose(KINDS.find(([name]) => name === event.target.value)?.[1] ?? {})}
          >
            {KINDS.map(([name]) => (
              <option key={name} value={name}>
                {t(`usage.kinds.${name}`)}
              </option>
            ))}
          </Choice>
          {facets.map(facet => (
            <FacetMenu
              key={facet}
              facet={facet}
              logQuery={logQuery}
              filters={filters}
              onChoose={onChoose}
              isFirst={facet === 'model'}
            />
          ))}
          <MoreFilters filters={filters} onChoose={onChoose} />
        </>
      )}
      <span className="ml-auto self-center text-label text-ink-3">{zone()}</span>
      {NARROWING.some(name => filters[name] !== undefined) ? (
        <div className="flex w-full flex-wrap gap-2">
          <FilterChips filters={filters} logQuery={logQuery} row={row} onDrop={onChoose} />
          <Button kind="quiet" onClick={() => onChoose(NO_FILTERS)}>
            {t('common.clear_filters')}
          </Button>
        </div>
      ) : null}
    </FilterBar>
  )
}
