import { useEffect, useState } from 'react'

const VISIBLE_MS = 60_000

/** A secret that was asked for: gone after a minute, or when the window loses sight. */
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
