import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { AlertTargetItem } from '../../api/contract.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { useFilters } from '../../look/filters.tsx'
import { Plus } from '../../look/icons.ts'
import { FilterBar, Sheet } from '../../look/page.tsx'
import { Pager, useExistingPage } from '../../look/pager.tsx'
import { usePreferences } from '../../look/preferences.ts'
import { Empty, Part } from '../../look/states.tsx'
import { StatusBadge } from '../../look/status-badge.tsx'
import { DataTable } from '../../look/table.tsx'
import type { Column } from '../../look/table-props.ts'
import { toast } from '../../look/toast.tsx'
import type { AlertFilters } from './alert-filters.ts'
import { useAlertTexts } from './alert-texts.ts'
import { TargetDialog } from './target-dialog.tsx'
import { TargetTest } from './target-test.tsx'

/** Where a target sends to, without secrets. */
const addressOf = ({ url, to, chat_id }: AlertTargetItem) => to.join(', ') || chat_id || url

/** The receivers of alerts. */
export function Targets() {
  const { t } = useTranslation()
  const { typeLabel } = useAlertTexts()
  const { pageSize } = usePreferences()
  const [{ p = 1 }, setFilters] = useFilters<AlertFilters>()
  const list = useCall('listAlertTargets', { query: { p, page_size: pageSize } })
  useExistingPage(list, page => setFilters({ p: page }))
  const remove = useRouteMutation('deleteAlertTarget')
  const [editing, setEditing] = useState<AlertTargetItem | 'new'>()
  const [testing, setTesting] = useState<AlertTargetItem>()
  const [deleting, setDeleting] = useState<AlertTargetItem>()
  const rows = list.data?.items ?? []
  const columns = useMemo<readonly Column<AlertTargetItem>[]>(
    () => [
      { id: 'name', header: t('alerts.name'), place: 'title', cell: ({ name }) => name },
      { id: 'type', header: t('alerts.type'), place: 'figure', cell: ({ type }) => typeLabel(type) },
      {
        id: 'address',
        header: t('alerts.address'),
        place: 'note',
        fromPx: 900,
        cell: target => (
          <span className="block max-w-80 truncate font-mono text-code" title={addressOf(target)}>
            {addressOf(target)}
          </span>
        ),
      },
      {
        id: 'state',
        header: t('channels.state'),
        place: 'state',
        cell: ({ enabled }) => <StatusBadge state={enabled ? 'enabled' : 'disabled'} />,
      },
      {
        id: 'actions',
        header: t('common.actions'),
        isRight: true,
        place: 'action',
        cell: target => (
          <span className="inline-flex gap-2">
            <Button
              isSmall
              onClick={() => setTesting(target)}
              aria-label={t('alerts.test_target', { name: target.name })}
            >
              {t('alerts.test')}
            </Button>
            <Button
              isSmall
              onClick={() => setDeleting(target)}
              aria-label={t('alerts.delete_target', { name: target.name })}
            >
              {t('common.delete')}
            </Button>
          </span>
        ),
      },
    ],
    [t, typeLabel],
  )
  return (
    <Sheet>
      <FilterBar>
        <Button kind="primary" icon={Plus} data-create className="ml-auto" onClick={() => setEditing('new')}>
          {t('alerts.add_target')}
        </Button>
      </FilterBar>
      <Part result={list}>
        {rows.length > 0 ? (
          <>
            <DataTable
              label={t('alerts.targets')}
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
          <Empty title={t('alerts.no_targets_yet')}>{t('alerts.no_targets_help')}</Empty>
        )}
      </Part>
      {editing ? (
        <TargetDialog
          target={editing === 'new' ? undefined : editing}
          onClose={() => setEditing(undefined)}
        />
      ) : null}
      {testing ? <TargetTest target={testing} onClose={() => setTesting(undefined)} /> : null}
      {deleting ? (
        <Confirm
          title={t('alerts.delete_target', { name: deleting.name })}
          effect={t('alerts.delete_target_effect')}
          verb={t('common.delete')}
          onClose={() => setDeleting(undefined)}
          onConfirm={async () => {
            await remove.mutateAsync({ params: { id: deleting.id } })
            toast(t('alerts.target_deleted', { name: deleting.name }))
          }}
        />
      ) : null}
    </Sheet>
  )
}
