import { Check, ChevronDown } from 'lucide-react'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { TextInput } from '../../look/field.tsx'
import { count } from '../../look/format.ts'
import { Popup } from '../../look/popup.tsx'
import { Part } from '../../look/states.tsx'
import type { Question, UsageFilters } from './usage-filters.ts'

export type Facet = 'model' | 'channel' | 'token' | 'user'

/** The filter that chooses one, and those that it takes the place of. */
const CHOOSES = {
  model: value => ({ model: value, q: undefined }),
  channel: value => ({ channel: Number(value) }),
  token: value => ({ token_id: Number(value), token: undefined }),
  user: value => ({ user_id: Number(value), user: undefined }),
} as const satisfies Record<Facet, (value: string) => Partial<UsageFilters>>
const CHOSEN = { model: 'model', channel: 'channel', token: 'token_id', user: 'user_id' } as const

type FacetMenuProps = {
  readonly facet: Facet
  readonly question: Question
  readonly filters: UsageFilters
  readonly onChoose: (changes: Partial<UsageFilters>) => void
  readonly isFirst: boolean
}

const MOST = 200

/** What there is in the range, with how many requests each has; asked for when it is opened. */
export function FacetMenu({ facet, question, filters, onChoose, isFirst }: FacetMenuProps) {
  const { t } = useTranslation()
  const [isOpen, open] = useState(false)
  const [text, setText] = useState('')
  const result = useCall('logFacets', { query: { ...question, by: facet, limit: MOST } }, { enabled: isOpen })
  const { values = [], is_exact: isExact = true } = result.data ?? {}
  const found = values.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()))
  const chosen = filters[CHOSEN[facet]]
  const words = t(`usage.by.${facet}`)
  return (
    <Popup
      label={words}
      isOpen={isOpen}
      onOpenChange={isNow => {
        open(isNow)
        setText('')
      }}
      trigger={
        <Button data-add-filter={isFirst || undefined} aria-pressed={chosen !== undefined}>
          {words}
          <ChevronDown size={14} aria-hidden />
        </Button>
      }
    >
      <div className="border-b border-line p-2">
        <TextInput
          type="search"
          aria-label={t('usage.facet_find', { name: words })}
          placeholder={t('usage.facet_find', { name: words })}
          value={text}
          onChange={event => setText(event.target.value)}
        />
      </div>
      <Part result={result}>
        {found.length === 0 ? (
          <p className="p-3 text-table text-ink-3">{t('common.nothing_matches')}</p>
        ) : (
          <ul className="max-h-72 overflow-y-auto py-1">
            {found.map(({ key, name, count: requests }) => (
              <li key={key}>
                <button
                  type="button"
                  aria-pressed={String(chosen) === key}
                  onClick={() => {
                    onChoose({ ...CHOOSES[facet](key), cursor: undefined })
                    open(false)
                  }}
                  className="flex min-h-8 w-full items-center gap-2 px-3 text-left text-table hover:bg-sunken focus-visible:bg-sunken pointer-coarse:min-h-11"
                >
                  <span className="min-w-0 grow truncate" title={name}>
                    {name}
                  </span>
                  {String(chosen) === key ? <Check size={14} aria-hidden /> : null}
                  <span className="text-ink-3">{count(requests)}</span>
                </button>
              </li>
            ))}
          </ul>
        )}
        {isExact ? null : (
          <p className="border-t border-line px-3 py-2 text-label text-ink-3">{t('usage.facet_newest')}</p>
        )}
      </Part>
    </Popup>
  )
}
