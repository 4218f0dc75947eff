import { useEffect, useRef } from 'react'
import { usePreferences } from './preferences.ts'

const ELSEWHERE = 'input, textarea, select, [contenteditable], [role="dialog"], [role="menu"]'

/** Keys that hold on one page. Single letters, so they work outside fields only and can be switched off. */
export function usePageKeys(keys: Readonly<Record<string, (event: KeyboardEvent) => void>>): void {
  const { singleKeys } = usePreferences()
  const latest = useRef(keys)
  latest.current = keys
  useEffect(() => {
    if (!singleKeys) return
    const onKey = (event: KeyboardEvent) => {
      if (event.isComposing || event.metaKey || event.ctrlKey || event.altKey) return
      if ((event.target as HTMLElement).closest?.(ELSEWHERE)) return
      const act = latest.current[event.key]
      if (!act) return
      event.preventDefault()
      act(event)
    }
    // Before the keys of the whole console, which leave alone what a page has taken.
    addEventListener('keydown', onKey, true)
    return () => removeEventListener('keydown', onKey, true)
  }, [singleKeys])
}
