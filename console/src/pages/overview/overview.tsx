import { Link } from '@tanstack/react-router'
import { ChevronLeft, ChevronRight, ZoomOut } from 'lucide-react'
import { lazy, Suspense } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { useSelf } from '../../api/self.ts'
import { Button, buttonClasses, IconButton } from '../../look/button.tsx'
import { Choice } from '../../look/field.tsx'
import { useFilters } from '../../look/filters.tsx'
import { count, moment, moneyOfSpan, moneyOfSum, share, span, tokens, zone } from '../../look/format.ts'
import { NoBalance } from '../../look/no-balance.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { usePageKeys } from '../../look/page-keys.ts'
import { Empty, Loading } from '../../look/states.tsx'
import { RANGES, type RangeName, rangeOf } from '../usage/range.ts'
import { LatestRequests } from './latest-requests.tsx'
import { NeedsYou } from './needs-you.tsx'
import { Rankings } from './rankings.tsx'
import { moved, type Sight, useRunway, useSeries, useTimes } from './use-series.ts'

const Charts = lazy(() => import('./charts.tsx').then(({ Charts: Loaded }) => ({ default: Loaded })))

type Filters = { p?: number | undefined; range?: string | undefined; until?: number | undefined }

function Tile({ label, value, notes }: { label: string; value: string; notes: readonly string[] }) {
  return (
    <div className="sheet flex min-w-0 flex-col px-4 py-3">
      <dt className="text-label text-ink-3">{label}</dt>
      <dd className="truncate text-figure font-medium">{value}</dd>
      {notes.map(note => (
        <dd key={note} className="text-label text-ink-3">
          {note}
        </dd>
      ))}
    </div>
  )
}

/** The range in five figures, most with what they were over as much time before. */
function Tiles({ sight }: { readonly sight: Sight }) {
  const { t } = useTranslation()
  const self = useSelf()
  const { totals, previous } = useSeries(sight).result.data ?? {}
  const times = useTimes(sight).data
  const runway = useRunway()
  const before = (figure: string) => t('overview.before', { figure })
  const success = (of: typeof totals) => (of ? share(of.requests - of.failures, of.requests) : '–')
  return (
    <dl className="grid grid-cols-2 gap-3 sm:grid-cols-3 xl:grid-cols-5 max-sm:[&>:last-child]:col-span-2">
      <Tile
        label={t('overview.spend')}
        value={moneyOfSum(totals?.cost)}
        notes={[
          before(moneyOfSum(previous?.cost)),
          ...(self.unlimited_quota ? [] : [t('balance.left', { amount: moneyOfSpan(self.quota) })]),
          ...(runway === undefined ? [] : [t('balance.runway', { days: count(runway) })]),
        ]}
      />
      <Tile
        label={t('overview.requests')}
        value={count(totals?.requests)}
        notes={[before(count(previous?.requests))]}
      />
      <Tile label={t('overview.success')} value={success(totals)} notes={[before(success(previous))]} />
      <Tile
        label={t('overview.first')}
        value={span(times?.first_ms?.p50)}
        notes={[
          t('overview.first_p95', { time: span(times?.first_ms?.p95) }),
          ...(times?.is_all === false ? [t('usage.of_newest')] : []),
        ]}
      />
      <Tile
        label={t('overview.tokens')}
        value={totals ? tokens(totals.prompt_tokens + totals.completion_tokens) : '–'}
        notes={[previous ? before(tokens(previous.prompt_tokens + previous.completion_tokens)) : '']}
      />
    </dl>
  )
}

/** All time has no beginning that figures could be compared with. */
const SPANS: readonly RangeName[] = (Object.keys(RANGES) as RangeName[]).filter(name => name !== 'all')

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
  const [{ range: asked, until }, setFilters] = useFilters<Filters>()
  const range = rangeOf(asked === 'all' ? undefined : asked)
  const sight = { range, until }
  const move = (direction: -1 | 1) => setFilters({ until: moved(sight, direction) })
  const wider = SPANS[SPANS.indexOf(range) + 1]
  const widen = () => {
    if (wider) setFilters({ range: wider })
  }
  usePageKeys({
    '[': { words: t('usage.earlier'), act: () => move(-1) },
    ']': { words: t('usage.later'), act: () => move(1) },
    '-': { words: t('usage.zoom_out'), act: widen },
  })
  const first = useCall('walkLogs', { query: { status: 'any', limit: 1 } }).data
  const isFresh = first?.rows.length === 0
  return (
    <Page
      title={t('nav.overview')}
      actions={
        <span className="flex items-center gap-2 text-label text-ink-3">
          <span className="max-sm:hidden">
            {until === undefined ? null : `${t('overview.until', { time: moment(until) })} · `}
            {zone()}
          </span>
          <span className="flex max-sm:hidden">
            <IconButton icon={ChevronLeft} label={t('usage.earlier')} onClick={() => move(-1)} />
            <IconButton
              icon={ChevronRight}
              label={t('usage.later')}
              disabled={until === undefined}
              onClick={() => move(1)}
            />
            <IconButton icon={ZoomOut} label={t('usage.zoom_out')} disabled={!wider} onClick={widen} />
          </span>
          <Choice
            aria-label={t('usage.range')}
            value={range}
            onChange={event => setFilters({ range: event.target.value })}
          >
            {SPANS.map(name => (
              <option key={name} value={name}>
                {t(`range.${name}`)}
              </option>
            ))}
          </Choice>
        </span>
      }
    >
      {isFresh ? <FirstSteps /> : null}
      <NoBalance />
      <NeedsYou />
      {first && !isFresh ? <Figures sight={sight} onWiden={wider && widen} /> : null}
    </Page>
  )
}

/** What there is to see once requests have come. */
function Figures({ sight, onWiden }: { readonly sight: Sight; readonly onWiden: (() => void) | undefined }) {
  const { t } = useTranslation()
  const { totals } = useSeries(sight).result.data ?? {}
  return (
    <>
      {totals?.requests === 0 ? (
        <p className="flex flex-wrap items-center gap-2 text-ink-2">
          {t('usage.none')}
          {onWiden ? <Button onClick={onWiden}>{t('usage.zoom_out')}</Button> : null}
        </p>
      ) : null}
      <Tiles sight={sight} />
      <div className="grid grid-cols-1 gap-4 md:grid-cols-2">
        <Suspense fallback={<Loading lines={4} />}>
          <Charts sight={sight} />
        </Suspense>
        <Rankings sight={sight} />
      </div>
      <Sheet title={t('overview.latest')} actions={<Link to="/usage">{t('overview.all_requests')}</Link>}>
        <LatestRequests />
      </Sheet>
    </>
  )
}
