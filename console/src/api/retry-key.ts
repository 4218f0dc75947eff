import { useRef } from 'react'

/**
 * The key of a write that must not be made twice. The same body gets the same key until a response arrives, because a write
 * whose response was lost may have been made.
 */
export function useRetryKey() {
  const pending = useRef<{ readonly text: string; readonly key: string }>(undefined)
  return {
    keyOf(body: unknown): string {
      const text = JSON.stringify(body)
      if (pending.current?.text !== text)
        pending.current = { text, key: crypto.getRandomValues(new Uint32Array(4)).join('-') }
      return pending.current.key
    },
    forget: () => {
      pending.current = undefined
    },
  }
}
