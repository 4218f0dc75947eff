import { useSyncExternalStore } from 'react'

let text = ''
const listeners = new Set<() => void>()

/** Announces a text to screen readers. */
export function announce(words: string): void {
  text = words
  for (const listener of listeners) listener()
}

export function Announcer() {
  const words = useSyncExternalStore(
    listener => {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    () => text,
  )
  return (
    <div aria-live="polite" className="sr-only">
      {words}
    </div>
  )
}
