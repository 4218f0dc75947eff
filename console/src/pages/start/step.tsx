import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { classes } from '../../look/classes.ts'
import { Check } from '../../look/icons.ts'

type StepProps = {
  readonly number: number
  readonly title: string
  readonly isDone: boolean
  readonly isOpen: boolean
  /** Shown in the header of a folded step. */
  readonly action?: ReactNode
  readonly children: ReactNode
}

export function Step({ number, title, isDone, isOpen, action, children }: StepProps) {
  const { t } = useTranslation()
  return (
    <li className="sheet p-4" data-step={number}>
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h2 className="flex items-center gap-3 text-section font-semibold">
          <span
            className={classes(
              'grid size-6 shrink-0 place-items-center rounded-full text-label',
              isDone ? 'bg-ok text-sheet' : 'border border-edge text-ink-2',
            )}
          >
            {isDone ? <Check size={14} aria-hidden /> : number}
          </span>
          {title}
          {isDone ? <span className="text-label font-normal text-ok">{t('start.done')}</span> : null}
        </h2>
        {isOpen ? null : action}
      </div>
      {isOpen ? <div className="flex flex-col gap-4 pt-4 sm:pl-9">{children}</div> : null}
    </li>
  )
}
