import { type SelectQueryBuilder, sql } from 'kysely'
import { CHANNEL_STATUS } from '../domain/channel.ts'
import { fold } from '../domain/text.ts'
import { chunksOf } from './chunks.ts'
import { boundedCount, containing, like, type Page, type Paging, pageOf } from './page.ts'
import type { ChannelRow, Database, NewChannel } from './schema.ts'
import type { Db, Trx } from './store.ts'

const CHUNK = 500

/** What a search looks in. */
const searchText = ({ name, base_url }: Pick<ChannelRow, 'name' | 'base_url'>) =>
  fold(base_url === '' ? name : `${name} ${base_url}`)

export type ChannelFilter = {
  readonly status?: readonly number[] | undefined
  readonly type?: number | undefined
  readonly group?: string | undefined
  readonly tag?: string | undefined
  /** An id, a part of the name or address, or a whole key. */
  readonly keyword?: { readonly text: string; readonly digest: string } | undefined
  /** A part of a model's name. */
  readonly model?: string | undefined
}

/** What lists can be sorted by, and the column that does it. */
export const CHANNEL_ORDERS = {
  id: 'channels.id',
  // The folded name: both engines then agree, and capitals do not come first.
  name: 'channels.search',
  priority: 'channels.priority',
  response_time: 'channels.response_time',
  test_time: 'channels.test_time',
} as const
export type ChannelOrder = {
  readonly by: keyof typeof CHANNEL_ORDERS
  readonly direction: 'asc' | 'desc'
}

type Ids = SelectQueryBuilder<Database, 'channels', { id: number }>

function matching(db: Db, filter: ChannelFilter): Ids {
  const { keyword, model, group } = filter
  let ids: Ids = db.selectFrom('channels').select('channels.id')
  if (filter.status !== undefined) ids = ids.where('channels.status', 'in', filter.status)
  if (filter.type !== undefined) ids = ids.where('channels.type', '=', filter.type)
  if (filter.tag !== undefined) ids = ids.where('channels.tag', '=', filter.tag)
  if (group !== undefined)
    ids = ids.where(
      sql<boolean>`',' || channels.channel_group || ',' like ${containing(`,${group},`)} escape '\\'`,
    )
  if (model !== undefined)
    ids = ids.where('channels.id', 'in', inner =>
      inner
        .selectFrom('channel_models')
        .select('channel_models.channel_id')
        .where(sql<boolean>`lower(channel_models.model) like lower(${containing(model)}) escape '\\'`),
    )
  if (keyword !== undefined) {
    const id = /^\d{1,16}$/.test(keyword.text) ? Number(keyword.text) : -1
    ids = ids.where(row =>
      row.or([
        row('channels.id', '=', id),
        like('channels.search', containing(fold(keyword.text))),
        row('channels.id', 'in', inner =>
          inner
            .selectFrom('channel_keys')
            .select('channel_keys.channel_id')
            .where('channel_keys.digest', '=', keyword.digest),
        ),
      ]),
    )
  }
  return ids
}

/** Whole rows in the order of their ids; a list finds the ids first, so that big rows are read for one page only. */
async function rowsOf(db: Db, ids: readonly number[]): Promise<ChannelRow[]> {
  const found = new Map<number, ChannelRow>()
  for (const chunk of chunksOf(ids, CHUNK)) {
    for (const row of await db.selectFrom('channels').selectAll().where('id', 'in', chunk).execute())
      found.set(row.id, row)
  }
  return ids.flatMap(id => found.get(id) ?? [])
}

export async function listChannels(
  db: Db,
  filter: ChannelFilter,
  { by, direction }: ChannelOrder,
  paging: Paging,
): Promise<Page<ChannelRow>> {
  const ids = matching(db, filter)
  const ordered = ids.orderBy(CHANNEL_ORDERS[by], direction).orderBy('channels.id', 'desc')
  const { items, total } = await pageOf(ordered, boundedCount(db, ids), paging)
  return {
    items: await rowsOf(
      db,
      items.map(row => row.id),
    ),
    total,
  }
}

export type TagGroup = { readonly tag: string | null; readonly count: number; readonly channels: ChannelRow[] }

/** Of a large group a page shows this many; its count says how many there are. */
const MAX_SHOWN = 100

/** Channels by tag, untagged ones last; a page counts groups. */
export async function listTagGroups(
  db: Db,
  filter: ChannelFilter,
  { by, direction }: ChannelOrder,
  paging: Paging,
): Promise<Page<TagGroup>> {
  const ids = matching(db, filter)
  const groups = ids
    .clearSelect()
    .select(['channels.tag', sql<number>`count(*)`.as('count')])
    .groupBy('channels.tag')
  const ordered = groups.orderBy(sql`channels.tag is null`).orderBy('channels.tag')
  const { items, total } = await pageOf(ordered, boundedCount(db, groups), paging)
  if (items.length === 0) return { items: [], total }

  const tags = items.flatMap(({ tag }) => tag ?? [])
  const ranked = ids
    .select('channels.tag')
    .select(({ fn }) =>
      fn
        .agg<number>('row_number')
        .over(over =>
          over
            .partitionBy('channels.tag')
            .orderBy(CHANNEL_ORDERS[by], direction)
            .orderBy('channels.id', 'desc'),
        )
        .as('place'),
    )
    .where(row =>
      row.or([
        row('channels.tag', 'in', [...tags, '']),
        ...(tags.length < items.length ? [row('channels.tag', 'is', null)] : []),
      ]),
    )
  const shown = await db
    .selectFrom(ranked.as('ranked'))
    .select('ranked.id')
    .where('ranked.place', '<=', MAX_SHOWN)
    .orderBy('ranked.place')
    .execute()
  const rows = await rowsOf(
    db,
    shown.map(row => row.id),
  )
  const byTag = Map.groupBy(rows, row => row.tag)
  return {
    items: items.map(({ tag, count }) => ({ tag, count: Number(count), channels: byTag.get(tag) ?? [] })),
    total,
  }
}

/** How many of each type there are, whatever type the list shows. */
export async function countTypes(db: Db, { type: _, ...filter }: ChannelFilter): Promise<Map<number, number>> {
  const rows = await matching(db, filter)
    .clearSelect()
    .select(['channels.type', sql<number>`count(*)`.as('count')])
    .groupBy('channels.type')
    .orderBy('channels.type')
    .execute()
  return new Map(rows.map(({ type, count }) => [type, Number(count)]))
}

export const countChannels = (db: Db): Promise<number> =>
  boundedCount(db, db.selectFrom('channels').select('channels.id'))

export const findChannel = (db: Db, id: number): Promise<ChannelRow | undefined> =>
  db.selectFrom('channels').selectAll().where('id', '=', id).executeTakeFirst()

/** Those of the ids that exist. */
export async function existingChannels(db: Db, ids: readonly number[]): Promise<Set<number>> {
  const found = new Set<number>()
  for (const chunk of chunksOf(ids, CHUNK)) {
    for (const { id } of await db.selectFrom('channels').select('id').where('id', 'in', chunk).execute())
      found.add(id)
  }
  return found
}

export type ChannelSelection =
  | { readonly ids: readonly number[] }
  | { readonly tag: string }
  | { readonly status: readonly number[] }

/**
 * Reads channels to change them: an update of nothing locks the rows until the transaction ends, on both engines, so
 * that what is written was made from what is still there.
 */
export async function lockChannels(trx: Trx, selection: ChannelSelection): Promise<ChannelRow[]> {
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

export async function lockChannel(trx: Trx, id: number): Promise<ChannelRow | undefined> {
  const [row] = await lockChannels(trx, { ids: [id] })
  return row
}

/** The ids, in the order of the channels given. */
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
    // Ids are given in the order of the rows, but neither engine promises to return them so.
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

/** The same change to several; names and addresses are each channel's own. */
export async function updateChannels(
  trx: Trx,
  ids: readonly number[],
  change: Omit<ChannelChange, 'name' | 'base_url'>,
): Promise<void> {
  if (Object.keys(change).length === 0) return
  for (const chunk of chunksOf(ids, CHUNK))
    await trx.updateTable('channels').set(change).where('id', 'in', chunk).execute()
}

/** With them go their keys and their rows by model. */
export async function deleteChannels(trx: Trx, ids: readonly number[]): Promise<void> {
  for (const chunk of chunksOf(ids, CHUNK))
    await trx.deleteFrom('channels').where('id', 'in', chunk).execute()
}

/** Keeps the rows by model in step with `channels.models`. */
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
  // The others take the first one's rows: no list of names travels a thousand times.
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

/**
 * Every model that a channel of status 1 lists, by name. A few thousand names stand in a million rows, so the index is
 * walked from each name to the next instead of row by row.
 */
export async function enabledModels(db: Db): Promise<string[]> {
  const rows = await db
    .withRecursive('names(model)', names =>
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
