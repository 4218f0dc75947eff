import type { EntryRow } from '../engine/schema.ts'

/** Every field of an entry, in the order the chain digests them. */
export const entryFields = (row: Omit<EntryRow, 'hash'>) => [
  row.chain,
  row.seq,
  row.time,
  row.kind,
  row.user_id,
  row.token_id,
  row.channel_id,
  row.amount,
  row.actor,
  row.reason,
  row.request_id,
]
