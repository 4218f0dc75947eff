import { useRef, useState } from 'react'

/**
 * Keeps the order of the visible rows while their values change, so that a row does not move under the cursor.
 * `isMoved` reports that the gateway would sort them differently now.
 */
export function usePinnedOrder<Row extends { readonly id: number }>(rows: readonly Row[], query: string) {
  const pinned = useRef<{ query: string; ids: readonly number[] }>({ query: '', ids: [] })
  const [, rerender] = useState(0)
  const ids = rows.map(({ id }) => id)
  const isSameSet =
    pinned.current.query === query &&
    pinned.current.ids.length === ids.length &&
    ids.every(id => pinned.current.ids.includes(id))
  if (!isSameSet) pinned.current = { query, ids }
  const byId = new Map(rows.map(row => [row.id, row]))
  const ordered = pinned.current.ids.flatMap(id => byId.get(id) ?? [])
  return {
    rows: ordered,
    isMoved: isSameSet && pinned.current.ids.some((id, index) => id !== ids[index]),
    resort: () => {
      pinned.current = { query, ids }
      rerender(count => count + 1)
    },
  }
}
