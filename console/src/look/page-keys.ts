import { useEffect, useRef } from 'react'
import { usePreferences } from './preferences.ts'

const ELSEWHERE = 'input, textarea, select, [contenteditable], [role="dialog"], [role="menu"]'

/** A keyboard shortcut of a page. Without `act` it is only listed. */
export type PageKey = { readonly words: string; readonly act?: (event: KeyboardEvent) => void }
type PageKeys = Readonly<Record<string, PageKey>>

/** Shortcuts of the mounted parts of the page. */
const mountedKeys = new Set<{ readonly current: PageKeys }>()

export const visibleKeys = (): readonly (readonly [key: string, words: string])[] =>
  [...mountedKeys].flatMap(({ current }) =>
    Object.entries(current).map(([key, { words }]) => [key, words] as const),
  )

const focusedRow = () => document.activeElement?.closest<HTMLElement>('[data-rows] tr')

/** The table row with the keyboard focus. */
export function rowInFocus<Row>(rows: readonly Row[], idOf: (row: Row) => string): Row | undefined {
  const id = focusedRow()?.dataset.id
  return id === undefined ? undefined : rows.find(row => idOf(row) === id)
}

/** Clicks the control with this key in the focused row, or selects its text if it is a field. */
export function pressInRow(key: string): void {
  const control = focusedRow()?.querySelector<HTMLElement>(`[data-key="${key}"]`)
  if (control instanceof HTMLInputElement) control.select()
  else control?.click()
}

/**
 * Registers keyboard shortcuts of a page. Single letters work only outside fields, and the user can turn them
 * off.
 */
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
    // Runs in the capture phase, before the global shortcuts, which skip handled events.
    addEventListener('keydown', onKey, true)
    return () => removeEventListener('keydown', onKey, true)
  }, [singleKeys])
}
