import { X } from 'lucide-react'
import { useTranslation } from 'react-i18next'
import { Button } from '../../look/button.tsx'
import type { UsageFilters } from './usage.tsx'

const CHIPS = ['model', 'token', 'user', 'channel'] as const

/** Filters that came from elsewhere, each to be dropped by itself. */
export function FilterChips({
  filters,
  onDrop,
}: {
  readonly filters: UsageFilters
  readonly onDrop: (changes: Partial<UsageFilters>) => void
}) {
  const { t } = useTranslation()
  return CHIPS.filter(name => filters[name] !== undefined).map(name => (
    <Button
      key={name}
      icon={X}
      title={t('usage.drop', { name: t(`usage.by.${name}`) })}
      onClick={() => onDrop({ [name]: undefined })}
    >
      {t(`usage.by.${name}`)}: {filters[name]}
    </Button>
  ))
}
