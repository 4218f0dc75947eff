import { Link } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { useIsAdmin, useSelf } from '../../api/self.ts'
import { buttonClasses } from '../../look/button.tsx'
import { Choice } from '../../look/field.tsx'
import { useFilters } from '../../look/filters.tsx'
import { count, moneyOfSpan, share, zone } from '../../look/format.ts'
import { Page, Sheet } from '../../look/page.tsx'
import { Empty, Loading } from '../../look/states.tsx'
import { ROW } from '../usage/log-row.ts'
import { beginOf, RANGES, type RangeName, rangeOf } from '../usage/range.ts'
import { LatestRequests } from './latest-requests.tsx'
import { NeedsYou } from './needs-you.tsx'
import { useCount, useSpend } from './use-figures.ts'

const SpendChart = lazy(() =>
  import('./spend-chart.tsx').then(({ SpendChart: Chart }) => ({ default: Chart })),
)

type Filters = { p?: number | undefined; range?: string | undefined }

const REFRESH_MS = 15_000

function Tile({ label, value, note }: { label: string; value: string; note?: string | undefined }) {
  return (
    <div className="sheet flex min-w-0 flex-col px-4 py-3">
      <dt className="text-label text-ink-3">{label}</dt>
      <dd className="truncate text-figure font-medium">{value}</dd>
      {note ? <dd className="text-label text-ink-3">{note}</dd> : null}
    </div>
  )
}

function Tiles({ range }: { readonly range: RangeName }) {
  const { t } = useTranslation()
  const self = useSelf()
  const from = beginOf(range)
  const spend = useSpend({ from }, REFRESH_MS)
  const good = useCount({ from, type: ROW.request }, REFRESH_MS)
  const failed = useCount({ from, type: ROW.error }, REFRESH_MS)
  const whole = good === undefined || failed === undefined ? undefined : good + failed
  return (
    <dl className="grid grid-cols-2 gap-3 xl:grid-cols-4">
      <Tile
        label={t('overview.spend')}
        value={moneyOfSpan(spend?.quota)}
        note={self.unlimited_quota ? undefined : t('balance.left', { amount: moneyOfSpan(self.quota) })}
      />
      <Tile
        label={t('overview.requests')}
        value={count(whole)}
        note={t('overview.failed', { figure: count(failed) })}
      />
      <Tile
        label={t('overview.success')}
        value={good === undefined || whole === undefined ? '–' : share(good, whole)}
        note={t('overview.success_note')}
      />
      <Tile
        label={t('overview.now')}
        value={t('overview.rpm', { figure: count(spend?.rpm) })}
        note={t('overview.tpm', { figure: count(spend?.tpm) })}
      />
    </dl>
  )
}

/** Before the first request there is one thing to do. */
function FirstSteps() {
  const { t } = useTranslation()
  return (
    <Sheet>
      <Empty title={t('overview.empty')}>
        <p>{t('overview.empty_help')}</p>
        <Link to="/start" className={buttonClasses('primary')}>
          {t('start.title')}
        </Link>
      </Empty>
    </Sheet>
  )
}

export function Overview() {
  const { t } = useTranslation()
  const isAdmin = useIsAdmin()
  const [{ range: asked }, setFilters] = useFilters<Filters>()
  const range = rangeOf(asked)
  const everything = useCount({})
  const channels = useCall('listChannels', { query: { page_size: 1 } }, { enabled: isAdmin })
  const isFresh = everything === 0 && (!isAdmin || channels.data !== undefined)
  return (
    <Page
      title={t('nav.overview')}
      actions={
        <span className="flex items-center gap-2 text-label text-ink-3">
          <span className="max-sm:hidden">{zone()}</span>
          <Choice
            aria-label={t('usage.range')}
            value={range}
            onChange={event => setFilters({ range: event.target.value })}
          >
            {(Object.keys(RANGES) as RangeName[])
              .filter(name => name !== 'all')
              .map(name => (
                <option key={name} value={name}>
                  {t(`range.${name}`)}
                </option>
              ))}
          </Choice>
        </span>
      }
    >
      {isFresh ? <FirstSteps /> : null}
      <NeedsYou />
      <Tiles range={range} />
      <Sheet title={t('overview.spend_over_time')}>
        <Suspense fallback={<Loading lines={4} />}>
          <SpendChart range={range} />
        </Suspense>
      </Sheet>
      <Sheet title={t('overview.latest')} actions={<Link to="/usage">{t('overview.all_requests')}</Link>}>
        <LatestRequests />
      </Sheet>
    </Page>
  )
}
