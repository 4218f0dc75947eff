import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { Button, IconButton } from './button.tsx'
import { X } from './icons.ts'
import type { RowSelection } from './selection.ts'

type SelectionBarProps = {
  readonly label: string
  readonly selection: Pick<RowSelection<unknown>, 'rows' | 'rest' | 'onChange'>
  readonly children: ReactNode
}

/** The number of selected rows, and the bulk actions. */
export function SelectionBar({ label, selection, children }: SelectionBarProps) {
  const { t } = useTranslation()
  const { rows, rest, onChange } = selection
  return (
    <section
      aria-label={label}
      className="sheet sticky bottom-16 z-10 flex flex-wrap items-center gap-2 p-2 shadow-float md:bottom-3"
    >
      <span className="px-2 font-medium" role="status">
        {t('bulk.selected', { count: rows.length })}
      </span>
      {rest ? (
        <Button kind="quiet" isBusy={rest.isBusy} onClick={() => void rest.take()}>
          {t('bulk.select_rest', { count: rest.total })}
        </Button>
      ) : null}
      {children}
      <IconButton icon={X} label={t('bulk.clear')} className="ml-auto" onClick={() => onChange(new Set())} />
    </section>
  )
}
