import { useTranslation } from 'react-i18next'
import { Button } from '../../look/button.tsx'
import { ChevronLeft, ChevronRight } from '../../look/icons.ts'
import { PageSize } from '../../look/pager.tsx'

type CursorPagerProps = {
  readonly cursor: string | undefined
  readonly next: string | undefined
  readonly onStep: (to: string | undefined) => void
  readonly onSize: () => void
}

/** Pages of the log by cursor, from the latest row; the total is not counted. */
export function CursorPager({ cursor, next, onStep, onSize }: CursorPagerProps) {
  const { t } = useTranslation()
  return (
    <nav
      aria-label={t('pager.label')}
      className="flex flex-wrap items-center justify-between gap-2 px-3 py-2 text-table text-ink-2"
    >
      <PageSize onChange={onSize} />
      <span className="flex gap-2">
        <Button icon={ChevronLeft} disabled={!cursor} onClick={() => onStep(undefined)}>
          {t('usage.newest')}
        </Button>
        <Button disabled={!next} onClick={() => onStep(next)}>
          {t('usage.older')}
          <ChevronRight size={16} aria-hidden />
        </Button>
      </span>
    </nav>
  )
}
