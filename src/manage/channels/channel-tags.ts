import type { Actor } from '../../domain/actor.ts'
import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { notFound } from '../../domain/errors.ts'
import type { ChannelRow } from '../../store/engine/schema.ts'
import type { Trx } from '../../store/engine/store.ts'
import { type ChannelChange, modelsOfTag, writeModels } from '../../store/records/channels.ts'
import type { channelContract } from '../contract/channels.ts'
import type { Changing, Handlers } from '../server/call.ts'
import type { Deps } from '../server/deps.ts'
import { DEFAULTS, readFields } from './channel-fields.ts'
import { type ChannelRows, createChannelRows } from './channel-rows.ts'
import { difference, presentChannel } from './channel-view.ts'

type ManyChanges = {
  readonly stored: Pick<ChannelRows, 'updateTogether'>
  readonly changing: Changing
  readonly actor: Actor
}

/** One change to many channels, with an audit record for each. */
async function changeTogether(
  { stored, changing: { trx, audit }, actor }: ManyChanges,
  rows: readonly ChannelRow[],
  change: Omit<ChannelChange, 'name' | 'base_url'>,
): Promise<void> {
  const ids = rows.map(row => row.id)
  await stored.updateTogether(trx, rows, change, { actor })
  if (change.models !== undefined) await writeModels(trx, ids, JSON.parse(change.models) as string[])
  const columns = Object.keys(change) as (keyof typeof change)[]
  for (const row of rows) {
    const changedFields = difference(presentChannel(row, []), presentChannel({ ...row, ...change }, []))
    // Compares stored values: two different secrets may have the same masked form.
    if (columns.some(column => change[column] !== row[column]))
      audit({ action: 'channel.update', target: `channel:${row.id}`, ...changedFields })
  }
}

/** Enables or disables channels, and returns the number of changed ones. */
export async function setStatus(
  changes: ManyChanges,
  rows: readonly ChannelRow[],
  status: number,
): Promise<number> {
  const others = rows.filter(row => row.status !== status)
  await changeTogether(changes, others, { status, status_reason: '' })
  return others.length
}

/** Enables, disables and changes the channels of a tag together. */
export function createChannelTagHandlers(
  deps: Deps,
): Pick<
  Handlers<typeof channelContract>,
  'enableTag' | 'disableTag' | 'updateTag' | 'tagChannels' | 'listTagModels'
> {
  const { db, addressPolicy: policy } = deps
  const stored = createChannelRows(deps)

  async function mustLockTag(trx: Trx, tag: string): Promise<ChannelRow[]> {
    const rows = await stored.lock(trx, { tag })
    if (rows.length === 0) throw notFound('tag')
    return rows
  }

  const setTagStatus = (changing: Changing, actor: Actor, tag: string, status: number) =>
    mustLockTag(changing.trx, tag)
      .then(rows => setStatus({ stored, changing, actor }, rows, status))
      .then(() => undefined)

  return {
    enableTag: async ({ body, actor, change }) =>
      change(changing => setTagStatus(changing, actor, body.tag, CHANNEL_STATUS.enabled)),
    disableTag: async ({ body, actor, change }) =>
      change(changing => setTagStatus(changing, actor, body.tag, CHANNEL_STATUS.disabled)),

    updateTag: async ({ body, actor, change }) => {
      const { tag, new_tag, groups, models, ...rest } = body
      const fields = readFields(
        // Existing clients send empty values for unset fields, so an empty list does not remove the models.
        { ...rest, tag: new_tag, group: groups || undefined, models: models?.length ? models : undefined },
        {
          current: { ...DEFAULTS, type: undefined },
          at: '',
          policy,
        },
      )
      return change(async changing => {
        const rows = await mustLockTag(changing.trx, tag)
        await changeTogether({ stored, changing, actor }, rows, fields)
        return undefined
      })
    },

    tagChannels: async ({ body, actor, change }) =>
      change(async changing => {
        const rows = await stored.lock(changing.trx, { ids: [...new Set(body.ids)] })
        await changeTogether({ stored, changing, actor }, rows, { tag: body.tag || null })
        return rows.length
      }),

    listTagModels: async ({ query }) => {
      const lists = await modelsOfTag(db, query.tag)
      if (lists.length === 0) throw notFound('tag')
      return lists
        .map(models => models.join(','))
        .reduce((longest, models) => (models.length > longest.length ? models : longest))
    },
  }
}
