import type { AuditRecord } from '../../api/contract.ts'

export type Change = {
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

/** What a record says was so before and is so after, field by field; what stayed is left out. */
export function changesIn({ before, after }: Pick<AuditRecord, 'before' | 'after'>): readonly Change[] {
  const old = fieldsOf(before)
  const made = fieldsOf(after)
  return [...new Set([...Object.keys(old), ...Object.keys(made)])]
    .map(field => ({ field, before: textOf(old[field]), after: textOf(made[field]) }))
    .filter(change => change.before !== change.after)
}
