import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { mapConcurrently } from '../api/map-concurrently.ts'
import type { RowSelection } from './selection.ts'
import { useErrorText } from './states.tsx'
import { toast } from './toast.tsx'

type RowIdentity<Row> = { readonly idOf: (row: Row) => string; readonly nameOf: (row: Row) => string }

/** Changes the selected rows, a few at a time. Rows that fail stay selected, with their errors. */
export function useBulkChange<Row>({ put, onChange }: RowSelection<Row>, { idOf, nameOf }: RowIdentity<Row>) {
  const { t } = useTranslation()
  const words = useErrorText()
  const client = useQueryClient()
  const [isBusy, setBusy] = useState(false)
  const [faults, setFaults] = useState<readonly string[]>([])

  const change = async (rows: readonly Row[], write: (row: Row) => Promise<Row>, undo?: () => void) => {
    if (rows.length === 0) return
    setBusy(true)
    setFaults([])
    const results = await mapConcurrently(rows, row =>
      write(row).then(
        changed => ({ changed }),
        error => ({ row, fault: `${nameOf(row)}: ${words(error)}` }),
      ),
    )
    setBusy(false)
    put(results.flatMap(result => ('changed' in result ? result.changed : [])))
    const refused = results.filter(result => 'fault' in result)
    toast(t('bulk.edited', { done: rows.length - refused.length, count: rows.length }), undo)
    setFaults(refused.map(({ fault }) => fault))
    if (refused.length > 0) onChange(new Set(refused.map(({ row }) => idOf(row))))
    await client.invalidateQueries()
  }
  return { change, isBusy, faults }
}

/** Errors of a bulk change, below its buttons. */
export function BulkErrors({ faults }: { readonly faults: readonly string[] }) {
  if (faults.length === 0) return null
  return (
    <ul role="alert" className="flex max-h-32 w-full flex-col gap-1 overflow-y-auto px-2 text-bad">
      {faults.map(fault => (
        <li key={fault}>{fault}</li>
      ))}
    </ul>
  )
}
