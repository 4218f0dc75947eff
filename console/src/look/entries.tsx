import { Link } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import type { EntryItem } from '../api/contract.ts'
import { moneyOfLedger } from './format.ts'
import { Moment } from './moment.tsx'
import { DataTable } from './table.tsx'
import type { Column } from './table-props.ts'

/** Ledger entries to the nanodollar, with actor and reason. */
export function Entries({
  entries,
  isShort = false,
}: {
  readonly entries: readonly EntryItem[]
  readonly isShort?: boolean
}) {
  const { t } = useTranslation()
  const columns = useMemo<readonly Column<EntryItem>[]>(
    () => [
      { id: 'time', header: t('usage.time'), place: 'note', cell: ({ time }) => <Moment at={time} /> },
      { id: 'kind', header: t('usage.kind'), place: 'title', cell: ({ kind }) => t(`ledger.kind.${kind}`) },
      {
        id: 'amount',
        header: t('ledger.amount'),
        isRight: true,
        place: 'figure',
        cell: ({ amount }) => moneyOfLedger(amount),
      },
      {
        id: 'reason',
        header: t('users.reason'),
        place: 'state',
        cell: ({ reason, request_id }) =>
          request_id ? (
            <Link to="/usage/$requestId" params={{ requestId: request_id }} className="font-mono text-code">
              {request_id}
            </Link>
          ) : (
            reason
          ),
      },
      ...(isShort ? [] : [{ id: 'actor', header: t('audit.actor'), cell: ({ actor }: EntryItem) => actor }]),
    ],
    [t, isShort],
  )
  return (
    <DataTable
      label={t('ledger.entries')}
      columns={columns}
      rows={entries}
      idOf={({ chain, seq, kind }) => `${chain} ${seq} ${kind}`}
      nameOf={({ chain, seq }) => `${chain} ${seq}`}
    />
  )
}
