import { useRef, useState } from 'react'

/**
 * Rows never move under the cursor: while the same rows are in sight they keep the order they were first seen in, and
 * `isMoved` tells that the gateway would order them otherwise now.
 */
export function usePinnedOrder<Row extends { readonly id: number }>(rows: readonly Row[], question: string) {
  const pinned = useRef<{ question: string; ids: readonly number[] }>({ question: '', ids: [] })
  const [, rerender] = useState(0)
  const ids = rows.map(({ id }) => id)
  const isSameSet =
    pinned.current.question === question &&
    pinned.current.ids.length === ids.length &&
    ids.every(id => pinned.current.ids.includes(id))
  if (!isSameSet) pinned.current = { question, ids }
  const byId = new Map(rows.map(row => [row.id, row]))
  const ordered = pinned.current.ids.flatMap(id => byId.get(id) ?? [])
  return {
    rows: ordered,
    isMoved: isSameSet && pinned.current.ids.some((id, index) => id !== ids[index]),
    resort: () => {
      pinned.current = { question, ids }
      rerender(count => count + 1)
    },
  }
}
