import { useRef } from 'react'
import { call } from '../../api/client.ts'

/** The value of a token, asked for when it is first used, kept in memory while the page is open and nowhere else. */
export function useTokenKey() {
  const keys = useRef(new Map<number, string>())
  return async (id: number): Promise<string> => {
    const known = keys.current.get(id)
    if (known !== undefined) return known
    const { key } = await call('revealToken', { params: { id } })
    keys.current.set(id, key)
    return key
  }
}
