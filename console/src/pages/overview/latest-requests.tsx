import { useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { Empty, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import { usageColumns } from '../usage/usage-columns.tsx'
import type { Scope } from './use-series.ts'

const SHOWN = 8
const REFRESH_MS = 10_000

/** The latest requests that match the page's filter, regardless of the time range. */
export function LatestRequests({ scope }: { readonly scope: Scope }) {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const isAdmin = useIsAdmin()
  const { model, channel_id, token_id, user_id } = scope
  const query = { status: 'any', limit: SHOWN, model_name: model, channel: channel_id, token_id, user_id }
  const result = useCall('walkLogs', { query }, { refetchMs: REFRESH_MS })
  const rows = result.data?.rows ?? []
  const columns = useMemo(() => usageColumns(t, isAdmin).filter(({ isExtra }) => !isExtra), [t, isAdmin])
  return (
    <Part result={result}>
      {rows.length === 0 ? (
        <Empty title={t('usage.none')} />
      ) : (
        <DataTable
          label={t('overview.latest')}
          columns={columns}
          rows={rows}
          idOf={row => String(row.id)}
          nameOf={row => row.request_id || row.content}
          onOpen={row =>
            row.request_id &&
            void navigate({ to: '/usage/$requestId', params: { requestId: row.request_id }, search: {} })
          }
        />
      )}
    </Part>
  )
}
