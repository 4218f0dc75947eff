/** One field that differs between two configurations of an object. A side that lacks the field is absent. */
export type ChangedField = { readonly path: string; readonly before?: unknown; readonly after?: unknown }

export type PlannedField = ChangedField & {
  /** Only that it changes is shown. */
  readonly is_secret?: true
  /** The value that the file had set, if it was changed since by another way. */
  readonly applied?: unknown
}

/** One change that a configuration file leads to. */
export type PlannedChange = {
  readonly action: 'create' | 'update' | 'delete'
  readonly kind: string
  readonly name: string
  readonly fields: readonly PlannedField[]
  /** The object was changed or deleted by another way since the file was applied. */
  readonly is_drift: boolean
}

/** A value that the gateway generated. It is returned once, to be written to the file of secrets. */
export type NewSecret = {
  readonly kind: 'token' | 'alert_target'
  readonly name: string
  readonly username?: string
  readonly value: string
}

export type ApplyInput = {
  readonly document: unknown
  readonly is_dry_run: boolean
  /** Delete what an earlier file had and this one does not have. */
  readonly is_pruning: boolean
  readonly reason: string
}

export type ApplyResult = {
  readonly changes: readonly PlannedChange[]
  /** Objects that an earlier file had, and that this one does not have. */
  readonly removable: readonly { readonly kind: string; readonly name: string }[]
  readonly secrets: readonly NewSecret[]
  /** The revision that was written; null if nothing changed. */
  readonly revision: number | null
}

/** The configuration as a file. */
export type ExportResult = {
  readonly document: Readonly<Record<string, unknown>>
  /** Why the file cannot be applied as it is. */
  readonly warnings: readonly string[]
}

/** A change of one object between two states of the configuration. */
export type RevisionChange = {
  /** `channel:7`, `price:gpt-4o`, `setting:attempts` … */
  readonly target: string
  readonly name: string
  readonly action: 'create' | 'update' | 'delete'
  readonly fields: readonly ChangedField[]
}

/** A revision as a list shows it. */
export type RevisionSummary = {
  readonly revision: number
  readonly time: number
  readonly author: { readonly id: number; readonly username: string }
  readonly via: string
  readonly reason: string
  readonly changes: readonly Omit<RevisionChange, 'fields'>[]
  readonly change_count: number
}

export type WholeRevision = Omit<RevisionSummary, 'changes'> & { readonly changes: readonly RevisionChange[] }

export type RevisionDifference = {
  readonly from: number
  readonly to: number
  readonly changes: readonly RevisionChange[]
}

export type RollbackInput = {
  readonly revision: number
  readonly reason?: string | undefined
  readonly is_dry_run: boolean
}

export type RollbackReport = {
  readonly changes: readonly RevisionChange[]
  /** What cannot be restored, such as secrets. */
  readonly warnings: readonly string[]
  /** The revision that was written; null if nothing changed. */
  readonly revision: number | null
}
