import { notFound } from '../../domain/errors.ts'
import type { JsonObject } from '../../domain/json-object.ts'
import type { Paging } from '../../store/engine/page.ts'
import type { ConfigChangeRow, ConfigRevisionRow } from '../../store/engine/schema.ts'
import type { Db } from '../../store/engine/store.ts'
import {
  changesBetween,
  changesOf,
  countChanges,
  findRevision,
  lastRevision,
  listRevisions,
} from '../../store/records/config-history.ts'
import type { configContract } from '../contract/config-revisions.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'
import { createConfigHistory, differences } from './history.ts'
import { createConfigRollback } from './rollback.ts'

const MAX_LISTED = 20
const MAX_SHOWN = 1_000

const parse = (text: string | null) => (text === null ? null : (JSON.parse(text) as JsonObject))

function actionOf(before: unknown, after: unknown): 'create' | 'update' | 'delete' {
  if (before === null) return 'create'
  return after === null ? 'delete' : 'update'
}

const presentChange = ({ target, name, before, after }: Omit<ConfigChangeRow, 'revision' | 'object'>) => ({
  target,
  name,
  action: actionOf(before, after),
  fields: differences(parse(before), parse(after)),
})

const presentRevision = (row: ConfigRevisionRow) => ({
  revision: row.revision,
  time: row.time,
  author: { id: row.actor_id, username: row.actor_name },
  via: row.via,
  reason: row.reason,
})

async function mustFind(db: Db, revision: number): Promise<ConfigRevisionRow> {
  const row = await findRevision(db, revision)
  if (!row) throw notFound('revision')
  return row
}

/** Reads the history of the configuration. */
export const createRevisionReader = (db: Db) => ({
  async list(paging: Paging) {
    const page = await listRevisions(db, paging)
    const items = await Promise.all(
      page.items.map(async row => ({
        ...presentRevision(row),
        changes: (await changesOf(db, row.revision, MAX_LISTED)).map(({ target, name, before, after }) => ({
          target,
          name,
          action: actionOf(before, after),
        })),
        change_count: await countChanges(db, row.revision),
      })),
    )
    return presentPage({ items, total: page.total }, paging, item => item)
  },

  async get(revision: number) {
    const row = await mustFind(db, revision)
    return {
      ...presentRevision(row),
      changes: (await changesOf(db, revision, MAX_SHOWN)).map(presentChange),
      change_count: await countChanges(db, revision),
    }
  },

  /** What changed from one revision to another, which may be an earlier one. */
  async diff(from: number, requestedTo: number | undefined) {
    await mustFind(db, from)
    const to = requestedTo ?? (await lastRevision(db))
    await mustFind(db, to)
    const rows = await changesBetween(db, Math.min(from, to), Math.max(from, to))
    const changes = [...Map.groupBy(rows, row => row.object).values()].flatMap(ofObject => {
      const [first, last] = [ofObject[0], ofObject.at(-1)]
      if (!first || !last) return []
      const states = [first.before, last.after] as const
      const [before, after] = from <= to ? states : states.toReversed()
      const change = presentChange({
        target: last.target,
        name: last.name,
        before: before ?? null,
        after: after ?? null,
      })
      return change.fields.length === 0 ? [] : [change]
    })
    return { from, to, changes }
  },
})

type RollbackResult = Awaited<ReturnType<Handlers<typeof configContract>['rollbackConfig']>>

/** Ends the transaction of a dry run, which is rolled back. */
class RollbackPreview extends Error {
  readonly result: RollbackResult
  constructor(result: RollbackResult) {
    super('dry run')
    this.result = result
  }
}

export const rollbackReason = (revision: number, reason: string | undefined) =>
  reason ? `Rollback to revision ${revision}: ${reason}` : `Rollback to revision ${revision}`

/** The routes of revisions (docs/reference/configuration-file.md: Revisions). */
export function createConfigHandlers(deps: Deps): Handlers<typeof configContract> {
  const history = createConfigHistory(deps)
  const rollback = createConfigRollback(
    { ...deps, flushAndReturn: account => deps.ledger.flushAndReturn(account) },
    history,
  )
  const reader = createRevisionReader(deps.db)

  return {
    listConfigRevisions: ({ query }) => reader.list(query.paging),
    getConfigRevision: ({ params }) => reader.get(params.revision),
    diffConfigRevisions: ({ params, query }) => reader.diff(params.revision, query.to),

    rollbackConfig: async ({ params: { revision }, body = {}, actor, change }) => {
      const { dry_run = false, reason } = body
      try {
        return await change(async changing => {
          const targets: string[] = []
          const noted = {
            trx: changing.trx,
            audit(note: Parameters<typeof changing.audit>[0]) {
              targets.push(note.target)
              changing.audit(note)
            },
          }
          const { changes, warnings, origins } = await rollback(noted, { revision, actor })
          if (dry_run) throw new RollbackPreview({ changes, warnings, revision: null })
          noted.audit({
            action: 'config.rollback',
            target: `config:${revision}`,
            after: { revision, reason },
          })
          const author = {
            actor,
            via: `${actor.via}:${actor.credentialId}`,
            reason: rollbackReason(revision, reason),
          }
          const newRevision = await history.record(changing.trx, targets, author, origins)
          return { changes, warnings, revision: newRevision ?? null }
        })
      } catch (error) {
        if (error instanceof RollbackPreview) return error.result
        throw error
      }
    },
  }
}
