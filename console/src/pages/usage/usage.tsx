import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { ChevronLeft, ChevronRight, Download, Radio, SlidersHorizontal } from 'lucide-react'
import { lazy, Suspense, useMemo, useState } from 'react'
import { flushSync } from 'react-dom'
import { useTranslation } from 'react-i18next'
import { addressOf } from '../../api/client.ts'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { Button, buttonClasses } from '../../look/button.tsx'
import { ColumnChoice, useColumns } from '../../look/column-choice.tsx'
import { Choice } from '../../look/field.tsx'
import { SearchBox, useFilters } from '../../look/filters.tsx'
import { FilterBar, Page, Sheet } from '../../look/page.tsx'
import { rowInFocus, usePageKeys } from '../../look/page-keys.ts'
import { PageSize } from '../../look/pager.tsx'
import { CallSnippets, questionTo } from '../../look/snippets.tsx'
import { Empty, Loading, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import { useIsNarrow } from '../../look/use-media.ts'
import { zone } from '../../look/zone.ts'
import { FacetMenu } from './facet-menu.tsx'
import { choosing } from './facets.ts'
import { FilterChips } from './filter-chips.tsx'
import { MoreFilters } from './more-filters.tsx'
import { RANGES, type RangeName, rangeOf } from './range.ts'
import { RangeChoice } from './range-choice.tsx'
import { Totals } from './totals.tsx'
import { exportedBy, usageColumns } from './usage-columns.tsx'
import {
  isNarrowed,
  NARROWING,
  NO_FILTERS,
  picturedBy,
  questionOf,
  type UsageFilters,
} from './usage-filters.ts'
import { useRows } from './use-rows.ts'
import { ViewMenu } from './view-menu.tsx'

const Histogram = lazy(() => import('./histogram.tsx').then(({ Histogram: Loaded }) => ({ default: Loaded })))

/** For whoever has not called anything yet: how it is done. */
function FirstCall() {
  const callable = useCall('pricing', {}).data?.data.find(({ unpriced }) => !unpriced)
  if (!callable) return null
  return (
    <div className="w-full text-left">
      <CallSnippets {...questionTo(callable.model_name)} />
    </div>
  )
}

const TOTALS_MS = 10_000

/** Requests by how they ended, and what else stands in the log. */
const KINDS = [
  ['any', { status: undefined, type: undefined }],
  ['ok', { status: 'ok', type: undefined }],
  ['failed', { status: 'failed', type: undefined }],
  ['6', { status: undefined, type: 6 }],
  ['1', { status: undefined, type: 1 }],
] as const satisfies readonly (readonly [string, Partial<UsageFilters>])[]

export function Usage() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const isAdmin = useIsAdmin()
  const isNarrow = useIsNarrow()
  const { requestId: openId } = useParams({ strict: false })
  const [isUnfolded, unfold] = useState(false)
  const [filters, setFilters] = useFilters<UsageFilters>()
  const { q, live = false, cursor } = filters
  const question = questionOf(filters, isAdmin)
  const { walk, rows, fresh, isLive, showFresh } = useRows(filters, openId !== undefined)
  const all = useMemo(() => usageColumns(t, isAdmin), [t, isAdmin])
  const columns = useColumns('usage', all)
  const facets = isAdmin
    ? (['model', 'channel', 'token', 'user', 'error'] as const)
    : (['model', 'token', 'error'] as const)
  const pictured = isNarrow ? undefined : picturedBy(filters)
  const next = walk.data?.next ?? undefined
  // Another filter begins at the newest row again.
  const choose = (changes: Partial<UsageFilters>) => setFilters({ cursor: undefined, ...changes })
  const allTime = () => choose({ range: 'all', from: undefined, to: undefined })
  const toggleLive = () => choose({ live: live ? undefined : true })
  usePageKeys({
    l: { words: t('usage.live'), act: toggleLive },
    f: {
      words: t('keys.add_filter'),
      act: () => {
        flushSync(() => unfold(true))
        document.querySelector<HTMLElement>('[data-add-filter]')?.click()
      },
    },
    '.': {
      words: t('keys.same_model'),
      act: () => {
        const row = rowInFocus(rows, ({ id }) => String(id))
        if (row?.model_name) choose(choosing('model', { values: [row.model_name], isNot: false }))
      },
    },
  })
  /** A step of the walk is a page of its own: going back is the browser's. */
  const step = (to: string | undefined) =>
    void navigate({ to: '.', search: (before: object) => ({ ...before, cursor: to }) as never })

  return (
    <Page
      title={t('nav.usage')}
      actions={
        <>
          {(['csv', 'jsonl'] as const).map(format => (
            <a
              key={format}
              download
              href={addressOf('exportLogs', {
                query: { ...question, format, columns: exportedBy(columns) },
              })}
              className={buttonClasses('plain')}
            >
              <Download size={16} aria-hidden />
              {t(`usage.export.${format}`)}
            </a>
          ))}
          <ViewMenu filters={filters} onChoose={choose} />
          <Button
            icon={Radio}
            hint="l"
            aria-pressed={live}
            kind={live ? 'primary' : 'plain'}
            onClick={toggleLive}
          >
            {live ? t('usage.live_on') : t('usage.live')}
          </Button>
        </>
      }
    >
      <Sheet>
        <FilterBar>
          <SearchBox
            label={t('usage.search')}
            value={q}
            onChange={value => choose({ q: value, model: undefined })}
          />
          <RangeChoice
            names={Object.keys(RANGES) as RangeName[]}
            range={filters.from ? undefined : rangeOf(filters.range)}
            stretch={
              filters.from === undefined
                ? undefined
                : { from: filters.from, to: (filters.to ?? Math.floor(Date.now() / 1000)) + 1 }
            }
            onRange={range => choose({ range, from: undefined, to: undefined })}
            onStretch={({ from, to }) => choose({ range: undefined, from, to: to - 1 })}
          />
          {isNarrow ? (
            <Button icon={SlidersHorizontal} aria-expanded={isUnfolded} onClick={() => unfold(!isUnfolded)}>
              {t('usage.filters')}
            </Button>
          ) : null}
          {isNarrow && !isUnfolded ? null : (
            <>
              <Choice
                aria-label={t('usage.kind')}
                value={String(filters.type ?? filters.status ?? 'any')}
                onChange={event => choose(KINDS.find(([name]) => name === event.target.value)?.[1] ?? {})}
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
                  question={question}
                  filters={filters}
                  onChoose={choose}
                  isFirst={facet === 'model'}
                />
              ))}
              <MoreFilters filters={filters} onChoose={choose} />
            </>
          )}
          <span className="ml-auto self-center text-label text-ink-3">{zone()}</span>
          {NARROWING.some(name => filters[name] !== undefined) ? (
            <div className="flex w-full flex-wrap gap-2">
              <FilterChips filters={filters} question={question} row={rows[0]} onDrop={choose} />
              <Button kind="quiet" onClick={() => choose(NO_FILTERS)}>
                {t('common.drop_filters')}
              </Button>
            </div>
          ) : null}
        </FilterBar>
        <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b border-line py-1.5 pr-3 pl-4">
          <Totals question={question} everyMs={isLive ? TOTALS_MS : false} />
          {isNarrow ? null : <ColumnChoice table="usage" all={all} />}
        </div>
        {pictured ? (
          <div className="border-b border-line">
            <Suspense fallback={<Loading lines={4} />}>
              <Histogram filters={filters} narrowed={pictured} onChoose={choose} />
            </Suspense>
          </div>
        ) : null}
        <Part result={walk}>
          {fresh > 0 ? (
            <div className="flex justify-center border-b border-line p-2" role="status">
              <Button isSmall kind="primary" onClick={showFresh}>
                {t('usage.fresh', { count: fresh })}
              </Button>
            </div>
          ) : null}
          {rows.length > 0 ? (
            <DataTable
              label={t('nav.usage')}
              columns={columns}
              rows={rows}
              idOf={row => String(row.id)}
              nameOf={row => row.request_id || row.content}
              openId={rows.find(row => row.request_id === openId)?.id.toString()}
              isStale={walk.isPlaceholderData && !isLive}
              onOpen={row =>
                row.request_id &&
                void navigate({
                  to: '/usage/$requestId',
                  params: { requestId: row.request_id },
                  search: true,
                })
              }
            />
          ) : next ? (
            // The walk has tried as many rows as it may at a time, and found none.
            <Empty title={t('usage.none_so_far')}>
              <Button onClick={() => step(next)}>{t('usage.search_on')}</Button>
            </Empty>
          ) : isNarrowed(filters) ? (
            <Empty title={t('common.nothing_matches')}>
              <div className="flex flex-wrap justify-center gap-2">
                <FilterChips filters={filters} question={question} row={undefined} onDrop={choose} />
                <Button onClick={() => choose(NO_FILTERS)}>{t('common.drop_filters')}</Button>
                {filters.range === 'all' ? null : <Button onClick={allTime}>{t('usage.all_time')}</Button>}
              </div>
            </Empty>
          ) : (
            <Empty title={t('usage.none')}>
              <p>{t('usage.none_help')}</p>
              <FirstCall />
              {filters.range === 'all' ? null : <Button onClick={allTime}>{t('usage.all_time')}</Button>}
            </Empty>
          )}
          {rows.length > 0 || cursor ? (
            <nav
              aria-label={t('pager.label')}
              className="flex flex-wrap items-center justify-between gap-2 px-3 py-2 text-table text-ink-2"
            >
              <PageSize onChange={() => choose({})} />
              <span className="flex gap-2">
                <Button icon={ChevronLeft} disabled={!cursor} onClick={() => step(undefined)}>
                  {t('usage.newest')}
                </Button>
                <Button disabled={!next} onClick={() => step(next)}>
                  {t('usage.older')}
                  <ChevronRight size={16} aria-hidden />
                </Button>
              </span>
            </nav>
          ) : null}
        </Part>
      </Sheet>
      <Outlet />
    </Page>
  )
}
