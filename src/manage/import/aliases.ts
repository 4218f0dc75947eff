import { ALIAS_STATUS, refuseAlias } from '../../domain/alias.ts'
import { lockAuditChain } from '../../store/books/chains.ts'
import { transact } from '../../store/engine/store.ts'
import { aliasTargets, insertAlias } from '../../store/records/aliases.ts'
import { modelName } from '../contract/fields.ts'
import { auditImport, type ImportContext } from './context.ts'
import type { SourceAlias } from './inventory.ts'
import { quoted } from './values.ts'

const isName = (name: string) => modelName.safeParse(name).success && !name.includes(',')

/** Creates aliases that do not exist yet. Those that exist stay as they are. */
export async function importAliases(context: ImportContext, aliases: readonly SourceAlias[]): Promise<void> {
  const { db, isDry, notes, now, source } = context
  for (const { name, target } of aliases) {
    const subject = `alias ${quoted(name)}`
    const skip = (message: string) => {
      notes.count('aliases', 'skipped')
      notes.note('alias', subject, message)
    }
    if (!isName(name) || !isName(target)) {
      skip('is not a valid name of a model, or points to none')
      continue
    }
    const targets = await aliasTargets(db)
    const refusal = refuseAlias(targets, name, target)
    if (targets.get(name) === target) notes.count('aliases', 'unchanged')
    else if (targets.has(name)) skip('exists here with another target; it stays')
    else if (refusal) skip(refusal)
    else {
      notes.count('aliases', 'created')
      if (isDry) continue
      const id = await transact(db, async trx => {
        await lockAuditChain(trx)
        const row = { name, target, channel_ids: null, status: ALIAS_STATUS.enabled, created_time: now() }
        const aliasId = await insertAlias(trx, row)
        await auditImport(trx, context, {
          action: 'alias.create',
          target: `alias:${aliasId}`,
          after: { name, target, source },
        })
        return aliasId
      })
      await context.announce([`alias:${id}`])
    }
  }
}
