import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Alias } from '../../api/contract.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { SearchBox, useFilters } from '../../look/filters.tsx'
import { Plus } from '../../look/icons.ts'
import { FilterBar, Sheet } from '../../look/page.tsx'
import { Pager } from '../../look/pager.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Part } from '../../look/states.tsx'
import { StatusBadge } from '../../look/status-badge.tsx'
import { DataTable } from '../../look/table.tsx'
import type { Column } from '../../look/table-props.ts'
import { toast } from '../../look/toast.tsx'
import { AliasDialog } from './alias-dialog.tsx'
import type { ModelFilters } from './model-filters.ts'

/** Aliases of models. */
export function Aliases() {
  const { t } = useTranslation()
  const { pageSize } = usePreferences()
  const [{ p = 1, q }, setFilters] = useFilters<ModelFilters>()
  const list = useCall('listAliases', { query: { p, page_size: pageSize, keyword: q } })
  const remove = useRouteMutation('deleteAlias')
  const [editing, setEditing] = useState<Alias | 'new'>()
  const [deleting, setDeleting] = useState<Alias>()
  const rows = list.data?.items ?? []
  const columns = useMemo<readonly Column<Alias>[]>(
    () => [
      {
        id: 'name',
        header: t('aliases.name'),
        place: 'title',
        cell: ({ name }) => <span className="font-mono text-code">{name}</span>,
      },
      {
        id: 'target',
        header: t('aliases.target'),
        place: 'note',
        cell: ({ target }) => <span className="font-mono text-code">→ {target}</span>,
      },
      {
        id: 'state',
        header: t('channels.state'),
        place: 'state',
        cell: ({ status }) => <StatusBadge state={status === 1 ? 'enabled' : 'disabled'} />,
      },
      {
        id: 'channels',
        header: t('aliases.channels'),
        fromPx: 900,
        cell: ({ channel_ids }) =>
          channel_ids?.length ? channel_ids.map(id => `#${id}`).join(', ') : t('aliases.any_channel'),
      },
      {
        id: 'actions',
        header: t('common.actions'),
        isRight: true,
        place: 'action',
        cell: alias => (
          <Button
            isSmall
            onClick={() => setDeleting(alias)}
            aria-label={t('aliases.delete', { name: alias.name })}
          >
            {t('common.delete')}
          </Button>
        ),
      },
    ],
    [t],
  )
  return (
    <Sheet>
      <FilterBar>
        <SearchBox label={t('aliases.search')} value={q} onChange={value => setFilters({ q: value })} />
        <Button kind="primary" icon={Plus} data-create className="ml-auto" onClick={() => setEditing('new')}>
          {t('aliases.add')}
        </Button>
      </FilterBar>
      <Part result={list}>
        {rows.length > 0 ? (
          <>
            <DataTable
              label={t('aliases.title')}
              columns={columns}
              rows={rows}
              idOf={row => String(row.id)}
              nameOf={row => row.name}
              isStale={list.isPlaceholderData}
              onOpen={setEditing}
            />
            <Pager page={p} total={list.data?.total ?? 0} onPage={page => setFilters({ p: page })} />
          </>
        ) : (
          <Empty title={q ? t('common.nothing_matches') : t('aliases.none')}>{t('aliases.help')}</Empty>
        )}
      </Part>
      {editing ? (
        <AliasDialog alias={editing === 'new' ? undefined : editing} onClose={() => setEditing(undefined)} />
      ) : null}
      {deleting ? (
        <Confirm
          title={t('aliases.delete', { name: deleting.name })}
          effect={t('aliases.delete_effect')}
          verb={t('common.delete')}
          onClose={() => setDeleting(undefined)}
          onConfirm={async () => {
            await remove.mutateAsync({ params: { id: deleting.id } })
            toast(t('aliases.deleted', { name: deleting.name }))
          }}
        />
      ) : null}
    </Sheet>
  )
}
