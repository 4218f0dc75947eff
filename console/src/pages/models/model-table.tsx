import { Link } from '@tanstack/react-router'
import type { TFunction } from 'i18next'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { ModelFacts, Pricing } from '../../api/contract.ts'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { buttonClasses } from '../../look/button.tsx'
import { CopyIcon } from '../../look/copy.tsx'
import { SearchBox, useFilters } from '../../look/filters.tsx'
import { count, price } from '../../look/format.ts'
import { FilterBar } from '../../look/page.tsx'
import { pressInRow, usePageKeys } from '../../look/page-keys.ts'
import { Pager } from '../../look/pager.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { unitRates } from '../../look/rates.ts'
import { Empty, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import type { Column } from '../../look/table-props.ts'
import type { ModelFilters } from './model-filters.ts'

const columnsFor = (
  t: TFunction,
  isAdmin: boolean,
  facts: ReadonlyMap<string, ModelFacts>,
): readonly Column<Pricing>[] => [
  {
    id: 'name',
    header: t('models.name'),
    place: 'title',
    cell: ({ model_name }) => (
      <span className="flex items-center gap-1">
        <span className="truncate font-mono text-code">{model_name}</span>
      </span>
    ),
  },
  { id: 'owner', header: t('models.owner'), fromPx: 1100, cell: ({ owned_by }) => owned_by },
  {
    id: 'state',
    header: t('models.state'),
    place: 'state',
    cell: ({ unpriced, model_name }) =>
      unpriced ? (
        <span className="text-warn">
          {t('models.unpriced')}{' '}
          {isAdmin ? (
            <Link to="/prices" search={{ edit: model_name }} className="underline">
              {t('prices.set')}
            </Link>
          ) : null}
        </span>
      ) : (
        t('models.available')
      ),
  },
  ...(isAdmin
    ? [
        {
          id: 'channels',
          header: t('models.channels'),
          isRight: true,
          fromPx: 1100,
          cell: ({ model_name }: Pricing) => {
            const model = facts.get(model_name)
            return model ? `${model.channels_on}/${model.channels_all}` : '–'
          },
        },
      ]
    : []),
  {
    id: 'day',
    header: t('models.last_day'),
    isRight: true,
    fromPx: 1280,
    cell: ({ model_name }) => count(facts.get(model_name)?.requests),
  },
  { id: 'input', header: t('rate.input'), isRight: true, place: 'figure', cell: row => price(row.input) },
  { id: 'output', header: t('rate.output'), isRight: true, place: 'figure', cell: row => price(row.output) },
  {
    id: 'cached',
    header: t('rate.cached_input'),
    isRight: true,
    fromPx: 1280,
    cell: row => price(row.cached_input),
  },
  {
    id: 'other',
    header: t('prices.other'),
    fromPx: 900,
    place: 'note',
    cell: row => unitRates(t, row) || <span className="text-ink-3">–</span>,
  },
  {
    id: 'actions',
    header: t('common.actions'),
    isRight: true,
    place: 'action',
    cell: ({ model_name }) => (
      <span className="inline-flex items-center">
        <CopyIcon hint="y" text={model_name} label={t('models.copy', { name: model_name })} />
        <Link to="/playground" search={{ model: model_name }} className={buttonClasses('quiet', true)}>
          {t('models.try')}
        </Link>
        {isAdmin ? (
          <Link
            to="/models"
            data-key="r"
            search={{ tab: 'route', route: model_name }}
            className={buttonClasses('quiet', true)}
          >
            {t('models.route')}
          </Link>
        ) : null}
      </span>
    ),
  },
]

/** The available models with their prices. */
export function ModelTable() {
  const { t } = useTranslation()
  const isAdmin = useIsAdmin()
  const { pageSize } = usePreferences()
  const [{ p = 1, q = '' }, setFilters] = useFilters<ModelFilters>()
  usePageKeys({
    y: { words: t('models.copy_name'), act: () => pressInRow('y') },
    ...(isAdmin ? { r: { words: t('models.route'), act: () => pressInRow('r') } } : {}),
  })
  const result = useCall('pricing', {})
  const overview = useCall('modelOverview', {}).data
  const columns = useMemo(
    () => columnsFor(t, isAdmin, new Map(overview?.map(model => [model.name, model]))),
    [t, isAdmin, overview],
  )
  const matches = (result.data?.data ?? []).filter(({ model_name }) =>
    model_name.toLowerCase().includes(q.toLowerCase()),
  )
  const rows = matches.slice((p - 1) * pageSize, p * pageSize)
  return (
    <>
      <FilterBar>
        <SearchBox label={t('models.search')} value={q} onChange={value => setFilters({ q: value })} />
        <span className="self-center text-label text-ink-3">{t('models.unit')}</span>
      </FilterBar>
      <Part result={result}>
        {rows.length > 0 ? (
          <>
            <DataTable
              label={t('nav.models')}
              columns={columns}
              rows={rows}
              idOf={row => row.model_name}
              nameOf={row => row.model_name}
            />
            <Pager page={p} total={matches.length} onPage={page => setFilters({ p: page })} />
          </>
        ) : q ? (
          <Empty title={t('common.nothing_matches')} />
        ) : (
          <Empty title={t('models.none')}>
            {isAdmin ? <Link to="/channels">{t('nav.channels')}</Link> : <p>{t('models.none_user')}</p>}
          </Empty>
        )}
      </Part>
    </>
  )
}
