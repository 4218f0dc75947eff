import { useEffect, useState } from 'react'

const VISIBLE_MS = 60_000

/** A revealed secret. It is hidden after a minute, or when the window loses focus. */
export function useRevealedSecret() {
  const [secret, setSecret] = useState<string>()
  useEffect(() => {
    if (secret === undefined) return
    const hide = () => setSecret(undefined)
    const timer = setTimeout(hide, VISIBLE_MS)
    addEventListener('blur', hide)
    return () => {
      clearTimeout(timer)
      removeEventListener('blur', hide)
    }
  }, [secret])
  return [secret, setSecret] as const
}
