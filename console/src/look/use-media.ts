import { useSyncExternalStore } from 'react'

/** Whether a media query matches, kept up to date. */
export const useMedia = (query: string) =>
  useSyncExternalStore(
    listener => {
      const list = matchMedia(query)
      list.addEventListener('change', listener)
      return () => list.removeEventListener('change', listener)
    },
    () => matchMedia(query).matches,
  )

export const useIsNarrow = () => useMedia('(max-width: 767px)')
