import { useNavigate } from '@tanstack/react-router'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { useIsAdmin } from '../../api/self.ts'
import { Empty, Part } from '../../look/states.tsx'
import { DataTable } from '../../look/table.tsx'
import { usageColumns } from '../usage/usage-columns.tsx'

const SHOWN = 8
const REFRESH_MS = 10_000

export function LatestRequests() {
  const { t } = useTranslation()
  const navigate = useNavigate()
  const isAdmin = useIsAdmin()
  const query = { page_size: SHOWN }
  const all = useCall('listLogs', { query }, { enabled: isAdmin, everyMs: REFRESH_MS })
  const own = useCall('listOwnLogs', { query }, { enabled: !isAdmin, everyMs: REFRESH_MS })
  const result = isAdmin ? all : own
  const rows = result.data?.items ?? []
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
