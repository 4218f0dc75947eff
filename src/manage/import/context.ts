import { SYSTEM } from '../../domain/actor.ts'
import type { AddressPolicy } from '../../http/upstream-address.ts'
import type { Digest } from '../../identity/credentials.ts'
import type { Keyring } from '../../identity/keyring.ts'
import type { RowState } from '../../store/engine/row-states.ts'
import type { ImportKind, ImportRow } from '../../store/engine/schema.ts'
import type { Db, Trx } from '../../store/engine/store.ts'
import { appendAudit } from '../../store/records/audit.ts'
import type { FieldDigests } from './difference.ts'
import type { ImportNotes } from './notes.ts'

/** What every step of an import needs. */
export type ImportContext = {
  readonly db: Db
  readonly keyring: Keyring
  readonly digest: Digest
  readonly now: () => number
  readonly policy: AddressPolicy
  /** Invalidates what relays have cached of the targets. */
  readonly announce: (targets: readonly string[]) => Promise<unknown>
  /** The name under which imported rows are remembered. */
  readonly source: string
  readonly isDry: boolean
  readonly notes: ImportNotes
}

/** What an import remembers of a row. */
export type ImportState = {
  readonly anchor?: string
  /** What was booked from the source so far, in nanodollars. */
  readonly nanos?: number
  readonly fields?: FieldDigests
  /** The row is no longer in the source, and was disabled here for that. */
  readonly isGone?: boolean
}

/** Why it is disabled here may have changed since, so enabling it is left to an administrator. */
export const returnedMessage =
  'was deleted there at an earlier import, and is there again; it stays disabled here: enable it if it is to be used'

export const stateOf = ({ state }: Pick<ImportRow, 'state'>): ImportState => JSON.parse(state) as ImportState

export const importRow = (
  { source, now }: Pick<ImportContext, 'source' | 'now'>,
  kind: ImportKind,
  row: { readonly sourceId: string; readonly targetId: number; readonly state: ImportState },
): ImportRow => ({
  source,
  kind,
  source_id: row.sourceId,
  target_id: row.targetId,
  state: JSON.stringify(row.state),
  time: now(),
})

type Audited = {
  readonly action: string
  readonly target: string
  readonly after: unknown
  /** The rows that were written, if they are not the target. */
  readonly states?: readonly RowState[]
}

/** Records a change of an import, in its transaction. */
export const auditImport = (
  trx: Trx,
  { now }: Pick<ImportContext, 'now'>,
  { action, target, after, states }: Audited,
): Promise<unknown> =>
  appendAudit(
    trx,
    {
      time: now(),
      actor_id: 0,
      actor_name: SYSTEM,
      via: 'command:import',
      address: '',
      request_id: '',
      action,
      target,
      before: null,
      after: JSON.stringify(after),
    },
    states,
  )
