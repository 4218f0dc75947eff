import { useTranslation } from 'react-i18next'
import { classes } from './classes.ts'
import { moneyOfSpan } from './format.ts'

const LOW = 0.2

/** A remaining quota as a bar with ticks at the quarters. */
export function QuotaBar({ remaining, total }: { readonly remaining: number; readonly total: number }) {
  const { t } = useTranslation()
  const part = total > 0 ? Math.min(1, Math.max(0, remaining / total)) : 0
  const isEmpty = remaining <= 0
  return (
    <span className="inline-flex min-w-32 flex-col gap-0.5">
      <span className={classes('text-table', isEmpty && 'text-warn')}>
        {isEmpty
          ? t('level.used_up')
          : t('level.remaining', { remaining: moneyOfSpan(remaining), total: moneyOfSpan(total) })}
      </span>
      <svg viewBox="0 0 100 5" preserveAspectRatio="none" className="h-1.5 w-full" aria-hidden="true">
        <rect x="0" y="0" width="100" height="5" className="fill-sunken" />
        <rect
          x="0"
          y="0"
          width={part * 100}
          height="5"
          className={part < LOW ? 'fill-warn' : 'fill-accent'}
        />
        <path d="M25 0v5M50 0v5M75 0v5" className="stroke-sheet" strokeWidth="0.6" />
      </svg>
    </span>
  )
}
