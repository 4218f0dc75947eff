import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { Download, Radio } from 'lucide-react'
import { lazy, Suspense, useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { addressOf } from '../../api/client.ts'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { Button, buttonClasses } from '../../look/button.tsx'
import { Choice } from '../../look/field.tsx'
import { SearchBox, useFilters } from '../../look/filters.tsx'
import { count, moneyOfSpan, zone } from '../../look/format.ts'
import { FilterBar, Page, Sheet } from '../../look/page.tsx'
import { Pager } from '../../look/pager.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Loading, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import { useIsNarrow } from '../../look/use-media.ts'
import { FilterChips } from './filter-chips.tsx'
import { ROW_TYPES } from './log-row.ts'
import { beginOf, RANGES, type RangeName, rangeOf } from './range.ts'
import { usageColumns } from './usage-columns.tsx'

export type UsageFilters = {
  p?: number | undefined
  q?: string | undefined
  range?: string | undefined
  from?: number | undefined
  to?: number | undefined
  type?: number | undefined
  model?: string | undefined
  token?: string | undefined
  user?: string | undefined
  channel?: number | undefined
  live?: boolean | undefined
}

const Histogram = lazy(() => import('./histogram.tsx').then(({ Histogram: Loaded }) => ({ default: Loaded })))

const LIVE_MS = 2_000
const REQUEST_ID = /^req_\w+$/

/** What the filters ask the gateway. A pasted request id is looked for over all time. */
function questionOf(
  { q, range, from, to, type, model, token, user, channel }: UsageFilters,
  isAdmin: boolean,
) {
  const requestId = q && REQUEST_ID.test(q) ? q : undefined
  if (requestId) return { request_id: requestId }
  return {
    start_timestamp: from ?? beginOf(rangeOf(range)),
    end_timestamp: to,
    type,
    model_name: model ?? (q ? `%${q}%` : undefined),
    token_name: token,
    ...(isAdmin ? { username: user, channel } : {}),
  }
}

export function Usage() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const isAdmin = useIsAdmin()
  const { requestId: openId } = useParams({ strict: false })
  const { pageSize } = usePreferences()
  const [filters, setFilters] = useFilters<UsageFilters>()
  const { p = 1, q, live = false } = filters
  const question = questionOf(filters, isAdmin)
  // Rows come in only at the top of the list and while no panel is open: nothing moves under a reader.
  const isLive = live && p === 1 && openId === undefined
  const everyMs = isLive ? LIVE_MS : false
  const page = { ...question, p, page_size: pageSize }
  const all = useCall('listLogs', { query: page }, { enabled: isAdmin, everyMs })
  const own = useCall('listOwnLogs', { query: page }, { enabled: !isAdmin, everyMs })
  const allSum = useCall('sumLogs', { query: question }, { enabled: isAdmin, everyMs })
  const ownSum = useCall('sumOwnLogs', { query: question }, { enabled: !isAdmin, everyMs })
  const list = isAdmin ? all : own
  const sum = isAdmin ? allSum : ownSum
  const columns = useMemo(() => usageColumns(t, isAdmin), [t, isAdmin])
  const rows = list.data?.items ?? []
  const range = rangeOf(filters.range)
  // Sums are kept by model and channel; of other filters, and of all time, there is no picture that would be true.
  const isPictured =
    !useIsNarrow() && range !== 'all' && !(q || filters.from || filters.type || filters.token || filters.user)
  const isFiltered = Boolean(
    q || filters.type || filters.model || filters.token || filters.user || filters.channel,
  )

  return (
    <Page
      title={t('nav.usage')}
      actions={
        <>
          {(['csv', 'jsonl'] as const).map(format => (
            <a
              key={format}
              download
              href={addressOf('exportLogs', { query: { ...question, format } })}
              className={buttonClasses('plain')}
            >
              <Download size={16} aria-hidden />
              {t(`usage.export.${format}`)}
            </a>
          ))}
          <Button
            icon={Radio}
            aria-pressed={live}
            kind={live ? 'primary' : 'plain'}
            onClick={() => setFilters({ live: live ? undefined : true })}
          >
            {live ? t('usage.live_on') : t('usage.live')}
          </Button>
        </>
      }
    >
      <Sheet>
        <FilterBar>
          <SearchBox label={t('usage.search')} value={q} onChange={value => setFilters({ q: value })} />
          <Choice
            aria-label={t('usage.range')}
            value={filters.from ? '' : rangeOf(filters.range)}
            onChange={event =>
              setFilters({ range: event.target.value || undefined, from: undefined, to: undefined })
            }
          >
            {filters.from ? <option value="">{t('usage.custom')}</option> : null}
            {(Object.keys(RANGES) as RangeName[]).map(name => (
              <option key={name} value={name}>
                {t(`range.${name}`)}
              </option>
            ))}
          </Choice>
          <Choice
            aria-label={t('usage.kind')}
            value={filters.type ?? ''}
            onChange={event => setFilters({ type: Number(event.target.value) || undefined })}
          >
            <option value="">{t('usage.any_kind')}</option>
            {ROW_TYPES.map(type => (
              <option key={type} value={type}>
                {t(`usage.type.${type}`)}
              </option>
            ))}
          </Choice>
          <FilterChips filters={filters} onDrop={setFilters} />
          <span className="ml-auto self-center text-label text-ink-3">{zone()}</span>
        </FilterBar>
        <dl className="flex flex-wrap gap-x-8 gap-y-1 border-b border-line px-4 py-2 text-table">
          {[
            [t('usage.rows'), count(list.data?.total)],
            [t('usage.spend'), moneyOfSpan(sum.data?.quota)],
            [t('usage.rpm'), count(sum.data?.rpm)],
            [t('usage.tpm'), count(sum.data?.tpm)],
          ].map(([name, value]) => (
            <div key={name} className="flex gap-2">
              <dt className="text-ink-3">{name}</dt>
              <dd className="font-medium">{value}</dd>
            </div>
          ))}
        </dl>
        {isPictured ? (
          <div className="border-b border-line">
            <Suspense fallback={<Loading lines={4} />}>
              <Histogram range={range} filter={{ model: filters.model, channel_id: filters.channel }} />
            </Suspense>
          </div>
        ) : null}
        <Part result={list}>
          {rows.length > 0 ? (
            <>
              <DataTable
                label={t('nav.usage')}
                columns={columns}
                rows={rows}
                idOf={row => String(row.id)}
                nameOf={row => row.request_id || row.content}
                openId={rows.find(row => row.request_id === openId)?.id.toString()}
                isStale={list.isPlaceholderData && !isLive}
                onOpen={row =>
                  row.request_id &&
                  void navigate({
                    to: '/usage/$requestId',
                    params: { requestId: row.request_id },
                    search: true,
                  })
                }
              />
              <Pager page={p} total={list.data?.total ?? 0} onPage={to => setFilters({ p: to })} />
            </>
          ) : isFiltered ? (
            <Empty title={t('common.nothing_matches')}>
              <div className="flex flex-wrap justify-center gap-2">
                <FilterChips filters={filters} onDrop={setFilters} />
                <Button onClick={() => setFilters({ range: 'all', from: undefined, to: undefined })}>
                  {t('usage.all_time')}
                </Button>
              </div>
            </Empty>
          ) : (
            <Empty title={t('usage.none')}>
              <p>{t('usage.none_help')}</p>
              {filters.range !== 'all' ? (
                <Button onClick={() => setFilters({ range: 'all', from: undefined, to: undefined })}>
                  {t('usage.all_time')}
                </Button>
              ) : null}
            </Empty>
          )}
        </Part>
      </Sheet>
      <Outlet />
    </Page>
  )
}
