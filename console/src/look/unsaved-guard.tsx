import { useBlocker } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Confirm } from './confirm.tsx'

/** Asks before navigation discards unsaved changes. */
export function UnsavedGuard({ isDirty }: { readonly isDirty: () => boolean }) {
  const { t } = useTranslation()
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: isDirty,
    enableBeforeUnload: isDirty,
    withResolver: true,
  })
  if (status !== 'blocked') return null
  return (
    <Confirm
      title={t('unsaved.title')}
      effect={t('unsaved.effect')}
      verb={t('unsaved.leave')}
      onClose={reset}
      onConfirm={async () => proceed()}
    />
  )
}
