import type {
  ApplyResult,
  ChangedField,
  PlannedChange,
  PlannedField,
  RevisionChange,
  RevisionSummary,
  WholeRevision,
} from '../domain/config-change.ts'

/** Prints plans of changes, as Terraform does. */

const MAX_VALUE = 200
const SIGNS = { create: '+', update: '~', delete: '-' } as const

const labelOf = (kind: string) => kind.replaceAll('_', ' ')

/** A value on one line; a long one is cut. */
export function valueText(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null'
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text
}

const SECRET = '(secret)'

/** One line for a field: its new value, or both. */
export function fieldLine(field: ChangedField & Partial<PlannedField>, isNew: boolean): string {
  if (field.is_secret) return `${field.path}: ${SECRET}`
  if (isNew) return `${field.path}: ${valueText(field.after)}`
  const drift =
    'applied' in field ? `  # changed outside of the file, which had set ${valueText(field.applied)}` : ''
  return `${field.path}: ${valueText(field.before)} -> ${valueText(field.after)}${drift}`
}

function changeLines({ action, kind, name, fields, is_drift }: PlannedChange): string[] {
  const note = action === 'create' && is_drift ? '  # deleted outside of the file' : ''
  return [
    `  ${SIGNS[action]} ${labelOf(kind)} "${name}"${note}`,
    ...(action === 'delete' ? [] : fields.map(field => `      ${fieldLine(field, action === 'create')}`)),
  ]
}

/** The changes, the objects that the file no longer has, and the sums. */
export function planLines({ changes, removable }: ApplyResult, isDryRun: boolean): string[] {
  const removableLines = removable.map(
    ({ kind, name }) => `  ! ${labelOf(kind)} "${name}" is no longer in the file. --prune deletes it.`,
  )
  if (changes.length === 0)
    return [...removableLines, 'No changes: the gateway has the configuration of the file.']
  const count = (action: PlannedChange['action']) => changes.filter(change => change.action === action).length
  const sums = isDryRun
    ? `Plan: ${count('create')} to create, ${count('update')} to change, ${count('delete')} to delete.`
    : `Applied: ${count('create')} created, ${count('update')} changed, ${count('delete')} deleted.`
  return [...changes.flatMap(changeLines), ...removableLines, '', sums]
}

const timeText = (seconds: number) => new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')

/** The kind and name of an object, by its target. */
const objectLabel = ({ target, name }: Pick<RevisionChange, 'target' | 'name'>) =>
  `${labelOf(target.slice(0, target.indexOf(':')))} "${name}"`

const MAX_NAMED = 3

/** One line for a revision: number, time, author, reason, and the first of its changes. */
export function revisionLine(revision: RevisionSummary): string {
  const { changes, change_count, author, via, reason } = revision
  const labels = changes.slice(0, MAX_NAMED).map(change => `${SIGNS[change.action]} ${objectLabel(change)}`)
  const more = change_count > labels.length ? [`and ${change_count - labels.length} more`] : []
  const head = `${String(revision.revision).padStart(5)}  ${timeText(revision.time)}  ${author.username} (${via})`
  return `${head}  ${[...labels, ...more].join(', ')}${reason === '' ? '' : `  # ${reason}`}`
}

/** Each change with its fields. */
export const revisionChangeLines = (changes: readonly RevisionChange[]): string[] =>
  changes.flatMap(change => [
    `  ${SIGNS[change.action]} ${objectLabel(change)}`,
    ...(change.action === 'delete'
      ? []
      : change.fields.map(field => `      ${fieldLine(field, change.action === 'create')}`)),
  ])

export const revisionLines = (revision: WholeRevision): string[] => [
  `revision ${revision.revision}, ${timeText(revision.time)}, by ${revision.author.username} (${revision.via})`,
  ...(revision.reason === '' ? [] : [`reason: ${revision.reason}`]),
  '',
  ...revisionChangeLines(revision.changes),
]
