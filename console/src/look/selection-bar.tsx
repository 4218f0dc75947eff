import { X } from 'lucide-react'
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { IconButton } from './button.tsx'

type SelectionBarProps = {
  readonly label: string
  readonly count: number
  readonly onClear: () => void
  readonly children: ReactNode
}

/** Below a list: how many of its rows are selected, and what can be done to all of them at once. */
export function SelectionBar({ label, count, onClear, children }: SelectionBarProps) {
  const { t } = useTranslation()
  return (
    <section
      aria-label={label}
      className="sheet sticky bottom-16 z-10 flex flex-wrap items-center gap-2 p-2 shadow-float md:bottom-3"
    >
      <span className="px-2 font-medium" role="status">
        {t('bulk.selected', { count })}
      </span>
      {children}
      <IconButton icon={X} label={t('bulk.clear')} className="ml-auto" onClick={onClear} />
    </section>
  )
}
