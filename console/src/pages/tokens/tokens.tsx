import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { SearchBox, useFilters } from '../../look/filters.tsx'
import { Plus } from '../../look/icons.ts'
import { ListSheet } from '../../look/list-sheet.tsx'
import { Page } from '../../look/page.tsx'
import { pressInRow, usePageKeys } from '../../look/page-keys.ts'
import { usePreferences } from '../../look/preferences.ts'
import { useSelection } from '../../look/selection.ts'
import { Empty } from '../../look/states.tsx'
import { TokenBulk } from './token-bulk.tsx'
import { tokenColumns } from './token-columns.tsx'
import { tokenQuery, withoutMiddle } from './token-search.ts'

type Filters = { p?: number | undefined; q?: string | undefined }

export function Tokens() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { id: openId } = useParams({ strict: false })
  const { pageSize } = usePreferences()
  const [{ p = 1, q }, setFilters] = useFilters<Filters>()
  const list = useCall('searchTokens', { query: { p, page_size: pageSize, ...tokenQuery(q) } })
  const callable = useCall('pricing', {}).data?.data.filter(({ unpriced }) => !unpriced)
  const model = callable?.[0]?.model_name ?? 'model'
  const columns = useMemo(() => tokenColumns(t, model), [t, model])
  usePageKeys({ y: { words: t('snippet.copy'), act: () => pressInRow('y') } })
  const selection = useSelection({
    visible: list.data?.items ?? [],
    idOf: ({ id }) => String(id),
    total: list.data?.total,
    read: paging => call('searchTokens', { query: { ...paging, ...tokenQuery(q) } }),
  })
  const create = () => void navigate({ to: '/tokens/new', search: true })
  return (
    <Page
      title={t('nav.tokens')}
      actions={
        <Button kind="primary" icon={Plus} data-create hint="c" onClick={create}>
          {t('tokens.create')}
        </Button>
      }
    >
      <ListSheet
        label={t('nav.tokens')}
        list={list}
        columns={columns}
        idOf={row => String(row.id)}
        nameOf={row => row.name}
        openId={openId}
        selection={selection}
        onOpen={row => void navigate({ to: '/tokens/$id', params: { id: String(row.id) }, search: true })}
        page={p}
        onPage={page => setFilters({ p: page })}
        onClear={q ? () => setFilters({ q: undefined }) : undefined}
        filters={
          <SearchBox
            label={t('tokens.search')}
            value={q}
            onChange={value => setFilters({ q: value && withoutMiddle(value) })}
          />
        }
        none={
          <Empty title={t('tokens.none')}>
            <p>{t('tokens.none_help')}</p>
            <Button kind="primary" icon={Plus} onClick={create}>
              {t('tokens.create')}
            </Button>
          </Empty>
        }
      />
      {selection.rows.length > 0 ? <TokenBulk selection={selection} /> : null}
      <Outlet />
    </Page>
  )
}
