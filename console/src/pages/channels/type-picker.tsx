import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { ChannelType } from '../../api/contract.ts'
import { TextInput } from '../../look/field.tsx'
import { Part } from '../../look/states.tsx'
import { useTypes } from './channel-types.ts'

const FIRST = 11

type TypePickerProps = { readonly onPick: (type: ChannelType) => void; readonly isShort?: boolean }

/** Providers as searchable tiles. */
export function TypePicker({ onPick, isShort = false }: TypePickerProps) {
  const { t } = useTranslation()
  const { result, list } = useTypes()
  const [text, setText] = useState('')
  const [isWhole, showWhole] = useState(!isShort)
  const matches = list.filter(({ name }) => name.toLowerCase().includes(text.trim().toLowerCase()))
  const visibleTypes = isWhole || text ? matches : matches.slice(0, FIRST)
  return (
    <Part result={result}>
      <div className="flex flex-col gap-3">
        <TextInput
          type="search"
          aria-label={t('types.search')}
          placeholder={t('types.search')}
          value={text}
          onChange={event => setText(event.target.value)}
          onKeyDown={event => {
            const [first] = visibleTypes
            if (event.key === 'Enter' && first && text) onPick(first)
          }}
        />
        <ul className="grid grid-cols-2 gap-2 sm:grid-cols-3" aria-label={t('types.label')}>
          {visibleTypes.map(type => (
            <li key={type.type}>
              <button
                type="button"
                onClick={() => onPick(type)}
                className="flex h-12 w-full items-center gap-2.5 rounded-control border border-line px-2.5 text-left hover:border-accent hover:bg-accent-soft"
              >
                <ProviderMark name={type.name} />
                <span className="min-w-0 truncate">{type.name}</span>
              </button>
            </li>
          ))}
          {visibleTypes.length < matches.length ? (
            <li>
              <button
                type="button"
                onClick={() => showWhole(true)}
                className="h-12 w-full rounded-control border border-line px-2.5 text-accent hover:bg-accent-soft"
              >
                {t('types.all', { count: list.length })}
              </button>
            </li>
          ) : null}
        </ul>
        {matches.length === 0 ? <p className="text-ink-3">{t('types.nothing')}</p> : null}
      </div>
    </Part>
  )
}

/** The mark of a provider: two letters and a tint, no logo. */
export function ProviderMark({ name }: { readonly name: string }) {
  const { letters, tint } = useTypes().markOf(name)
  return (
    <span
      aria-hidden="true"
      style={{
        background: `color-mix(in oklab, var(--series-${tint}) 16%, var(--sheet))`,
        borderColor: `color-mix(in oklab, var(--series-${tint}) 45%, var(--sheet))`,
      }}
      className="grid size-6 shrink-0 place-items-center rounded-control border text-[11px] font-semibold text-ink"
    >
      {letters}
    </span>
  )
}
