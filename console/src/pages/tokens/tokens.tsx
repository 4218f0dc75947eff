import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { SearchBox, useFilters } from '../../look/filters.tsx'
import { FilterBar, Page, Sheet } from '../../look/page.tsx'
import { Pager } from '../../look/pager.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import { tokenColumns } from './token-columns.tsx'

type Filters = { p?: number | undefined; q?: string | undefined }

export function Tokens() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { id: openId } = useParams({ strict: false })
  const { pageSize } = usePreferences()
  const [{ p = 1, q }, setFilters] = useFilters<Filters>()
  const list = useCall('searchTokens', { query: { p, page_size: pageSize, keyword: q } })
  const columns = useMemo(() => tokenColumns(t), [t])
  const rows = list.data?.items ?? []
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
      <Sheet>
        <FilterBar>
          <SearchBox label={t('tokens.search')} value={q} onChange={value => setFilters({ q: value })} />
        </FilterBar>
        <Part result={list}>
          {rows.length > 0 ? (
            <>
              <DataTable
                label={t('nav.tokens')}
                columns={columns}
                rows={rows}
                idOf={row => String(row.id)}
                nameOf={row => row.name}
                openId={openId}
                isStale={list.isPlaceholderData}
                onOpen={row =>
                  void navigate({ to: '/tokens/$id', params: { id: String(row.id) }, search: true })
                }
              />
              <Pager page={p} total={list.data?.total ?? 0} onPage={page => setFilters({ p: page })} />
            </>
          ) : q ? (
            <Empty title={t('common.nothing_matches')}>
              <Button onClick={() => setFilters({ q: undefined })}>{t('common.drop_filters')}</Button>
            </Empty>
          ) : (
            <Empty title={t('tokens.none')}>
              <p>{t('tokens.none_help')}</p>
              <Button kind="primary" icon={Plus} onClick={create}>
                {t('tokens.create')}
              </Button>
            </Empty>
          )}
        </Part>
      </Sheet>
      <Outlet />
    </Page>
  )
}
