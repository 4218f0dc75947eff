import { useEffect } from 'react'
import { useTranslation } from 'react-i18next'
import { IconButton } from './button.tsx'
import { Choice } from './field.tsx'
import { count } from './format.ts'
import { ChevronLeft, ChevronRight } from './icons.ts'
import { PAGE_SIZES, setPreferences, usePreferences } from './preferences.ts'

type PagerProps = { readonly page: number; readonly total: number; readonly onPage: (page: number) => void }

/** The page size. `onChange` is called after a change, because the list starts again at its first page. */
export function PageSize({ onChange }: { readonly onChange: () => void }) {
  const { t } = useTranslation()
  const { pageSize } = usePreferences()
  return (
    <span className="flex items-center gap-2">
      <span className="max-sm:hidden" aria-hidden="true">
        {t('pager.size')}
      </span>
      <Choice
        aria-label={t('pager.size')}
        value={pageSize}
        onChange={event => {
          setPreferences({ pageSize: Number(event.target.value) })
          onChange()
        }}
      >
        {PAGE_SIZES.map(size => (
          <option key={size}>{size}</option>
        ))}
      </Choice>
    </span>
  )
}

type PagedList = {
  readonly data: { readonly items: readonly unknown[]; readonly total: number } | undefined
  readonly isPlaceholderData: boolean
}

/** Goes to the last page if the list is now shorter: an empty page would say that there is nothing at all. */
export function useExistingPage(
  { data, isPlaceholderData }: PagedList,
  onPage: (page: number) => void,
): void {
  const { pageSize } = usePreferences()
  const isBeyondEnd = !isPlaceholderData && data !== undefined && data.items.length === 0 && data.total > 0
  const last = isBeyondEnd ? Math.ceil(data.total / pageSize) : undefined
  // biome-ignore lint/correctness/useExhaustiveDependencies: once for each page that does not exist
  useEffect(() => {
    if (last !== undefined) onPage(last)
  }, [last])
}

export function Pager({ page, total, onPage }: PagerProps) {
  const { t } = useTranslation()
  const { pageSize } = usePreferences()
  const last = Math.max(1, Math.ceil(total / pageSize))
  const from = total === 0 ? 0 : (page - 1) * pageSize + 1
  const to = Math.min(page * pageSize, total)
  return (
    <nav
      aria-label={t('pager.label')}
      className="flex flex-wrap items-center justify-between gap-2 px-3 py-2 text-table text-ink-2"
    >
      <span role="status">{t('pager.range', { from: count(from), to: count(to), total: count(total) })}</span>
      <span className="flex items-center gap-1">
        <PageSize onChange={() => onPage(1)} />
        <IconButton
          icon={ChevronLeft}
          label={t('pager.previous')}
          disabled={page <= 1}
          onClick={() => onPage(page - 1)}
        />
        <IconButton
          icon={ChevronRight}
          label={t('pager.next')}
          disabled={page >= last}
          onClick={() => onPage(page + 1)}
        />
      </span>
    </nav>
  )
}
