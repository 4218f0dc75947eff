import { Outlet, useNavigate, useParams } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { call } from '../../api/client.ts'
import { useCall } from '../../api/query.ts'
import { ROLE } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { FilterChoice, SearchBox, useFilters } from '../../look/filters.tsx'
import { moneyOfSpan, unitsOfUsd } from '../../look/format.ts'
import { Plus } from '../../look/icons.ts'
import { ListSheet } from '../../look/list-sheet.tsx'
import { Page } from '../../look/page.tsx'
import { rowInFocus, usePageKeys } from '../../look/page-keys.ts'
import { usePreferences } from '../../look/preferences.ts'
import { useSelection } from '../../look/selection.ts'
import { UserBulk } from './user-bulk.tsx'
import { userColumns } from './user-columns.tsx'

type Filters = {
  p?: number | undefined
  q?: string | undefined
  role?: number | undefined
  status?: number | undefined
  /** Whole dollars. */
  below?: number | undefined
}

const ROLES = ['user', 'admin', 'root'] as const
const BALANCES_USD = [1, 5, 10, 50]

export function Users() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const { id: openId } = useParams({ strict: false })
  const { pageSize } = usePreferences()
  const [{ p = 1, q, role, status, below }, setFilters] = useFilters<Filters>()
  const filter = {
    keyword: q,
    role,
    status,
    quota_below: below === undefined ? undefined : unitsOfUsd(below),
  }
  const list = useCall('searchUsers', { query: { p, page_size: pageSize, ...filter } })
  const selection = useSelection({
    visible: list.data?.items ?? [],
    idOf: ({ id }) => String(id),
    total: list.data?.total,
    read: paging => call('searchUsers', { query: { ...paging, ...filter } }),
  })
  usePageKeys({
    b: {
      words: t('users.change_balance'),
      act: () => {
        const id = rowInFocus(list.data?.items ?? [], user => String(user.id))?.id.toString() ?? openId
        if (id) void navigate({ to: '/users/$id', params: { id }, search: true, hash: 'balance' })
      },
    },
  })
  const columns = useMemo(() => userColumns(t), [t])
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
      <ListSheet
        label={t('nav.users')}
        list={list}
        columns={columns}
        idOf={row => String(row.id)}
        nameOf={row => row.username}
        openId={openId}
        selection={selection}
        onOpen={row => void navigate({ to: '/users/$id', params: { id: String(row.id) }, search: true })}
        page={p}
        onPage={page => setFilters({ p: page })}
        // The signed-in user always exists, so an empty list means that a filter is set.
        onClear={() => setFilters({ q: undefined, role: undefined, status: undefined, below: undefined })}
        none={null}
        filters={
          <>
            <SearchBox label={t('users.search')} value={q} onChange={value => setFilters({ q: value })} />
            <FilterChoice
              label={t('users.role')}
              any={t('users.any_role')}
              value={role}
              options={ROLES.map(name => [ROLE[name] as number, t(`role.${name}`)])}
              onChange={value => setFilters({ role: value })}
            />
            <FilterChoice
              label={t('users.state')}
              any={t('channels.any_state')}
              value={status}
              options={[
                [1, t('status.enabled')],
                [2, t('status.disabled')],
              ]}
              onChange={value => setFilters({ status: value })}
            />
            <FilterChoice
              label={t('users.balance')}
              any={t('users.any_balance')}
              value={below}
              options={BALANCES_USD.map(usd => [
                usd,
                t('users.below', { amount: moneyOfSpan(unitsOfUsd(usd)) }),
              ])}
              onChange={value => setFilters({ below: value })}
            />
          </>
        }
      />
      {selection.rows.length > 0 ? <UserBulk selection={selection} /> : null}
      <Outlet />
    </Page>
  )
}
