import { useEffect, useState } from 'react'

const secondsUntil = (untilMs: number) => Math.max(0, Math.ceil((untilMs - Date.now()) / 1000))

/** Seconds until a time in the future. */
export function useCountdown(untilMs: number): number {
  const [secondsLeft, setLeft] = useState(() => secondsUntil(untilMs))
  useEffect(() => {
    const tick = () => setLeft(secondsUntil(untilMs))
    tick()
    if (untilMs <= Date.now()) return
    const timer = setInterval(tick, 500)
    return () => clearInterval(timer)
  }, [untilMs])
  return secondsLeft
}
