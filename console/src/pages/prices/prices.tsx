import { Plus } from 'lucide-react'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Choice } from '../../look/field.tsx'
import { SearchBox, useFilters } from '../../look/filters.tsx'
import { FilterBar, Page, Sheet } from '../../look/page.tsx'
import { Pager } from '../../look/pager.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import { priceColumns } from './price-columns.tsx'
import { PricePanel } from './price-panel.tsx'

type Filters = {
  p?: number | undefined
  q?: string | undefined
  source?: string | undefined
  edit?: string | undefined
}

/** Models that are served and have no price: they are refused until they get one. */
function Unpriced({ onSet }: { readonly onSet: (model: string) => void }) {
  const { t } = useTranslation()
  const pricing = useCall('pricing', {})
  const models = pricing.data?.data.filter(({ unpriced }) => unpriced) ?? []
  if (models.length === 0) return null
  return (
    <Sheet title={t('prices.without')}>
      <p className="px-4 pt-3 text-ink-2">{t('prices.without_help')}</p>
      <ul className="flex flex-wrap gap-2 p-4">
        {models.map(({ model_name }) => (
          <li key={model_name}>
            <Button onClick={() => onSet(model_name)}>
              <span className="font-mono text-code">{model_name}</span> {t('prices.set')}
            </Button>
          </li>
        ))}
      </ul>
    </Sheet>
  )
}

export function Prices() {
  const { t } = useTranslation()
  const { pageSize } = usePreferences()
  const [{ p = 1, q, source, edit }, setFilters] = useFilters<Filters>()
  const list = useCall('listPrices', { query: { p, page_size: pageSize, keyword: q, source } })
  const columns = useMemo(() => priceColumns(t), [t])
  const rows = list.data?.items ?? []
  const open = (model: string) => setFilters({ p, edit: model })
  return (
    <Page
      title={t('nav.prices')}
      actions={
        <Button kind="primary" icon={Plus} data-create hint="c" onClick={() => open(' ')}>
          {t('prices.set')}
        </Button>
      }
    >
      <Unpriced onSet={open} />
      <Sheet>
        <FilterBar>
          <SearchBox label={t('prices.search')} value={q} onChange={value => setFilters({ q: value })} />
          <Choice
            aria-label={t('prices.source')}
            value={source ?? ''}
            onChange={event => setFilters({ source: event.target.value || undefined })}
          >
            <option value="">{t('prices.any')}</option>
            <option value="admin">{t('prices.admin')}</option>
            <option value="shipped">{t('prices.shipped')}</option>
          </Choice>
        </FilterBar>
        <Part result={list}>
          {rows.length > 0 ? (
            <>
              <DataTable
                label={t('nav.prices')}
                columns={columns}
                rows={rows}
                idOf={row => row.model}
                nameOf={row => row.model}
                openId={edit}
                isStale={list.isPlaceholderData}
                onOpen={row => open(row.model)}
              />
              <Pager page={p} total={list.data?.total ?? 0} onPage={page => setFilters({ p: page })} />
            </>
          ) : (
            <Empty title={t('common.nothing_matches')}>
              <Button onClick={() => setFilters({ q: undefined, source: undefined })}>
                {t('common.drop_filters')}
              </Button>
            </Empty>
          )}
        </Part>
      </Sheet>
      {edit === undefined ? null : (
        <PricePanel key={edit} model={edit.trim()} onClose={() => setFilters({ p, edit: undefined })} />
      )}
    </Page>
  )
}
