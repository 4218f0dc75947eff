import { useEffect, useRef } from 'react'
import { usePreferences } from './preferences.ts'

const ELSEWHERE = 'input, textarea, select, [contenteditable], [role="dialog"], [role="menu"]'

/** A key of one page: what it does in words, for the sheet of keys; without an act it is told there only. */
export type PageKey = { readonly words: string; readonly act?: (event: KeyboardEvent) => void }
type PageKeys = Readonly<Record<string, PageKey>>

/** Those of the parts of the page that are in sight. */
const mountedKeys = new Set<{ readonly current: PageKeys }>()

export const visibleKeys = (): readonly (readonly [key: string, words: string])[] =>
  [...mountedKeys].flatMap(({ current }) =>
    Object.entries(current).map(([key, { words }]) => [key, words] as const),
  )

const focusedRow = () => document.activeElement?.closest<HTMLElement>('[data-rows] tr')

/** The row that the keyboard is on, of those that a table shows. */
export function rowInFocus<Row>(rows: readonly Row[], idOf: (row: Row) => string): Row | undefined {
  const id = focusedRow()?.dataset.id
  return id === undefined ? undefined : rows.find(row => idOf(row) === id)
}

/** Presses the control of the row in focus that bears this key; a field is entered. */
export function pressInRow(key: string): void {
  const control = focusedRow()?.querySelector<HTMLElement>(`[data-key="${key}"]`)
  if (control instanceof HTMLInputElement) control.select()
  else control?.click()
}

/** Keys that hold on one page. Single letters, so they work outside fields only and can be switched off. */
export function usePageKeys(keys: PageKeys): void {
  const { singleKeys } = usePreferences()
  const latest = useRef(keys)
  latest.current = keys
  useEffect(() => {
    mountedKeys.add(latest)
    return () => {
      mountedKeys.delete(latest)
    }
  }, [])
  useEffect(() => {
    if (!singleKeys) return
    const onKey = (event: KeyboardEvent) => {
      if (event.isComposing || event.metaKey || event.ctrlKey || event.altKey) return
      if ((event.target as HTMLElement).closest?.(ELSEWHERE)) return
      const act = latest.current[event.key]?.act
      if (!act) return
      event.preventDefault()
      act(event)
    }
    // Before the keys of the whole console, which leave alone what a page has taken.
    addEventListener('keydown', onKey, true)
    return () => removeEventListener('keydown', onKey, true)
  }, [singleKeys])
}
