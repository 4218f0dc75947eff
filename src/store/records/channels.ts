import { PostgresAdapter } from 'kysely'
import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { fold } from '../../domain/text.ts'
import { chunksOf } from '../engine/chunks.ts'
import { boundedCount } from '../engine/page.ts'
import type { ChannelRow, NewChannel } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

const CHUNK = 500

/** The text that searches match. */
const searchText = ({ name, base_url }: Pick<ChannelRow, 'name' | 'base_url'>) =>
  fold(base_url === '' ? name : `${name} ${base_url}`)

/** Whole rows in the order of the ids. Lists select ids first, so that large rows are read for one page only. */
export async function findChannels(db: Db, ids: readonly number[]): Promise<ChannelRow[]> {
  const rowsById = new Map<number, ChannelRow>()
  for (const chunk of chunksOf(ids, CHUNK)) {
    for (const row of await db.selectFrom('channels').selectAll().where('id', 'in', chunk).execute())
      rowsById.set(row.id, row)
  }
  return ids.flatMap(id => rowsById.get(id) ?? [])
}

export const countChannels = (db: Db): Promise<number> =>
  boundedCount(db, db.selectFrom('channels').select('channels.id'))

export const findChannel = (db: Db, id: number): Promise<ChannelRow | undefined> =>
  db.selectFrom('channels').selectAll().where('id', '=', id).executeTakeFirst()

/** The subset of the ids that exist. */
export async function existingChannels(db: Db, ids: readonly number[]): Promise<Set<number>> {
  const existing = new Set<number>()
  for (const chunk of chunksOf(ids, CHUNK)) {
    for (const { id } of await db.selectFrom('channels').select('id').where('id', 'in', chunk).execute())
      existing.add(id)
  }
  return existing
}

export type ChannelSelection =
  | { readonly ids: readonly number[] }
  | { readonly tag: string }
  | { readonly status: readonly number[] }

/** PostgreSQL updates rows in any order, so two transactions that change the same channels could deadlock. */
async function lockInOrder(trx: Trx, selection: ChannelSelection): Promise<void> {
  if (!(trx.getExecutor().adapter instanceof PostgresAdapter)) return
  const inOrder = trx.selectFrom('channels').orderBy('id').forNoKeyUpdate()
  if ('tag' in selection) await inOrder.where('tag', '=', selection.tag).execute()
  else if ('status' in selection) await inOrder.where('status', 'in', [...selection.status]).execute()
  else
    for (const chunk of chunksOf(
      selection.ids.toSorted((a, b) => a - b),
      CHUNK,
    ))
      await inOrder.where('id', 'in', chunk).execute()
}

/**
 * Reads channels for a change and locks them until the transaction ends, so that the change is based on current values. An
 * update without changes is used for locking, because both engines support it.
 */
export async function lockChannels(trx: Trx, selection: ChannelSelection): Promise<ChannelRow[]> {
  await lockInOrder(trx, selection)
  const touched = trx.updateTable('channels').set(row => ({ status: row.ref('status') }))
  if ('tag' in selection) return touched.where('tag', '=', selection.tag).returningAll().execute()
  if ('status' in selection)
    return touched
      .where('status', 'in', [...selection.status])
      .returningAll()
      .execute()
  const rows: ChannelRow[] = []
  for (const chunk of chunksOf(selection.ids, CHUNK))
    rows.push(...(await touched.where('id', 'in', chunk).returningAll().execute()))
  return rows
}

/** Returns the ids in the order of the channels. */
export async function insertChannels(
  trx: Trx,
  channels: readonly Omit<NewChannel, 'id' | 'search'>[],
): Promise<number[]> {
  const ids: number[] = []
  for (const chunk of chunksOf(channels, CHUNK)) {
    const rows = await trx
      .insertInto('channels')
      .values(chunk.map(channel => ({ ...channel, search: searchText(channel) })))
      .returning('id')
      .execute()
    // Ids are assigned in the order of the rows, but neither engine guarantees to return them in it.
    ids.push(...rows.map(row => row.id).sort((a, b) => a - b))
  }
  return ids
}

export type ChannelChange = Partial<Omit<ChannelRow, 'id' | 'search' | 'created_time'>>

export async function updateChannel(trx: Trx, current: ChannelRow, change: ChannelChange): Promise<void> {
  await trx
    .updateTable('channels')
    .set({ ...change, search: searchText({ ...current, ...change }) })
    .where('id', '=', current.id)
    .execute()
}

/** Applies the same change to several channels; names and addresses differ by channel. */
export async function updateChannels(
  trx: Trx,
  ids: readonly number[],
  change: Omit<ChannelChange, 'name' | 'base_url'>,
): Promise<void> {
  if (Object.keys(change).length === 0) return
  for (const chunk of chunksOf(ids, CHUNK))
    await trx.updateTable('channels').set(change).where('id', 'in', chunk).execute()
}

/** Deletes channels with their keys and `channel_models` rows. */
export async function deleteChannels(trx: Trx, ids: readonly number[]): Promise<void> {
  for (const chunk of chunksOf(ids, CHUNK))
    await trx.deleteFrom('channels').where('id', 'in', chunk).execute()
}

/** Updates `channel_models` after a change of `channels.models`. */
export async function writeModels(
  trx: Trx,
  channelIds: readonly number[],
  models: readonly string[],
): Promise<void> {
  for (const chunk of chunksOf(channelIds, CHUNK))
    await trx.deleteFrom('channel_models').where('channel_id', 'in', chunk).execute()
  const [first, ...others] = channelIds
  if (first === undefined) return
  for (const chunk of chunksOf(models, CHUNK))
    await trx
      .insertInto('channel_models')
      .values(chunk.map(model => ({ channel_id: first, model })))
      .execute()
  // The others copy the rows of the first one, so that the list of names is sent only once.
  for (const chunk of chunksOf(others, CHUNK))
    await trx
      .insertInto('channel_models')
      .columns(['channel_id', 'model'])
      .expression(row =>
        row
          .selectFrom(['channels', 'channel_models'])
          .select(['channels.id', 'channel_models.model'])
          .where('channel_models.channel_id', '=', first)
          .where('channels.id', 'in', chunk),
      )
      .execute()
}

/** The list of models of each channel of a tag. */
export async function modelsOfTag(db: Db, tag: string): Promise<string[][]> {
  const rows = await db.selectFrom('channels').select('models').where('tag', '=', tag).execute()
  return rows.map(({ models }) => JSON.parse(models) as string[])
}

/**
 * Every model that a channel lists, without duplicates, as `names`. A million rows have a few thousand names, so a loose
 * index scan jumps from each name to the next. The last name is null.
 */
export const modelNames = (db: Db) =>
  db.withRecursive('names(model)', names =>
    names
      .selectFrom('channel_models')
      .select(({ fn }) => fn.min<string | null>('channel_models.model').as('model'))
      .unionAll(
        names
          .selectFrom('names')
          .select(row =>
            row
              .selectFrom('channel_models')
              .select(({ fn }) => fn.min<string | null>('channel_models.model').as('next'))
              .whereRef('channel_models.model', '>', 'names.model')
              .as('model'),
          )
          .where('names.model', 'is not', null),
      ),
  )

/** Every model that a channel of status 1 lists, by name. */
export async function enabledModels(db: Db): Promise<string[]> {
  const rows = await modelNames(db)
    .selectFrom('names')
    .select('names.model')
    .where('names.model', 'is not', null)
    .where(row =>
      row.exists(
        row
          .selectFrom('channel_models')
          .innerJoin('channels', 'channels.id', 'channel_models.channel_id')
          .select('channels.id')
          .whereRef('channel_models.model', '=', 'names.model')
          .where('channels.status', '=', CHANNEL_STATUS.enabled),
      ),
    )
    .execute()
  return rows.flatMap(({ model }) => model ?? []).sort()
}
