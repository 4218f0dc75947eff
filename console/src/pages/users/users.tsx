import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { Plus } from 'lucide-react'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { ROLE } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Choice } from '../../look/field.tsx'
import { SearchBox, useFilters } from '../../look/filters.tsx'
import { FilterBar, Page, Sheet } from '../../look/page.tsx'
import { Pager } from '../../look/pager.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import { userColumns } from './user-columns.tsx'

type Filters = {
  p?: number | undefined
  q?: string | undefined
  role?: number | undefined
  status?: number | undefined
}

const ROLES = ['user', 'admin', 'root'] as const

export function Users() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { id: openId } = useParams({ strict: false })
  const { pageSize } = usePreferences()
  const [{ p = 1, q, role, status }, setFilters] = useFilters<Filters>()
  const list = useCall('searchUsers', { query: { p, page_size: pageSize, keyword: q, role, status } })
  const columns = useMemo(() => userColumns(t), [t])
  const rows = list.data?.items ?? []
  return (
    <Page
      title={t('nav.users')}
      actions={
        <Button
          kind="primary"
          icon={Plus}
          data-create
          hint="c"
          onClick={() => void navigate({ to: '/users/new', search: true })}
        >
          {t('users.add')}
        </Button>
      }
    >
      <Sheet>
        <FilterBar>
          <SearchBox label={t('users.search')} value={q} onChange={value => setFilters({ q: value })} />
          <Choice
            aria-label={t('users.role')}
            value={role ?? ''}
            onChange={event => setFilters({ role: Number(event.target.value) || undefined })}
          >
            <option value="">{t('users.any_role')}</option>
            {ROLES.map(name => (
              <option key={name} value={ROLE[name]}>
                {t(`role.${name}`)}
              </option>
            ))}
          </Choice>
          <Choice
            aria-label={t('users.state')}
            value={status ?? ''}
            onChange={event => setFilters({ status: Number(event.target.value) || undefined })}
          >
            <option value="">{t('channels.any_state')}</option>
            <option value={1}>{t('gate.on')}</option>
            <option value={2}>{t('gate.off')}</option>
          </Choice>
        </FilterBar>
        <Part result={list}>
          {rows.length > 0 ? (
            <>
              <DataTable
                label={t('nav.users')}
                columns={columns}
                rows={rows}
                idOf={row => String(row.id)}
                nameOf={row => row.username}
                openId={openId}
                isStale={list.isPlaceholderData}
                onOpen={row =>
                  void navigate({ to: '/users/$id', params: { id: String(row.id) }, search: true })
                }
              />
              <Pager page={p} total={list.data?.total ?? 0} onPage={page => setFilters({ p: page })} />
            </>
          ) : (
            <Empty title={t('common.nothing_matches')}>
              <Button onClick={() => setFilters({ q: undefined, role: undefined, status: undefined })}>
                {t('common.drop_filters')}
              </Button>
            </Empty>
          )}
        </Part>
      </Sheet>
      <Outlet />
    </Page>
  )
}
