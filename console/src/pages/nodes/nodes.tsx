import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { NodeItem } from '../../api/contract.ts'
import { useCall, useRouteMutation } from '../../api/query.ts'
import { useIsRoot } from '../../api/self.ts'
import { Button } from '../../look/button.tsx'
import { Confirm } from '../../look/confirm.tsx'
import { count } from '../../look/format.ts'
import { Moment } from '../../look/moment.tsx'
import { Money } from '../../look/money.tsx'
import { Page, Sheet } from '../../look/page.tsx'
import { Empty, Part } from '../../look/states.tsx'
import { StatusIcon, type StatusName } from '../../look/status-badge.tsx'
import { DataTable } from '../../look/table.tsx'
import type { Column } from '../../look/table-props.ts'
import { toast } from '../../look/toast.tsx'

const REFRESH_MS = 2_000

const ICONS = {
  up: 'enabled',
  silent: 'cooling_down',
  fenced: 'auto_disabled',
  draining: 'disabled',
  retired: 'disabled',
} as const satisfies Record<NodeItem['state'], StatusName>

function NodeStateBadge({ node }: { readonly node: NodeItem }) {
  const { t } = useTranslation()
  return (
    <span className="inline-flex flex-col gap-0.5">
      <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
        <StatusIcon state={ICONS[node.state]} />
        {t(`nodes.state.${node.state}`)}
      </span>
      {node.state === 'silent' ? (
        <span className="text-small text-ink-3">
          {t('nodes.fenced_at')} <Moment at={node.fenced_time} />
        </span>
      ) : null}
    </span>
  )
}

type Action = { readonly verb: 'drain' | 'retire'; readonly node: NodeItem }

/** The nodes of all gateways that share the database. */
export function Nodes() {
  const { t } = useTranslation()
  const isRoot = useIsRoot()
  const list = useCall('listNodes', {}, { refetchMs: REFRESH_MS })
  const drain = useRouteMutation('drainNode')
  const retire = useRouteMutation('retireNode')
  const [action, setAction] = useState<Action>()
  const rows = list.data ?? []
  const columns = useMemo<readonly Column<NodeItem>[]>(
    () => [
      {
        id: 'name',
        header: t('nodes.name'),
        place: 'title',
        cell: ({ name, id }) => (
          <span className="inline-flex flex-col">
            {name}
            <span className="font-mono text-code text-ink-3">{id}</span>
          </span>
        ),
      },
      {
        id: 'state',
        header: t('channels.state'),
        place: 'state',
        cell: node => <NodeStateBadge node={node} />,
      },
      {
        id: 'changes',
        header: t('nodes.changes'),
        place: 'figure',
        cell: ({ applied, position }) =>
          applied >= position
            ? t('nodes.up_to_date')
            : t('nodes.behind', { figure: count(position - applied) }),
      },
      {
        id: 'heartbeat',
        header: t('nodes.heartbeat'),
        place: 'note',
        cell: node => <Moment at={node.heartbeat_time} />,
      },
      {
        id: 'in_flight',
        header: t('nodes.in_flight'),
        isRight: true,
        fromPx: 700,
        cell: node => count(node.in_flight),
      },
      {
        id: 'leased',
        header: t('nodes.leased'),
        isRight: true,
        fromPx: 900,
        cell: node => <Money usd={node.leased} />,
      },
      { id: 'version', header: t('nodes.version'), fromPx: 1_100, cell: node => node.version },
      {
        id: 'address',
        header: t('nodes.address'),
        fromPx: 1_100,
        cell: node => <span className="font-mono text-code">{node.address}</span>,
      },
      ...(isRoot
        ? [
            {
              id: 'actions',
              header: t('common.actions'),
              isRight: true,
              place: 'action' as const,
              cell: (node: NodeItem) =>
                node.state === 'fenced' ? (
                  <Button
                    isSmall
                    onClick={() => setAction({ verb: 'retire', node })}
                    aria-label={t('nodes.retire_node', { name: node.name })}
                  >
                    {t('nodes.retire')}
                  </Button>
                ) : node.state === 'up' ? (
                  <Button
                    isSmall
                    onClick={() => setAction({ verb: 'drain', node })}
                    aria-label={t('nodes.drain_node', { name: node.name })}
                  >
                    {t('nodes.drain')}
                  </Button>
                ) : null,
            },
          ]
        : []),
    ],
    [t, isRoot],
  )
  const confirm = async ({ verb, node }: Action) => {
    if (verb === 'drain') {
      await drain.mutateAsync({ params: { id: node.id } })
      toast(t('nodes.drained', { name: node.name }))
      return
    }
    const { leased } = await retire.mutateAsync({ params: { id: node.id } })
    toast(t('nodes.retired', { name: node.name, amount: `$${leased}` }))
  }
  return (
    <Page title={t('nav.nodes')}>
      <Sheet>
        <Part result={list}>
          {rows.length > 0 ? (
            <DataTable
              label={t('nav.nodes')}
              columns={columns}
              rows={rows}
              idOf={row => row.id}
              nameOf={row => row.name}
            />
          ) : (
            <Empty title={t('nodes.none')} />
          )}
        </Part>
      </Sheet>
      {action ? (
        <Confirm
          title={t(`nodes.${action.verb}_node`, { name: action.node.name })}
          effect={t(`nodes.${action.verb}_effect`)}
          verb={t(`nodes.${action.verb}`)}
          onClose={() => setAction(undefined)}
          onConfirm={() => confirm(action)}
        />
      ) : null}
    </Page>
  )
}
