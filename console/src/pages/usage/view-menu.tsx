import { type FormEvent, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Button, IconButton } from '../../look/button.tsx'
import { TextInput } from '../../look/field.tsx'
import { Bookmark, X } from '../../look/icons.ts'
import { Popup } from '../../look/popup.tsx'
import { setPreferences, usePreferences } from '../../look/preferences.ts'
import { isNarrowed, NO_FILTERS, readUsageFilters, type UsageFilters } from './usage-filters.ts'

/** Built-in views. */
const BUILT_IN = [
  ['errors', { status: 'failed' }],
  ['slow', { min_ms: 10_000 }],
  ['retried', { min_attempts: 2 }],
  ['expensive', { min_cost: '0.1' }],
  ['counted', { source: 'counted' }],
] as const satisfies readonly (readonly [string, Partial<UsageFilters>])[]

const MAX_NAME = 40
const MAX_VIEWS = 30
const ITEM =
  'flex min-h-8 min-w-0 grow items-center truncate px-3 text-left text-table hover:bg-sunken focus-visible:bg-sunken pointer-coarse:min-h-11'

/** Built-in views, and views saved in this browser. */
export function ViewMenu({
  filters,
  onChoose,
}: {
  readonly filters: UsageFilters
  readonly onChoose: (changes: Partial<UsageFilters>) => void
}) {
  const { t } = useTranslation()
  const { usageViews } = usePreferences()
  const [isOpen, open] = useState(false)
  const choose = (search: Partial<UsageFilters>) => {
    onChoose({ ...NO_FILTERS, ...search })
    open(false)
  }
  const save = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const name = String(new FormData(event.currentTarget).get('name')).trim().slice(0, MAX_NAME)
    if (name === '') return
    const { cursor: _place, live: _live, p: _page, ...search } = filters
    const others = usageViews.filter(view => view.name !== name)
    setPreferences({ usageViews: [...others, { name, search }].slice(-MAX_VIEWS) })
    open(false)
  }
  return (
    <Popup
      label={t('usage.views')}
      isOpen={isOpen}
      onOpenChange={open}
      trigger={<Button icon={Bookmark}>{t('usage.views')}</Button>}
    >
      <ul className="py-1">
        {BUILT_IN.map(([name, search]) => (
          <li key={name} className="flex">
            <button type="button" className={ITEM} onClick={() => choose(search)}>
              {t(`usage.view.${name}`)}
            </button>
          </li>
        ))}
      </ul>
      {usageViews.length > 0 ? (
        <ul
          className="max-h-48 overflow-y-auto border-t border-line py-1"
          aria-label={t('usage.saved_views')}
        >
          {usageViews.map(({ name, search }) => (
            <li key={name} className="flex items-center">
              <button type="button" className={ITEM} onClick={() => choose(readUsageFilters(search))}>
                {name}
              </button>
              <IconButton
                icon={X}
                label={t('usage.delete_view', { name })}
                onClick={() => setPreferences({ usageViews: usageViews.filter(view => view.name !== name) })}
              />
            </li>
          ))}
        </ul>
      ) : null}
      {isNarrowed(filters) ? (
        <form onSubmit={save} className="flex gap-2 border-t border-line p-2">
          <TextInput
            name="name"
            maxLength={MAX_NAME}
            required
            aria-label={t('usage.view_name')}
            placeholder={t('usage.view_name')}
          />
          <Button type="submit" kind="primary">
            {t('common.save')}
          </Button>
        </form>
      ) : (
        <p className="border-t border-line px-3 py-2 text-label text-ink-3">{t('usage.view_help')}</p>
      )}
    </Popup>
  )
}
