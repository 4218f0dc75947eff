import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { allPages } from '../../api/all-pages.ts'
import { call } from '../../api/client.ts'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { ExportButton } from '../../look/export-button.tsx'
import { FilterChoice, SearchBox, useFilters } from '../../look/filters.tsx'
import { Plus, Upload } from '../../look/icons.ts'
import { ListSheet } from '../../look/list-sheet.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { rowInFocus, usePageKeys } from '../../look/page-keys.ts'
import { usePreferences } from '../../look/preferences.ts'
import { useSelection } from '../../look/selection.ts'
import { PriceBulk } from './price-bulk.tsx'
import { priceColumns } from './price-columns.tsx'
import { priceFile } from './price-file.ts'
import { PriceImport } from './price-import.tsx'
import { PricePanel } from './price-panel.tsx'

type Filters = {
  p?: number | undefined
  q?: string | undefined
  source?: string | undefined
  /** `in_use` or `all`: also the models that no enabled channel serves. */
  scope?: string | undefined
  edit?: string | undefined
}

/** Models that are served but have no price. Requests for them are rejected. */
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
          <li key={model_name} className="max-w-full">
            <Button className="max-w-full" onClick={() => onSet(model_name)}>
              <span className="truncate font-mono text-code">{model_name}</span> {t('prices.set')}
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
  const [{ p = 1, q, source, scope: chosenScope, edit }, setFilters] = useFilters<Filters>()
  // A search without a chosen scope is a search of all models.
  const scope = chosenScope ?? (q ? 'all' : 'in_use')
  const filter = { keyword: q, source, in_use: scope === 'all' ? undefined : true }
  const list = useCall('listPrices', { query: { p, page_size: pageSize, ...filter } })
  const columns = useMemo(() => priceColumns(t), [t])
  const open = (model: string) => setFilters({ p, edit: model })
  const readPage = (paging: { p: number; page_size: number }) =>
    call('listPrices', { query: { ...paging, ...filter } })
  const selection = useSelection({
    visible: list.data?.items ?? [],
    idOf: ({ model }) => model,
    total: list.data?.total,
    read: readPage,
  })
  const [isImporting, setImporting] = useState(false)
  usePageKeys({
    e: {
      words: t('common.edit'),
      act: () => {
        const row = rowInFocus(list.data?.items ?? [], price => price.model)
        if (row) open(row.model)
      },
    },
  })
  return (
    <Page
      title={t('nav.prices')}
      actions={
        <>
          <ExportButton name="prices.csv" load={async () => priceFile(await allPages(readPage))} />
          <Button icon={Upload} onClick={() => setImporting(true)}>
            {t('prices.import')}
          </Button>
          <Button kind="primary" icon={Plus} data-create hint="c" onClick={() => open(' ')}>
            {t('prices.set')}
          </Button>
        </>
      }
    >
      <Unpriced onSet={open} />
      <ListSheet
        label={t('nav.prices')}
        list={list}
        columns={columns}
        idOf={row => row.model}
        nameOf={row => row.model}
        openId={edit}
        selection={selection}
        onOpen={row => open(row.model)}
        page={p}
        onPage={page => setFilters({ p: page })}
        // Built-in prices always exist, so an empty list means that a filter is set.
        onClear={() => setFilters({ q: undefined, source: undefined, scope: 'all' })}
        none={null}
        filters={
          <>
            <SearchBox label={t('prices.search')} value={q} onChange={value => setFilters({ q: value })} />
            <FilterChoice
              label={t('prices.scope')}
              any={t('prices.in_use')}
              value={scope === 'all' ? scope : undefined}
              options={[['all', t('prices.all_models')]]}
              onChange={value => setFilters({ scope: value ?? 'in_use' })}
            />
            <FilterChoice
              label={t('prices.source')}
              any={t('prices.any')}
              value={source}
              options={[
                ['admin', t('prices.custom')],
                ['shipped', t('prices.built_in')],
              ]}
              onChange={value => setFilters({ source: value })}
            />
          </>
        }
      />
      {selection.rows.length > 0 ? <PriceBulk selection={selection} /> : null}
      {isImporting ? <PriceImport onClose={() => setImporting(false)} /> : null}
      {edit === undefined ? null : (
        <PricePanel key={edit} model={edit.trim()} onClose={() => setFilters({ p, edit: undefined })} />
      )}
    </Page>
  )
}
