import { useLocation } from '@tanstack/react-router'
import { useEffect } from 'react'

const CONTROLS = ['[data-focus]', 'input:not([type=radio]), textarea, select', 'input:checked', 'button']

/** Focuses the field whose name is the hash of the address: opens the part that hides it, and scrolls to it. */
export function useLinkedField(): void {
  const name = useLocation({ select: ({ hash }) => hash })
  useEffect(() => {
    if (name === '') return
    // The panel takes the focus when it opens; the field takes it afterwards.
    const timer = setTimeout(() => {
      const field = document.querySelector(`[data-field="${CSS.escape(name)}"]`)
      if (!field) return
      field.closest('details')?.setAttribute('open', '')
      field.scrollIntoView({ block: 'center' })
      const [control] = CONTROLS.flatMap(each => field.querySelector<HTMLElement>(each) ?? [])
      control?.focus({ preventScroll: true })
    })
    return () => clearTimeout(timer)
  }, [name])
}
