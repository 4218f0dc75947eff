import { notFound } from '../domain/errors.ts'
import { listKeys } from '../store/channel-keys.ts'
import { findChannel, lockChannel } from '../store/channels.ts'
import type { ChannelRow } from '../store/schema.ts'
import type { Db, Trx } from '../store/store.ts'
import { type ChannelTold, tellChannel } from './channel-told.ts'

export async function mustFindChannel(db: Db, id: number): Promise<ChannelRow> {
  const row = await findChannel(db, id)
  if (!row) throw notFound('channel')
  return row
}

/** The same for a change: nobody else changes it until the transaction ends. */
export async function mustLockChannel(trx: Trx, id: number): Promise<ChannelRow> {
  const row = await lockChannel(trx, id)
  if (!row) throw notFound('channel')
  return row
}

/** Channels with their keys, in one query for all of them. */
export async function tellChannels(db: Db, rows: readonly ChannelRow[]): Promise<ChannelTold[]> {
  const keys = await listKeys(
    db,
    rows.map(row => row.id),
  )
  return rows.map(row => tellChannel(row, keys.get(row.id) ?? []))
}

export async function tellOne(db: Db, row: ChannelRow): Promise<ChannelTold> {
  const keys = await listKeys(db, [row.id])
  return tellChannel(row, keys.get(row.id) ?? [])
}
