import { chunksOf } from '../engine/chunks.ts'
import type { ChannelKeyRow, ChannelRow } from '../engine/schema.ts'
import type { Db } from '../engine/store.ts'

const CHUNK = 500

type ChannelWithKeys = { readonly channel: ChannelRow; readonly keys: readonly ChannelKeyRow[] }

/** Channels with their sealed keys: all of them, or those of these ids that still exist. */
export async function listRelayChannels(db: Db, ids?: readonly number[]): Promise<ChannelWithKeys[]> {
  const channelIds = ids ?? (await db.selectFrom('channels').select('id').execute()).map(({ id }) => id)
  const rows: ChannelWithKeys[] = []
  for (const chunk of chunksOf(channelIds, CHUNK)) {
    const [channels, keys] = await Promise.all([
      db.selectFrom('channels').selectAll().where('id', 'in', chunk).execute(),
      db
        .selectFrom('channel_keys')
        .selectAll()
        .where('channel_id', 'in', chunk)
        .orderBy('position')
        .execute(),
    ])
    const keysOf = Map.groupBy(keys, key => key.channel_id)
    rows.push(...channels.map(channel => ({ channel, keys: keysOf.get(channel.id) ?? [] })))
  }
  return rows
}
