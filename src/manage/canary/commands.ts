import type { CanaryCommands } from '../../domain/canary-command.ts'
import { invalidField, Refusal } from '../../domain/errors.ts'
import { type Trx, transact } from '../../store/engine/store.ts'
import { findAliasByName } from '../../store/records/aliases.ts'
import { listCanaries, listShadowSums, SHADOW_GROUPS } from '../../store/records/canaries.ts'
import { recordCommand } from '../config/apply.ts'
import { type ConfigDeps, OPERATOR, parseBody } from '../config/handlers.ts'
import { createConfigHistory } from '../config/history.ts'
import { canaryContract } from '../contract/canaries.ts'
import type { AuditNote, Changing } from '../server/call.ts'
import { createCanaryBook, promotionReason } from './canaries.ts'
import { presentShadow } from './comparison.ts'
import { shadowRowNames } from './shadow-names.ts'

const MAX_REPORTED = 500

/** The operations behind `sluice canary …`, in the name of the operator. */
export function createCanaryCommands(deps: ConfigDeps): CanaryCommands {
  const { db, now } = deps
  const history = createConfigHistory(deps)
  const book = createCanaryBook(deps)

  async function change<T>(command: string, reason: string, work: (changing: Changing) => Promise<T>) {
    const notes: AuditNote[] = []
    const result = await transact(db, async (trx: Trx) => {
      notes.length = 0
      const done = await work({ trx, audit: note => void notes.push(note) })
      await recordCommand(trx, {
        history,
        notes,
        command: `canary ${command}`,
        input: { reason },
        now,
        origins: new Map(),
      })
      return done
    })
    await deps.announce(notes.map(({ target }) => target))
    return result
  }

  async function aliasId(name: string | undefined): Promise<{ alias_id?: number }> {
    if (name === undefined) return {}
    const alias = await findAliasByName(db, name)
    if (!alias) throw new Refusal('not_found', `No alias is named "${name}".`)
    return { alias_id: alias.id }
  }

  return {
    async list({ state, limit }) {
      const { items } = await listCanaries(db, { state }, { page: 1, pageSize: limit })
      return Promise.all(items.map(row => book.present(db, row)))
    },

    async start({ body, alias }) {
      const input = parseBody(canaryContract.startCanary.body, { ...body, ...(await aliasId(alias)) })
      const prepared = await book.prepare(input, OPERATOR)
      return change('start', '', changing => book.insert(changing, input, prepared, OPERATOR))
    },

    async show({ id, group }) {
      const whole = await book.whole(id)
      if (whole.kind !== 'price' || group === undefined) return whole
      const known = SHADOW_GROUPS.find(name => name === group)
      if (!known) throw invalidField('by', `must be one of ${SHADOW_GROUPS.join(', ')}`)
      const { items } = await listShadowSums(db, id, known, { page: 1, pageSize: MAX_REPORTED })
      const nameOf = await shadowRowNames(
        db,
        known,
        items.map(({ key }) => key),
      )
      const report = items.map(({ key, ...sums }) => ({ name: nameOf(key), ...presentShadow(sums) }))
      return { ...whole, report }
    },

    async update({ body }) {
      const { id, ...input } = parseBody(canaryContract.updateCanary.body, body)
      return change('set', '', changing => book.update(changing, id, input))
    },

    async act({ id, action, body = {} }) {
      if (action === 'pause' || action === 'resume')
        return change(action, '', changing =>
          book.setState(changing, id, action === 'pause' ? 'paused' : 'running'),
        )
      if (action === 'drop') {
        const input = parseBody(canaryContract.dropCanary.body, body)
        return change(action, '', changing => book.drop(changing, id, { reason: input?.reason }))
      }
      const input = parseBody(canaryContract.promoteCanary.body, body)
      const { reason, force, effective_time: effectiveTime } = { ...input }
      return change(action, promotionReason(id, reason), changing =>
        book.promote(changing, id, { actor: OPERATOR, reason, force, effectiveTime }),
      )
    },
  }
}
