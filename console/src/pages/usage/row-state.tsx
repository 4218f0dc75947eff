import { useTranslation } from 'react-i18next'
import type { UsageItem } from '../../api/contract.ts'
import { count } from '../../look/format.ts'
import { StatusIcon } from '../../look/status-badge.tsx'
import { isFailed, isRejected, isRequest, otherOf, ROW } from './log-row.ts'

/** Status of a row, as icon and text. */
export function RowState({ row }: { readonly row: UsageItem }) {
  const { t, i18n } = useTranslation()
  const kind = isRejected(row) ? 'rejected' : isFailed(row) ? ROW.error : row.type
  const key = `usage.row.${kind}`
  const words = i18n.exists(key) ? t(key as 'usage.row.2') : String(row.type)
  const code = isFailed(row) ? otherOf(row).error_code : undefined
  if (isRequest(row))
    return (
      <span className="flex flex-col">
        <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
          <StatusIcon state={isRejected(row) ? 'disabled' : isFailed(row) ? 'auto_disabled' : 'enabled'} />
          {words}
          {row.requests > 1 ? <span className="text-ink-3">× {count(row.requests)}</span> : null}
        </span>
        {code ? <span className="truncate font-mono text-label text-ink-3">{code}</span> : null}
      </span>
    )
  return <span className="whitespace-nowrap text-ink-2">{words}</span>
}
