import { useNavigate } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import { useSelf } from '../api/self.ts'
import { usePreferences } from '../look/preferences.ts'
import { entriesFor } from './navigation.ts'

const FIELD = 'input, textarea, select, [contenteditable], [role="dialog"]'
const CHORD_MS = 1_200

type Layers = { readonly openPalette: () => void; readonly openSheet: () => void }

/**
 * Keys of every page (docs/reference/console.md: Keyboard). Single letters work outside fields only, and the user can turn
 * them off.
 */
export function useGlobalKeys({ openPalette, openSheet }: Layers): void {
  const { role } = useSelf()
  const { singleKeys } = usePreferences()
  const navigate = useNavigate()
  const chordUntil = useRef(0)

  useEffect(() => {
    const press = (selector: string) => document.querySelector<HTMLElement>(selector)
    const singles: Record<string, () => void> = {
      '/': () => press('[data-page-filter]')?.focus(),
      '?': openSheet,
      c: () => press('[data-create]')?.click(),
      j: () => press('[data-rows] tr')?.focus(),
      g: () => {
        chordUntil.current = Date.now() + CHORD_MS
      },
    }
    const onKey = (event: KeyboardEvent) => {
      // Keys of an input method are not shortcuts.
      if (event.isComposing || event.defaultPrevented) return
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        return openPalette()
      }
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === 's') {
        // The focused form, or the open one.
        const form = (event.target as HTMLElement).closest?.('form') ?? press('main form')
        if (!(form instanceof HTMLFormElement)) return
        event.preventDefault()
        // As with Enter: not while the button is disabled.
        if (form.querySelector<HTMLButtonElement>('button[type=submit]')?.disabled) return
        return form.requestSubmit()
      }
      if (event.metaKey || event.ctrlKey || event.altKey || !singleKeys) return
      if ((event.target as HTMLElement).closest?.(FIELD)) return
      if (Date.now() < chordUntil.current) {
        chordUntil.current = 0
        const entry = entriesFor(role).find(({ letter }) => letter === event.key)
        if (entry) {
          event.preventDefault()
          return void navigate({ to: entry.to })
        }
      }
      const act = singles[event.key]
      if (!act) return
      event.preventDefault()
      act()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [role, singleKeys, navigate, openPalette, openSheet])
}
