import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { lazy, Suspense, useMemo, useState } from 'react'
import { flushSync } from 'react-dom'
import { useTranslation } from 'react-i18next'
import { addressOf } from '../../api/client.ts'
import { useIsAdmin } from '../../api/self.ts'
import { Button, buttonClasses } from '../../look/button.tsx'
import { ColumnChoice, useColumns } from '../../look/column-choice.tsx'
import { useFilters } from '../../look/filters.tsx'
import { Download, Radio } from '../../look/icons.ts'
import { Page, Sheet } from '../../look/page.tsx'
import { rowInFocus, usePageKeys } from '../../look/page-keys.ts'
import { Loading, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import { useIsNarrow } from '../../look/use-media.ts'
import { CursorPager } from './cursor-pager.tsx'
import { choosing } from './facets.ts'
import { NoRows } from './no-rows.tsx'
import { Totals } from './totals.tsx'
import { exportedBy, usageColumns } from './usage-columns.tsx'
import { UsageFilterBar } from './usage-filter-bar.tsx'
import { logQueryOf, seriesFilters, type UsageFilters } from './usage-filters.ts'
import { useRows } from './use-rows.ts'
import { ViewMenu } from './view-menu.tsx'

const Histogram = lazy(() => import('./histogram.tsx').then(({ Histogram: Loaded }) => ({ default: Loaded })))

const TOTALS_MS = 10_000

export function Usage() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const isAdmin = useIsAdmin()
  const isNarrow = useIsNarrow()
  const { requestId: openId } = useParams({ strict: false })
  const [isUnfolded, unfold] = useState(false)
  const [filters, setFilters] = useFilters<UsageFilters>()
  const { live = false, cursor } = filters
  const logQuery = logQueryOf(filters, isAdmin)
  const { logPage, rows, fresh, isLive, showFresh } = useRows(filters, openId !== undefined)
  const all = useMemo(() => usageColumns(t, isAdmin), [t, isAdmin])
  const columns = useColumns('usage', all)
  const pictured = isNarrow ? undefined : seriesFilters(filters)
  const next = logPage.data?.next ?? undefined
  // A changed filter returns to the latest row.
  const choose = (changes: Partial<UsageFilters>) => setFilters({ cursor: undefined, ...changes })
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
  /** Each page is a history entry, so that the browser's Back works. */
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
                query: { ...logQuery, format, columns: exportedBy(columns) },
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
        <UsageFilterBar
          filters={filters}
          logQuery={logQuery}
          row={rows[0]}
          onChoose={choose}
          isUnfolded={isUnfolded}
          onUnfold={unfold}
        />
        <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-1 border-b border-line py-1.5 pr-3 pl-4">
          <Totals logQuery={logQuery} refetchMs={isLive ? TOTALS_MS : false} />
          {isNarrow ? null : <ColumnChoice table="usage" all={all} />}
        </div>
        {pictured ? (
          <div className="border-b border-line">
            <Suspense fallback={<Loading lines={4} />}>
              <Histogram filters={filters} narrowed={pictured} onChoose={choose} />
            </Suspense>
          </div>
        ) : null}
        <Part result={logPage}>
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
              isStale={logPage.isPlaceholderData && !isLive}
              onOpen={row =>
                row.request_id &&
                void navigate({
                  to: '/usage/$requestId',
                  params: { requestId: row.request_id },
                  search: true,
                })
              }
            />
          ) : (
            <NoRows filters={filters} logQuery={logQuery} next={next} onChoose={choose} onStep={step} />
          )}
          {rows.length > 0 || cursor ? (
            <CursorPager cursor={cursor} next={next} onStep={step} onSize={() => choose({})} />
          ) : null}
        </Part>
      </Sheet>
      <Outlet />
    </Page>
  )
}
