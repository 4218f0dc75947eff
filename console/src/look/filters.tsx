import { useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { Choice } from './field.tsx'
import { Search } from './icons.ts'

/** The filters of a page are in its URL, so that a link reproduces the view. */
export function useFilters<Filters extends { p?: number | undefined }>() {
  const search = useSearch({ strict: false } as never) as Filters
  const navigate = useNavigate()
  /** A changed filter returns to the first page. */
  const set = (changes: Partial<Filters>) =>
    void navigate({
      to: '.',
      search: ((before: object) => ({ ...before, p: undefined, ...changes })) as never,
      replace: true,
    })
  return [search, set] as const
}

export const readText = (value: unknown) =>
  typeof value === 'string' || typeof value === 'number' ? String(value) || undefined : undefined
/** The last second of the year 9999. No id is larger. */
const MAX_WHOLE = 253_402_300_799

export function readWhole(value: unknown): number | undefined {
  const number = Number(value)
  return Number.isInteger(number) && number > 0 && number <= MAX_WHOLE ? number : undefined
}

export const readFlag = (value: unknown) => (String(value) === 'true' ? true : undefined)

type SearchBoxProps = {
  readonly label: string
  readonly value: string | undefined
  readonly onChange: (value: string | undefined) => void
}

const PAUSE_MS = 250

/** Searches when typing pauses. Text in composition of an input method is not searched. */
export function SearchBox({ label, value, onChange }: SearchBoxProps) {
  const { t } = useTranslation()
  const [text, setText] = useState(value ?? '')
  const [isComposing, setComposing] = useState(false)
  const ownValue = useRef(value)
  useEffect(() => {
    // A value that comes from this box is trimmed: to show it would remove the space before the next word.
    if (value !== ownValue.current) setText(value ?? '')
    ownValue.current = value
  }, [value])
  // biome-ignore lint/correctness/useExhaustiveDependencies: only what is typed starts the clock
  useEffect(() => {
    const next = text.trim() || undefined
    if (isComposing || next === value) return
    const timer = setTimeout(() => {
      ownValue.current = next
      onChange(next)
    }, PAUSE_MS)
    return () => clearTimeout(timer)
  }, [text, isComposing])
  return (
    <label className="relative w-full min-w-40 sm:w-52">
      <span className="sr-only">{label}</span>
      <Search
        size={16}
        className="pointer-events-none absolute top-2 left-2 text-ink-3 pointer-coarse:top-3"
        aria-hidden
      />
      <input
        type="search"
        data-page-filter
        value={text}
        placeholder={`${label}${t('common.ellipsis')}`}
        onChange={event => setText(event.target.value)}
        onCompositionStart={() => setComposing(true)}
        onCompositionEnd={() => setComposing(false)}
        className="control w-full pl-8"
      />
    </label>
  )
}

type FilterChoiceProps<Value extends string | number> = {
  readonly label: string
  /** The option for "no filter". */
  readonly any: string
  readonly value: Value | undefined
  readonly options: readonly (readonly [Value, string])[]
  readonly onChange: (value: Value | undefined) => void
}

/** A select with a "no filter" option. */
export function FilterChoice<Value extends string | number>({
  label,
  any,
  value,
  options,
  onChange,
}: FilterChoiceProps<Value>) {
  return (
    <Choice
      aria-label={label}
      value={value ?? ''}
      onChange={event => onChange(options.find(([each]) => String(each) === event.target.value)?.[0])}
    >
      <option value="">{any}</option>
      {options.map(([each, words]) => (
        <option key={each} value={each}>
          {words}
        </option>
      ))}
    </Choice>
  )
}
