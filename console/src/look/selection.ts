import { useState } from 'react'
import { allPages } from '../api/all-pages.ts'
import type { Selection } from './table-props.ts'

/** The API's limit for one call. */
const MAX_SELECTED = 1_000

type Source<Row> = {
  readonly visible: readonly Row[]
  readonly idOf: (row: Row) => string
  /** Number of matching rows on all pages; undefined when unknown. */
  readonly total?: number | undefined
  readonly read?: Parameters<typeof allPages<Row>>[0]
}

export type RowSelection<Row> = Selection & {
  readonly rows: readonly Row[]
  /** Updates selected rows. The list does not refresh rows that are selected on another page. */
  put(rows: readonly Row[]): void
  /** The matching rows that can be selected with one click; undefined when all are selected. */
  readonly rest: { readonly total: number; readonly isBusy: boolean; take(): Promise<void> } | undefined
}

/** The selected rows. The selection survives a change of page or filter. */
export function useSelection<Row>({ visible, idOf, total, read }: Source<Row>): RowSelection<Row> {
  const [selected, setSelected] = useState<ReadonlyMap<string, Row>>(new Map())
  const [isBusy, setBusy] = useState(false)
  const rowById = new Map([...selected, ...visible.map(row => [idOf(row), row] as const)])
  const take = async () => {
    if (!read) return
    setBusy(true)
    try {
      const rows = await allPages(read, MAX_SELECTED)
      setSelected(new Map(rows.map(row => [idOf(row), row])))
    } finally {
      setBusy(false)
    }
  }
  const isPageTaken = selected.size > 0 && visible.every(row => selected.has(idOf(row)))
  const most = Math.min(total ?? 0, MAX_SELECTED)
  return {
    ids: new Set(selected.keys()),
    rows: [...selected.keys()].flatMap(id => rowById.get(id) ?? []),
    onChange: ids =>
      setSelected(
        new Map(
          [...ids].flatMap(id => {
            const row = rowById.get(id)
            return row === undefined ? [] : [[id, row] as const]
          }),
        ),
      ),
    put: rows => {
      const fresh = new Map(rows.map(row => [idOf(row), row]))
      setSelected(before => new Map([...before].map(([id, row]) => [id, fresh.get(id) ?? row])))
    },
    rest: read && isPageTaken && most > selected.size ? { total: most, isBusy, take } : undefined,
  }
}
