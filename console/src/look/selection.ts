import { useState } from 'react'
import { allPages } from '../api/all-pages.ts'
import type { Selection } from './table.tsx'

/** As many as one call takes. */
const MOST_SELECTED = 1_000

type Source<Row> = {
  readonly inSight: readonly Row[]
  readonly idOf: (row: Row) => string
  /** How many rows match the filters, on all pages together; undefined where that is not known. */
  readonly total?: number | undefined
  readonly read?: Parameters<typeof allPages<Row>>[0]
}

export type RowSelection<Row> = Selection & {
  readonly rows: readonly Row[]
  /** Rows as they are now: those that are selected and not in sight are known only as they were. */
  put(rows: readonly Row[]): void
  /** What else could be selected with one click; undefined where all that match are. */
  readonly rest: { readonly total: number; readonly isBusy: boolean; take(): Promise<void> } | undefined
}

/** The rows that are selected. Another page or filter does not forget them. */
export function useSelection<Row>({ inSight, idOf, total, read }: Source<Row>): RowSelection<Row> {
  const [kept, keep] = useState<ReadonlyMap<string, Row>>(new Map())
  const [isBusy, setBusy] = useState(false)
  const known = new Map([...kept, ...inSight.map(row => [idOf(row), row] as const)])
  const take = async () => {
    if (!read) return
    setBusy(true)
    try {
      const rows = await allPages(read, MOST_SELECTED)
      keep(new Map(rows.map(row => [idOf(row), row])))
    } finally {
      setBusy(false)
    }
  }
  const isPageTaken = kept.size > 0 && inSight.every(row => kept.has(idOf(row)))
  const most = Math.min(total ?? 0, MOST_SELECTED)
  return {
    ids: new Set(kept.keys()),
    rows: [...kept.keys()].flatMap(id => known.get(id) ?? []),
    onChange: ids =>
      keep(
        new Map(
          [...ids].flatMap(id => {
            const row = known.get(id)
            return row === undefined ? [] : [[id, row] as const]
          }),
        ),
      ),
    put: rows => {
      const fresh = new Map(rows.map(row => [idOf(row), row]))
      keep(before => new Map([...before].map(([id, row]) => [id, fresh.get(id) ?? row])))
    },
    rest: read && isPageTaken && most > kept.size ? { total: most, isBusy, take } : undefined,
  }
}
