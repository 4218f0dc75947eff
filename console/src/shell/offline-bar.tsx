import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { ApiError, OFFLINE } from '../api/errors.ts'

/** Reports that the gateway is unreachable, until a request succeeds. */
export function OfflineBar() {
  const { t } = useTranslation()
  const client = useQueryClient()
  const [isOffline, setOffline] = useState(false)
  useEffect(
    () =>
      client.getQueryCache().subscribe(({ type, query }) => {
        if (type !== 'updated') return
        const { error, fetchFailureReason, status, fetchStatus } = query.state
        const failure = fetchFailureReason ?? error
        if (failure instanceof ApiError && failure.code === OFFLINE) setOffline(true)
        else if (status === 'success' && fetchStatus === 'idle') setOffline(false)
      }),
    [client],
  )
  return isOffline ? (
    <p role="status" className="bg-warn-soft px-4 py-2 text-warn">
      {t('fault.offline')}
    </p>
  ) : null
}
