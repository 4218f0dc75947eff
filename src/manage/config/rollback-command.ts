import type { RollbackInput, RollbackReport } from '../../domain/config-change.ts'
import { type Trx, transact } from '../../store/engine/store.ts'
import type { AuditNote } from '../server/call.ts'
import { recordCommand } from './apply.ts'
import { type ConfigDeps, OPERATOR } from './handlers.ts'
import { createConfigHistory } from './history.ts'
import { rollbackReason } from './revisions.ts'
import { createConfigRollback } from './rollback.ts'

/** Ends the transaction of a dry run, which is rolled back. */
class DryRollbackEnd extends Error {
  readonly report: RollbackReport
  constructor(report: RollbackReport) {
    super('dry run')
    this.report = report
  }
}

/** Restores the configuration of a revision for `sluice config rollback`. */
export function createRollbackCommand(deps: ConfigDeps) {
  const history = createConfigHistory(deps)
  const rollback = createConfigRollback(deps, history)

  return async function run({ revision, reason, is_dry_run }: RollbackInput): Promise<RollbackReport> {
    const notes: AuditNote[] = []
    async function work(trx: Trx): Promise<RollbackReport> {
      notes.length = 0
      const changing = { trx, audit: (note: AuditNote) => void notes.push(note) }
      const { changes, warnings, origins } = await rollback(changing, { revision, actor: OPERATOR })
      if (is_dry_run) throw new DryRollbackEnd({ changes, warnings, revision: null })
      changing.audit({ action: 'config.rollback', target: `config:${revision}`, after: { revision, reason } })
      const newRevision = await recordCommand(trx, {
        history,
        notes,
        command: 'config rollback',
        input: { reason: rollbackReason(revision, reason) },
        now: deps.now,
        origins,
      })
      return { changes, warnings, revision: newRevision ?? null }
    }
    try {
      const report = await transact(deps.db, work)
      await deps.announce(notes.map(({ target }) => target))
      return report
    } catch (error) {
      if (error instanceof DryRollbackEnd) return error.report
      throw error
    }
  }
}
