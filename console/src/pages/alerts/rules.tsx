import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { alertKind } from '../../../../src/domain/alert.ts'
import type { AlertRuleItem } from '../../api/contract.ts'
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
import { RuleDialog } from './rule-dialog.tsx'

const MAX_TARGETS = 100

/** What is observed, when, and where messages go. */
export function Rules() {
  const { t } = useTranslation()
  const { language, kindLabel, ruleName } = useAlertTexts()
  const { pageSize } = usePreferences()
  const [{ p = 1 }, setFilters] = useFilters<AlertFilters>()
  const list = useCall('listAlertRules', { query: { p, page_size: pageSize } })
  useExistingPage(list, page => setFilters({ p: page }))
  const targets = useCall('listAlertTargets', { query: { p: 1, page_size: MAX_TARGETS } })
  const firing = useCall('listFiringAlerts', {})
  const remove = useRouteMutation('deleteAlertRule')
  const [editing, setEditing] = useState<AlertRuleItem | 'new'>()
  const [deleting, setDeleting] = useState<AlertRuleItem>()
  const rows = list.data?.items ?? []
  const columns = useMemo<readonly Column<AlertRuleItem>[]>(() => {
    const nameOf = (id: number) => targets.data?.items.find(target => target.id === id)?.name ?? `#${id}`
    const countOf = (id: number) => firing.data?.filter(alert => alert.rule_id === id).length ?? 0
    return [
      { id: 'name', header: t('alerts.name'), place: 'title', cell: ruleName },
      {
        id: 'kind',
        header: t('alerts.kind'),
        place: 'note',
        fromPx: 700,
        cell: ({ kind }) => <span className="text-ink-2">{kindLabel(kind)}</span>,
      },
      {
        id: 'threshold',
        header: t('alerts.threshold'),
        isRight: true,
        fromPx: 900,
        cell: ({ kind, threshold }) => {
          const unit = alertKind(kind).threshold?.unit[language]
          return threshold === null ? <span className="text-ink-3">–</span> : `${threshold} ${unit ?? ''}`
        },
      },
      {
        id: 'targets',
        header: t('alerts.targets'),
        fromPx: 900,
        cell: ({ target_ids }) => {
          if (target_ids === null) return t('alerts.all_targets')
          return target_ids.length === 0 ? t('alerts.no_targets') : target_ids.map(nameOf).join(', ')
        },
      },
      {
        id: 'firing',
        header: t('alerts.firing_column'),
        isRight: true,
        place: 'figure',
        cell: ({ id }) =>
          countOf(id) === 0 ? (
            <span className="text-ink-3">0</span>
          ) : (
            <span className="font-medium text-bad">{countOf(id)}</span>
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
        cell: rule => (
          <Button
            isSmall
            onClick={() => setDeleting(rule)}
            aria-label={t('alerts.delete_rule', { name: ruleName(rule) })}
          >
            {t('common.delete')}
          </Button>
        ),
      },
    ]
  }, [t, language, kindLabel, ruleName, targets.data, firing.data])
  return (
    <Sheet>
      <FilterBar>
        {targets.data?.total === 0 ? (
          <p className="max-w-[640px] text-ink-2">{t('alerts.needs_target')}</p>
        ) : null}
        <Button kind="primary" icon={Plus} data-create className="ml-auto" onClick={() => setEditing('new')}>
          {t('alerts.add_rule')}
        </Button>
      </FilterBar>
      <Part result={list}>
        {rows.length > 0 ? (
          <>
            <DataTable
              label={t('alerts.rules')}
              columns={columns}
              rows={rows}
              idOf={row => String(row.id)}
              nameOf={ruleName}
              isStale={list.isPlaceholderData}
              onOpen={setEditing}
            />
            <Pager page={p} total={list.data?.total ?? 0} onPage={page => setFilters({ p: page })} />
          </>
        ) : (
          <Empty title={t('alerts.no_rules')}>{t('alerts.no_rules_help')}</Empty>
        )}
      </Part>
      {editing ? (
        <RuleDialog
          rule={editing === 'new' ? undefined : editing}
          targets={targets.data?.items ?? []}
          onClose={() => setEditing(undefined)}
        />
      ) : null}
      {deleting ? (
        <Confirm
          title={t('alerts.delete_rule', { name: ruleName(deleting) })}
          effect={t('alerts.delete_rule_effect')}
          verb={t('common.delete')}
          onClose={() => setDeleting(undefined)}
          onConfirm={async () => {
            await remove.mutateAsync({ params: { id: deleting.id } })
            toast(t('alerts.rule_deleted', { name: ruleName(deleting) }))
          }}
        />
      ) : null}
    </Sheet>
  )
}
