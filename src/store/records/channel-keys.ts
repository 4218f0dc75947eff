import { sql } from 'kysely'
import { chunksOf } from '../engine/chunks.ts'
import type { ChannelKeyRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

const CHUNK = 500

/** A key as responses may show it: without its digest and ciphertext. */
export type ChannelKey = Omit<ChannelKeyRow, 'digest' | 'sealed'>

const VISIBLE_COLUMNS = ['id', 'channel_id', 'position', 'hint', 'status', 'reason', 'disabled_time'] as const

/** The keys of many channels at once, by channel and in order. */
export async function listKeys(db: Db, channelIds: readonly number[]): Promise<Map<number, ChannelKey[]>> {
  const keys: ChannelKey[] = []
  for (const chunk of chunksOf(channelIds, CHUNK))
    keys.push(
      ...(await db
        .selectFrom('channel_keys')
        .select(VISIBLE_COLUMNS)
        .where('channel_id', 'in', chunk)
        .orderBy('channel_id')
        .orderBy('position')
        .execute()),
    )
  return Map.groupBy(keys, key => key.channel_id)
}

export const listSealedKeys = (db: Db, channelId: number): Promise<ChannelKeyRow[]> =>
  db.selectFrom('channel_keys').selectAll().where('channel_id', '=', channelId).orderBy('position').execute()

type NewKey = Omit<ChannelKeyRow, 'id' | 'sealed'>

/** Keys are sealed to the ids of their rows, so the rows are inserted first. */
export async function insertKeys(
  trx: Trx,
  keys: readonly NewKey[],
  seal: (id: number, index: number) => string,
): Promise<void> {
  const ids: number[] = []
  for (const chunk of chunksOf(keys, CHUNK)) {
    const rows = await trx
      .insertInto('channel_keys')
      .values(chunk.map(key => ({ ...key, sealed: '' })))
      .returning('id')
      .execute()
    // Ids are assigned in the order of the rows, but neither engine guarantees to return them in it.
    ids.push(...rows.map(row => row.id).sort((a, b) => a - b))
  }
  const sealed = ids.map((id, index) => sql`(cast(${id} as bigint), ${seal(id, index)})`)
  for (const chunk of chunksOf(sealed, CHUNK))
    await trx
      .with('made(id, sealed)', () => sql<{ id: number; sealed: string }>`(values ${sql.join(chunk)})`)
      .updateTable('channel_keys')
      .from('made')
      .set(row => ({ sealed: row.ref('made.sealed') }))
      .whereRef('channel_keys.id', '=', 'made.id')
      .execute()
}

export type KeyState = Pick<ChannelKeyRow, 'status' | 'reason' | 'disabled_time'>

export async function updateKeys(trx: Trx, ids: readonly number[], state: KeyState): Promise<void> {
  for (const chunk of chunksOf(ids, CHUNK))
    await trx.updateTable('channel_keys').set(state).where('id', 'in', chunk).execute()
}

/** Renumbers the remaining keys, so that positions are always 0, 1, 2 … */
export async function deleteKeys(trx: Trx, channelId: number, ids: readonly number[]): Promise<void> {
  for (const chunk of chunksOf(ids, CHUNK))
    await trx.deleteFrom('channel_keys').where('id', 'in', chunk).execute()
  const remaining = await trx
    .selectFrom('channel_keys')
    .select(['id', 'position'])
    .where('channel_id', '=', channelId)
    .orderBy('position')
    .execute()
  for (const [position, key] of remaining.entries())
    if (key.position !== position)
      await trx.updateTable('channel_keys').set({ position }).where('id', '=', key.id).execute()
}
