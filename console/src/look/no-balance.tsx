import { useTranslation } from 'react-i18next'
import { useSelf } from '../api/self.ts'
import { TriangleAlert } from './icons.ts'

/** Warns that requests are rejected without a balance. */
export function NoBalance() {
  const { t } = useTranslation()
  const { quota, unlimited_quota } = useSelf()
  if (unlimited_quota || quota > 0) return null
  return (
    <p className="flex items-center gap-2 rounded-sheet bg-warn-soft px-3 py-2">
      <TriangleAlert size={16} className="shrink-0 text-warn" aria-hidden /> {t('balance.empty')}
    </p>
  )
}
