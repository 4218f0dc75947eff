import { useEffect, useState } from 'react'
import { basePath } from '../api/base-path.ts'

/** All tabs of a browser share one session, so the user who signs in in one tab is the user of all tabs. */
const tabs = new BroadcastChannel(`sluice.user${basePath}`)

export const announceSignIn = (userId: number) => tabs.postMessage(userId)

/** Loads the page anew when another user has signed in: what it shows belongs to the user before. */
export function useReloadForOtherUser(userId: number): void {
  const [firstId] = useState(userId)
  useEffect(() => {
    if (userId !== firstId) location.reload()
  }, [userId, firstId])
  useEffect(() => {
    const onSignIn = ({ data }: MessageEvent<unknown>) => data !== firstId && location.reload()
    tabs.addEventListener('message', onSignIn)
    return () => tabs.removeEventListener('message', onSignIn)
  }, [firstId])
}
