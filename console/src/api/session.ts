import { useSyncExternalStore } from 'react'

/** Calls that got 401 wait here until the user has signed in again. */
let waiting: (() => void)[] = []
const listeners = new Set<() => void>()

function notify(): void {
  for (const listener of listeners) listener()
}

export const waitForSignIn = () =>
  new Promise<void>(resolve => {
    waiting.push(resolve)
    notify()
  })

export function signedInAgain(): void {
  const resumed = waiting
  waiting = []
  notify()
  for (const resume of resumed) resume()
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

export const useIsSignInNeeded = () => useSyncExternalStore(subscribe, () => waiting.length > 0)
