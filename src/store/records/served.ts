import { CHANNEL_STATUS } from '../../domain/channel.ts'
import { chunksOf } from '../engine/chunks.ts'
import { nonEmptyIds } from '../engine/page.ts'
import type { Db } from '../engine/store.ts'

const CHUNK = 500

/** A model that an enabled channel sends to its provider under another name. */
type MappedModel = { readonly channelId: number; readonly model: string; readonly sentAs: string }

/** The mapped models of enabled channels, in the order in which channels are tried. */
export async function listMapped(db: Db): Promise<MappedModel[]> {
  const rows = await db
    .selectFrom('channels')
    .select(['id', 'models', 'model_mapping'])
    .where('status', '=', CHANNEL_STATUS.enabled)
    .where('model_mapping', '<>', '{}')
    .orderBy('priority', 'desc')
    .orderBy('id', 'desc')
    .execute()
  return rows.flatMap(row => {
    const mapping = new Map(Object.entries(JSON.parse(row.model_mapping) as Record<string, string>))
    const listed = (JSON.parse(row.models) as string[]).filter(model => mapping.has(model))
    return listed.map(model => ({ channelId: row.id, model, sentAs: follow(mapping, model) }))
  })
}

/** A mapping may lead on to another name of the same mapping. */
function follow(mapping: ReadonlyMap<string, string>, model: string): string {
  const visited = new Set<string>()
  let name = model
  for (let next = mapping.get(name); next !== undefined && !visited.has(next); next = mapping.get(name)) {
    visited.add(next)
    name = next
  }
  return name
}

/** The enabled channels that list each of these models. */
export async function listServingChannels(
  db: Db,
  models: readonly string[],
): Promise<ReadonlyMap<string, readonly number[]>> {
  const backers = new Map<string, number[]>()
  for (const chunk of chunksOf(models, CHUNK)) {
    const rows = await db
      .selectFrom('channel_models')
      .innerJoin('channels', 'channels.id', 'channel_models.channel_id')
      .select(['channel_models.model', 'channel_models.channel_id'])
      .where('channel_models.model', 'in', chunk)
      .where('channels.status', '=', CHANNEL_STATUS.enabled)
      .execute()
    for (const [model, listing] of Map.groupBy(rows, row => row.model))
      backers.set(
        model,
        listing.map(row => row.channel_id),
      )
  }
  return backers
}

/** A channel that lists a model, enabled or not. */
export type ListingChannel = {
  readonly id: number
  readonly name: string
  readonly status: number
  readonly status_reason: string
  readonly base_url: string
  readonly auto_ban: number
}
const LISTING_COLUMNS = ['id', 'name', 'status', 'status_reason', 'base_url', 'auto_ban'] as const

/** The channels that list one of these models, the highest priority first. */
export const listListingChannels = (
  db: Db,
  models: readonly string[],
  limit: number,
): Promise<ListingChannel[]> =>
  db
    .selectFrom('channels')
    .select(LISTING_COLUMNS)
    .where('id', 'in', listing =>
      listing.selectFrom('channel_models').select('channel_id').where('model', 'in', models),
    )
    .orderBy('priority', 'desc')
    .orderBy('id', 'desc')
    .limit(limit)
    .execute()

/** The channels with these ids that still exist. */
export const readListingChannels = (db: Db, ids: readonly number[]): Promise<ListingChannel[]> =>
  db.selectFrom('channels').select(LISTING_COLUMNS).where('id', 'in', nonEmptyIds(ids)).execute()
