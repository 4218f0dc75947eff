import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { span } from '../../look/format.ts'
import { Money } from '../../look/money.tsx'

const LOOK_MS = 1_000

export type CompletedRequest = {
  readonly requestId: string
  readonly totalMs: number
}

/** The duration and, once the ledger has it, the cost of a request. */
export function Receipt({
  request: { requestId, totalMs },
  children,
}: {
  readonly request: CompletedRequest
  readonly children?: ReactNode
}) {
  const { t } = useTranslation()
  const row = useCall(
    'listOwnLogs',
    { query: { request_id: requestId, page_size: 1 } },
    { refetchMs: ({ items }) => (items.length > 0 ? false : LOOK_MS) },
  )
  const logRow = row.data?.items[0]
  return (
    <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-label text-ink-3">
      {children}
      <span>{t('playground.total', { time: span(totalMs) })}</span>
      {logRow ? <Money usd={logRow.cost} /> : null}
      <Link to="/usage/$requestId" params={{ requestId }}>
        {t('start.open')}
      </Link>
    </p>
  )
}
