import { type SelectQueryBuilder, sql } from 'kysely'
import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { fold } from '../../domain/text.ts'
import { boundedCount, containing, like, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { ChannelRow, Database } from '../engine/schema.ts'
import type { Db } from '../engine/store.ts'
import { findChannels, modelNames } from './channels.ts'

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

/** The sort orders of lists, with their columns. */
export const CHANNEL_ORDERS = {
  id: 'channels.id',
  // The case-folded name, so that both engines sort alike.
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

async function matching(db: Db, filter: ChannelFilter): Promise<Ids> {
  const { keyword, model, group } = filter
  let ids: Ids = db.selectFrom('channels').select('channels.id')
  if (filter.status !== undefined) ids = ids.where('channels.status', 'in', filter.status)
  if (filter.type !== undefined) ids = ids.where('channels.type', '=', filter.type)
  if (filter.tag !== undefined) ids = ids.where('channels.tag', '=', filter.tag)
  if (group !== undefined)
    ids = ids.where(
      sql<boolean>`',' || channels.channel_group || ',' like ${containing(`,${group},`)} escape '\\'`,
    )
  if (model !== undefined) {
    const names = await modelsLike(db, model)
    ids = ids.where(row => {
      const listed = row
        .selectFrom('channel_models')
        .select('channel_models.model')
        .whereRef('channel_models.channel_id', '=', 'channels.id')
      return row.exists(
        names ? listed.where('channel_models.model', 'in', [...names, '']) : listed.where(modelLike(model)),
      )
    })
  }
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

const modelLike = (part: string) =>
  sql<boolean>`lower(channel_models.model) like lower(${containing(part)}) escape '\\'`

/** Up to this many matching names are looked up; with more, most channels match at their first name. */
const MAX_NAMES = 200

async function modelsLike(db: Db, part: string): Promise<string[] | undefined> {
  const rows = await modelNames(db)
    .selectFrom('names as channel_models')
    .select('channel_models.model')
    .where(modelLike(part))
    .limit(MAX_NAMES + 1)
    .execute()
  return rows.length > MAX_NAMES ? undefined : rows.flatMap(({ model }) => model ?? [])
}

export async function listChannels(
  db: Db,
  filter: ChannelFilter,
  { by, direction }: ChannelOrder,
  paging: Paging,
): Promise<Page<ChannelRow>> {
  const ids = await matching(db, filter)
  const ordered = ids.orderBy(CHANNEL_ORDERS[by], direction).orderBy('channels.id', 'desc')
  const { items, total } = await pageOf(ordered, boundedCount(db, ids), paging)
  return {
    items: await findChannels(
      db,
      items.map(row => row.id),
    ),
    total,
  }
}

export type TagGroup = {
  readonly tag: string | null
  readonly count: number
  readonly channels: ChannelRow[]
}

/** The most channels of a group that a page shows; `count` has the total. */
const MAX_SHOWN = 100

/** Channels by tag, untagged ones last; pages are counted in groups. */
export async function listTagGroups(
  db: Db,
  filter: ChannelFilter,
  { by, direction }: ChannelOrder,
  paging: Paging,
): Promise<Page<TagGroup>> {
  const ids = await matching(db, filter)
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
  const pageIds = await db
    .selectFrom(ranked.as('ranked'))
    .select('ranked.id')
    .where('ranked.place', '<=', MAX_SHOWN)
    .orderBy('ranked.place')
    .execute()
  const rows = await findChannels(
    db,
    pageIds.map(row => row.id),
  )
  const byTag = Map.groupBy(rows, row => row.tag)
  return {
    items: items.map(({ tag, count }) => ({ tag, count: Number(count), channels: byTag.get(tag) ?? [] })),
    total,
  }
}

/** The number of channels of each type, without the filter by type. */
export async function countTypes(
  db: Db,
  { type: _, ...filter }: ChannelFilter,
): Promise<Map<number, number>> {
  const ids = await matching(db, filter)
  const rows = await ids
    .clearSelect()
    .select(['channels.type', sql<number>`count(*)`.as('count')])
    .groupBy('channels.type')
    .orderBy('channels.type')
    .execute()
  return new Map(rows.map(({ type, count }) => [type, Number(count)]))
}

/** The name and status of every channel. */
export const listChannelStates = (db: Db) =>
  db.selectFrom('channels').select(['id', 'name', 'status']).orderBy('id').execute()

/** The number of channels that list each model, and how many of them are enabled. */
export async function countListings(db: Db): Promise<ReadonlyMap<string, { on: number; all: number }>> {
  const rows = await db
    .selectFrom('channel_models')
    .innerJoin('channels', 'channels.id', 'channel_models.channel_id')
    .select([
      'channel_models.model',
      sql<number>`count(*)`.as('all'),
      sql<number>`sum(case when channels.status = ${sql.lit(CHANNEL_STATUS.enabled)} then 1 else 0 end)`.as(
        'on',
      ),
    ])
    .groupBy('channel_models.model')
    .execute()
  return new Map(rows.map(({ model, all, on }) => [model, { all: Number(all), on: Number(on) }]))
}
