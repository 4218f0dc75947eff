import { Refusal } from '../../domain/errors.ts'
import { listCanaries, listShadowSums } from '../../store/records/canaries.ts'
import { createConfigHistory } from '../config/history.ts'
import type { canaryContract } from '../contract/canaries.ts'
import type { AuditNote, Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'
import { createCanaryBook, promotionReason } from './canaries.ts'
import { presentShadow } from './comparison.ts'
import { shadowRowNames } from './shadow-names.ts'

/** The routes of canaries (docs/reference/management-api.md: Canaries). */
export function createCanaryHandlers(deps: Deps): Handlers<typeof canaryContract> {
  const { db } = deps
  const history = createConfigHistory(deps)
  const book = createCanaryBook({
    ...deps,
    flushAndReturn: account => deps.ledger.flushAndReturn(account),
  })

  return {
    listCanaries: async ({ query: { paging, kind, state, channel_id, alias_id, model } }) => {
      const subject = channel_id ?? alias_id ?? model
      const page = await listCanaries(
        db,
        { kind, state, subject: subject === undefined ? undefined : String(subject) },
        paging,
      )
      const items = await Promise.all(page.items.map(row => book.present(db, row)))
      return presentPage({ items, total: page.total }, paging, item => item)
    },

    startCanary: async ({ body, actor, change }) => {
      const prepared = await book.prepare(body, actor)
      return change(changing => book.insert(changing, body, prepared, actor))
    },

    getCanary: async ({ params, query }) => {
      await deps.ledger.catchUp()
      return book.whole(params.id, query.round)
    },

    updateCanary: async ({ body: { id, ...input }, change }) =>
      change(changing => book.update(changing, id, input)),

    pauseCanary: async ({ params, change }) =>
      change(changing => book.setState(changing, params.id, 'paused')),
    resumeCanary: async ({ params, change }) =>
      change(changing => book.setState(changing, params.id, 'running')),

    promoteCanary: async ({ params, body = {}, actor, change }) =>
      change(async changing => {
        const { reason, force, effective_time } = body
        const targets: string[] = []
        const noted = {
          trx: changing.trx,
          audit(note: AuditNote) {
            targets.push(note.target)
            changing.audit(note)
          },
        }
        const view = await book.promote(noted, params.id, {
          actor,
          reason,
          force,
          effectiveTime: effective_time,
        })
        await history.record(changing.trx, targets, {
          actor,
          via: `${actor.via}:${actor.credentialId}`,
          reason: promotionReason(params.id, reason),
        })
        return view
      }),

    dropCanary: async ({ params, body = {}, change }) =>
      change(changing => book.drop(changing, params.id, { reason: body.reason })),

    reportShadowPrice: async ({ params, query: { paging, group = 'day' } }) => {
      await deps.ledger.catchUp()
      const row = await book.mustFind(db, params.id)
      if (row.kind !== 'price')
        throw new Refusal(
          'conflict',
          'Only a shadow price has a report. GET /api/canary/{id} compares a canary.',
        )
      const page = await listShadowSums(db, row.id, group, paging)
      const nameOf = await shadowRowNames(
        db,
        group,
        page.items.map(({ key }) => key),
      )
      return presentPage(page, paging, ({ key, ...sums }) => ({
        key,
        name: nameOf(key),
        ...presentShadow(sums),
      }))
    },
  }
}
