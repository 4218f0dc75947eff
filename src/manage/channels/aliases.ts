import { ALIAS_STATUS, refuseAlias } from '../../domain/alias.ts'
import { invalidField, notFound, Refusal } from '../../domain/errors.ts'
import { lockAuditChain } from '../../store/books/chains.ts'
import type { AliasRow } from '../../store/engine/schema.ts'
import type { Db, Trx } from '../../store/engine/store.ts'
import {
  type AliasChange,
  aliasTargets,
  deleteAlias,
  findAlias,
  insertAlias,
  listAliases,
  updateAlias,
} from '../../store/records/aliases.ts'
import { existingChannels } from '../../store/records/channels.ts'
import { dropCanariesOf } from '../canary/ending.ts'
import type { aliasContract } from '../contract/aliases.ts'
import type { Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { presentPage } from '../server/page.ts'

const MAX_ALIASES = 10_000

const channelsOf = (row: Pick<AliasRow, 'channel_ids'>) =>
  row.channel_ids === null ? null : (JSON.parse(row.channel_ids) as number[])

const presentAlias = (row: AliasRow) => ({
  id: row.id,
  name: row.name,
  target: row.target,
  channel_ids: channelsOf(row),
  status: row.status,
  created_time: row.created_time,
})

async function mustFind(db: Db, id: number): Promise<AliasRow> {
  const row = await findAlias(db, id)
  if (!row) throw notFound('alias')
  return row
}

/** Listed channels must exist, except those that the alias already lists: removing them could allow more channels. */
async function readChannels(
  trx: Trx,
  channelIds: readonly number[] | null,
  before: readonly number[] = [],
): Promise<string | null> {
  if (channelIds === null) return null
  const ids = [...new Set(channelIds)]
  const existing = await existingChannels(trx, ids)
  const missing = ids.find(id => !existing.has(id) && !before.includes(id))
  if (missing !== undefined) throw invalidField('channel_ids', `contains ${missing}, which is not a channel`)
  return JSON.stringify(ids)
}

/** Other names for models (docs/reference/routing.md: Aliases). */
export function createAliasHandlers({ db, now }: Deps): Handlers<typeof aliasContract> {
  /** Validates the target of an alias against all other aliases, under the lock. */
  async function mustBeValidTarget(trx: Trx, alias: Pick<AliasRow, 'name' | 'target'>, before?: AliasRow) {
    const targets = await aliasTargets(trx)
    if (before) targets.delete(before.name)
    if (targets.has(alias.name))
      throw new Refusal('conflict', `The alias "${alias.name}" already exists. Choose another name.`)
    if (targets.size >= MAX_ALIASES)
      throw new Refusal('conflict', `There may be at most ${MAX_ALIASES} aliases. Delete some first.`)
    const refused = refuseAlias(targets, alias.name, alias.target)
    if (refused) throw new Refusal('conflict', refused)
  }

  return {
    listAliases: async ({ query: { keyword, paging } }) =>
      presentPage(await listAliases(db, keyword, paging), paging, presentAlias),
    getAlias: async ({ params }) => presentAlias(await mustFind(db, params.id)),

    createAlias: async ({ body, change }) =>
      change(async ({ trx, audit }) => {
        // Two concurrent changes could create a loop.
        await lockAuditChain(trx)
        await mustBeValidTarget(trx, body)
        const id = await insertAlias(trx, {
          name: body.name,
          target: body.target,
          channel_ids: await readChannels(trx, body.channel_ids ?? null),
          status: body.status ?? ALIAS_STATUS.enabled,
          created_time: now(),
        })
        const view = presentAlias(await mustFind(trx, id))
        audit({ action: 'alias.create', target: `alias:${id}`, after: view })
        return view
      }),

    updateAlias: async ({ body, change }) =>
      change(async ({ trx, audit }) => {
        await lockAuditChain(trx)
        const before = await mustFind(trx, body.id)
        const fields: AliasChange = {}
        if (body.name !== undefined) fields.name = body.name
        if (body.target !== undefined) fields.target = body.target
        if (body.status !== undefined) fields.status = body.status
        if (body.channel_ids !== undefined)
          fields.channel_ids = await readChannels(trx, body.channel_ids, channelsOf(before) ?? [])
        await mustBeValidTarget(trx, { ...before, ...fields }, before)
        await updateAlias(trx, before, fields)
        const view = presentAlias(await mustFind(trx, before.id))
        audit({
          action: 'alias.update',
          target: `alias:${before.id}`,
          before: presentAlias(before),
          after: view,
        })
        return view
      }),

    deleteAlias: async ({ params, change }) =>
      change(async changing => {
        const { trx, audit } = changing
        await lockAuditChain(trx)
        const row = await mustFind(trx, params.id)
        await deleteAlias(trx, row.id)
        audit({ action: 'alias.delete', target: `alias:${row.id}`, before: presentAlias(row) })
        await dropCanariesOf(changing, { kind: 'alias', ids: [row.id], time: now() })
        return undefined
      }),
  }
}
