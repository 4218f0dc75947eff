import { useTranslation } from 'react-i18next'
import type { UsageItem } from '../../api/contract.ts'
import { StatusIcon } from '../../look/status-badge.tsx'
import { isFailed, isRequest, ROW } from './log-row.ts'

/** Status of a row, as icon and text. */
export function RowState({ row }: { readonly row: UsageItem }) {
  const { t, i18n } = useTranslation()
  const key = `usage.row.${isFailed(row) ? ROW.error : row.type}`
  const words = i18n.exists(key) ? t(key as 'usage.row.2') : String(row.type)
  if (isRequest(row))
    return (
      <span className="inline-flex items-center gap-1.5 whitespace-nowrap">
        <StatusIcon state={isFailed(row) ? 'auto_disabled' : 'enabled'} />
        {words}
      </span>
    )
  return <span className="whitespace-nowrap text-ink-2">{words}</span>
}
