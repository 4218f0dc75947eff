import type { AuditItem } from '../../api/contract.ts'

export type FieldChange = {
  readonly field: string
  readonly before: string | undefined
  readonly after: string | undefined
}

const fieldsOf = (value: unknown): Record<string, unknown> => {
  if (value === null || value === undefined) return {}
  return typeof value === 'object' && !Array.isArray(value) ? (value as Record<string, unknown>) : { value }
}
const textOf = (value: unknown) =>
  value === undefined ? undefined : typeof value === 'string' ? value : JSON.stringify(value)

/** The changed fields of a record. */
export function changesIn({ before, after }: Pick<AuditItem, 'before' | 'after'>): readonly FieldChange[] {
  const old = fieldsOf(before)
  const updated = fieldsOf(after)
  return [...new Set([...Object.keys(old), ...Object.keys(updated)])]
    .map(field => ({ field, before: textOf(old[field]), after: textOf(updated[field]) }))
    .filter(change => change.before !== change.after)
}
