import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useCall } from '../../api/query.ts'
import { Button } from '../../look/button.tsx'
import { TextInput } from '../../look/field.tsx'
import { count } from '../../look/format.ts'
import { Check, ChevronDown } from '../../look/icons.ts'
import { Popup } from '../../look/popup.tsx'
import { Part } from '../../look/states.tsx'
import { choosing, chosenOf, FACETS, type UsageFacet } from './facets.ts'
import type { LogQuery, UsageFilters } from './usage-filters.ts'

type FacetMenuProps = {
  readonly facet: UsageFacet
  readonly logQuery: LogQuery
  readonly filters: UsageFilters
  readonly onChoose: (changes: Partial<UsageFilters>) => void
  readonly isFirst: boolean
}

const MAX_VALUES = 200

/** Values of a facet. Menus and chips share the query. */
export const useFacet = (facet: UsageFacet, logQuery: LogQuery, enabled: boolean) =>
  useCall('logFacets', { query: { ...logQuery, by: facet, limit: MAX_VALUES } }, { enabled })

/** The values of a facet in the time range with their request counts, loaded when the menu opens. */
export function FacetMenu({ facet, logQuery, filters, onChoose, isFirst }: FacetMenuProps) {
  const { t } = useTranslation()
  const [isOpen, open] = useState(false)
  const [text, setText] = useState('')
  const chosen = chosenOf(filters, facet)
  const [isNot, setNot] = useState(chosen.isNot)
  const result = useFacet(facet, logQuery, isOpen)
  const { values = [], is_exact: isExact = true } = result.data ?? {}
  const matches = values.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()))
  const words = t(`usage.by.${facet}`)
  const toggle = (key: string) => {
    const others = chosen.values.filter(value => value !== key)
    onChoose(choosing(facet, { values: chosen.values.includes(key) ? others : [...others, key], isNot }))
  }
  const turn = (isNow: boolean) => {
    setNot(isNow)
    if (chosen.values.length > 0) onChoose(choosing(facet, { values: chosen.values, isNot: isNow }))
  }
  return (
    <Popup
      label={words}
      isOpen={isOpen}
      onOpenChange={isNow => {
        open(isNow)
        setText('')
        setNot(chosen.isNot)
      }}
      trigger={
        <Button data-add-filter={isFirst || undefined} aria-pressed={chosen.values.length > 0}>
          {words}
          <ChevronDown size={14} aria-hidden />
        </Button>
      }
    >
      <div className="flex flex-col gap-2 border-b border-line p-2">
        {FACETS[facet].none ? (
          <fieldset aria-label={words} className="flex gap-1">
            {([false, true] as const).map(each => (
              <Button
                key={String(each)}
                isSmall
                aria-pressed={isNot === each}
                kind={isNot === each ? 'primary' : 'plain'}
                onClick={() => turn(each)}
              >
                {each ? t('usage.is_not') : t('usage.is')}
              </Button>
            ))}
          </fieldset>
        ) : null}
        <TextInput
          type="search"
          aria-label={t('usage.facet_find', { name: words })}
          placeholder={t('usage.facet_find', { name: words })}
          value={text}
          onChange={event => setText(event.target.value)}
        />
      </div>
      <Part result={result}>
        {matches.length === 0 ? (
          <p className="p-3 text-table text-ink-3">{t('common.nothing_matches')}</p>
        ) : (
          <ul className="max-h-72 overflow-y-auto py-1">
            {matches.map(({ key, name, count: requests }) => (
              <li key={key}>
                <button
                  type="button"
                  aria-pressed={chosen.values.includes(key)}
                  onClick={() => toggle(key)}
                  className="flex min-h-8 w-full items-center gap-2 px-3 text-left text-table hover:bg-sunken focus-visible:bg-sunken pointer-coarse:min-h-11"
                >
                  <Check
                    size={14}
                    aria-hidden
                    className={chosen.values.includes(key) ? 'shrink-0' : 'invisible shrink-0'}
                  />
                  <span className="min-w-0 grow truncate" title={name}>
                    {name}
                  </span>
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
