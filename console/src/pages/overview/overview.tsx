import { Link } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { useTranslation } from 'react-i18next'
import type { Series } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { useSelf } from '../../api/self.ts'
import { Button, buttonClasses, IconButton } from '../../look/button.tsx'
import { Choice } from '../../look/field.tsx'
import { useFilters } from '../../look/filters.tsx'
import { change, count, moment, moneyOfSpan, moneyOfSum, share, span, tokens } from '../../look/format.ts'
import { ChevronLeft, ChevronRight, X, ZoomOut } from '../../look/icons.ts'
import { NoBalance } from '../../look/no-balance.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { usePageKeys } from '../../look/page-keys.ts'
import { Empty, Loading } from '../../look/states.tsx'
import { zone } from '../../look/zone.ts'
import { RANGES, type RangeName, rangeOf } from '../usage/range.ts'
import { RangeChoice } from '../usage/range-choice.tsx'
import { AttentionList } from './attention.tsx'
import { LatestRequests } from './latest-requests.tsx'
import { Rankings } from './rankings.tsx'
import {
  COMPARISONS,
  type Comparison,
  type OverviewFilter,
  type Scope,
  shifted,
  thisQuarter,
  timeRange,
  usageSearch,
  useBefore,
  useRunway,
  useSeries,
  useTimes,
  useTop,
} from './use-series.ts'

const Charts = lazy(() => import('./charts.tsx').then(({ Charts: Loaded }) => ({ default: Loaded })))

type Filters = Scope & {
  p?: number | undefined
  range?: string | undefined
  until?: number | undefined
  from?: number | undefined
  compare?: string | undefined
}

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

const MANY = 10

type RequestCounts = Pick<Series['totals'], 'requests' | 'failures'>
const successOf = (of: RequestCounts | undefined) =>
  of ? share(of.requests - of.failures, of.requests) : '–'
const tokensOf = (of: Series['totals']) => of.prompt_tokens + of.completion_tokens

/** The key figures of the time range, with those of the compared period. */
function Tiles({ filter, comparison }: { readonly filter: OverviewFilter; readonly comparison: Comparison }) {
  const { t } = useTranslation()
  const self = useSelf()
  const { totals } = useSeries(filter).result.data ?? {}
  const then = useBefore(filter, comparison)?.totals
  const times = useTimes(filter).data
  const runway = useRunway()
  /** The previous value and the change. */
  const before = (value: (of: Series['totals']) => number, words: (of: Series['totals']) => string) => {
    if (!then || !totals) return []
    const figure = t('overview.previous', { figure: words(then) })
    const [now, was] = [value(totals), value(then)]
    if (was === 0 || now === was) return [figure]
    // Large increases are shown as a factor.
    if (now >= was * MANY) return [`${t('overview.times', { by: count(Math.floor(now / was)) })} · ${figure}`]
    const by = change(now, was)
    return [`${now > was ? t('overview.up', { by }) : t('overview.down', { by })} · ${figure}`]
  }
  return (
    <dl className="grid grid-cols-2 gap-3 sm:grid-cols-3 xl:grid-cols-5 max-sm:[&>:last-child]:col-span-2">
      <Tile
        label={t('overview.spend')}
        value={moneyOfSum(totals?.cost)}
        notes={[
          ...before(
            ({ cost }) => Number(cost),
            ({ cost }) => moneyOfSum(cost),
          ),
          ...(self.unlimited_quota ? [] : [t('balance.remaining', { amount: moneyOfSpan(self.quota) })]),
          ...(runway === undefined ? [] : [t('balance.runway', { days: count(runway) })]),
        ]}
      />
      <Tile
        label={t('overview.requests')}
        value={count(totals?.requests)}
        notes={before(
          ({ requests }) => requests,
          ({ requests }) => count(requests),
        )}
      />
      <Tile
        label={t('overview.success')}
        value={successOf(totals)}
        notes={then ? [t('overview.previous', { figure: successOf(then) })] : []}
      />
      <Tile
        label={t('overview.ttft')}
        value={span(times?.first_ms?.p50)}
        notes={[
          t('overview.p95', { time: span(times?.first_ms?.p95) }),
          ...(times?.is_all === false ? [t('usage.of_newest')] : []),
        ]}
      />
      <Tile
        label={t('overview.tokens')}
        value={totals ? tokens(tokensOf(totals)) : '–'}
        notes={before(tokensOf, of => tokens(tokensOf(of)))}
      />
    </dl>
  )
}

/** "All time" is excluded, because it has no previous period. */
const SPANS: readonly RangeName[] = (Object.keys(RANGES) as RangeName[]).filter(name => name !== 'all')

/** Shown before the first request. */
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

const SCOPES = { model: 'model', token_id: 'token', channel_id: 'channel', user_id: 'user' } as const
const WHOLE: Required<{ [Name in keyof Scope]: undefined }> = {
  model: undefined,
  token_id: undefined,
  channel_id: undefined,
  user_id: undefined,
}

/** Active scope filters, each with a remove button. */
function ScopeChips({
  filter,
  onScope,
}: {
  readonly filter: OverviewFilter
  readonly onScope: (scope: Scope) => void
}) {
  const { t } = useTranslation()
  const narrowed = (Object.keys(SCOPES) as (keyof Scope)[]).filter(name => filter.scope[name] !== undefined)
  if (narrowed.length === 0) return null
  return (
    <div className="flex flex-wrap gap-2">
      {narrowed.map(name => (
        <ScopeChip key={name} filter={filter} name={name} onDrop={() => onScope({ [name]: undefined })} />
      ))}
      <Button kind="quiet" onClick={() => onScope(WHOLE)}>
        {t('common.clear_filters')}
      </Button>
    </div>
  )
}

function ScopeChip({
  filter,
  name,
  onDrop,
}: {
  readonly filter: OverviewFilter
  readonly name: keyof Scope
  readonly onDrop: () => void
}) {
  const { t } = useTranslation()
  const by = SCOPES[name]
  const key = String(filter.scope[name])
  // A filtered ranking has one row, which contains the name.
  const row = useTop(filter, by).data?.rows.find(row => row.key === key)
  return (
    <Button onClick={onDrop}>
      {t(`usage.by.${by}`)}: {row?.name ?? key}
      <X size={14} aria-hidden />
    </Button>
  )
}

export function Overview() {
  const { t } = useTranslation()
  const [filters, setFilters] = useFilters<Filters>()
  const { range: rangeParam, until, from, compare, model, token_id, channel_id, user_id } = filters
  const range = rangeOf(rangeParam === 'all' ? undefined : rangeParam)
  const comparison = COMPARISONS.find(name => name === compare) ?? 'previous'
  const filter: OverviewFilter = { range, until, from, scope: { model, token_id, channel_id, user_id } }
  const move = (direction: -1 | 1) => setFilters(shifted(filter, direction))
  const wider = from === undefined ? SPANS[SPANS.indexOf(range) + 1] : range
  const widen = () => {
    if (wider) setFilters({ range: wider, from: undefined })
  }
  const look = (begin: number, end: number) =>
    setFilters({ from: begin, until: end >= thisQuarter() ? undefined : end })
  usePageKeys({
    '[': { words: t('usage.earlier'), act: () => move(-1) },
    ']': { words: t('usage.later'), act: () => move(1) },
    '-': { words: t('usage.zoom_out'), act: widen },
  })
  const first = useCall('walkLogs', { query: { status: 'any', limit: 1 } })
  const isFresh = first.data?.rows.length === 0
  return (
    <Page
      title={t('nav.overview')}
      actions={
        <span className="flex flex-wrap items-center gap-2 text-label text-ink-3">
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
          <RangeChoice
            names={SPANS}
            range={from === undefined ? range : undefined}
            timeRange={timeRange(filter)}
            onRange={name => setFilters({ range: name, from: undefined })}
            onTimeRange={chosen => look(chosen.from, chosen.to)}
          />
          <Choice
            aria-label={t('overview.compare')}
            value={comparison}
            onChange={event =>
              setFilters({ compare: event.target.value === 'previous' ? undefined : event.target.value })
            }
          >
            {COMPARISONS.map(name => (
              <option key={name} value={name}>
                {t(`overview.comparison.${name}`)}
              </option>
            ))}
          </Choice>
        </span>
      }
    >
      {isFresh ? <FirstSteps /> : null}
      <NoBalance />
      {isFresh ? <AttentionList /> : null}
      <ScopeChips filter={filter} onScope={setFilters} />
      {first.isPending ? <Loading /> : null}
      {first.isPending || isFresh ? null : (
        <Figures
          filter={filter}
          comparison={comparison}
          onZoom={look}
          onScope={setFilters}
          onWiden={wider && widen}
        />
      )}
    </Page>
  )
}

type FiguresProps = {
  readonly filter: OverviewFilter
  readonly comparison: Comparison
  readonly onZoom: (from: number, to: number) => void
  readonly onScope: (scope: Scope) => void
  readonly onWiden: (() => void) | undefined
}

/** Key figures, charts and rankings. */
function Figures({ filter, comparison, onZoom, onScope, onWiden }: FiguresProps) {
  const { t } = useTranslation()
  const { totals } = useSeries(filter).result.data ?? {}
  return (
    <>
      {totals?.requests === 0 ? (
        <p className="flex flex-wrap items-center gap-2 text-ink-2">
          {t('usage.none')}
          {onWiden ? <Button onClick={onWiden}>{t('usage.zoom_out')}</Button> : null}
        </p>
      ) : null}
      <Tiles filter={filter} comparison={comparison} />
      <AttentionList />
      <div className="grid grid-cols-1 gap-4 md:grid-cols-2">
        <Suspense fallback={<Loading lines={4} />}>
          <Charts filter={filter} comparison={comparison} onZoom={onZoom} />
        </Suspense>
      </div>
      <Rankings filter={filter} onScope={onScope} />
      <Sheet
        title={t('overview.latest')}
        actions={
          <Link to="/usage" search={usageSearch(filter)}>
            {t('overview.all_requests')}
          </Link>
        }
      >
        <LatestRequests scope={filter.scope} />
      </Sheet>
    </>
  )
}
