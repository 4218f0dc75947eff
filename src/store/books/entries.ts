import { sql } from 'kysely'
import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { EntryRow, LogRow, SuspenseRow } from '../engine/schema.ts'
import type { Db } from '../engine/store.ts'

type EntryFilter = { readonly userId: number; readonly tokenId?: number | undefined }

/** Entries of a user, from every chain, newest first. */
export function listEntries(
  db: Db,
  { userId, tokenId }: EntryFilter,
  paging: Paging,
): Promise<Page<EntryRow>> {
  let query = db.selectFrom('entries').where('user_id', '=', userId)
  if (tokenId !== undefined) query = query.where('token_id', '=', tokenId)
  const ordered = query.selectAll().orderBy('time', 'desc').orderBy('chain').orderBy('seq', 'desc')
  return pageOf(ordered, boundedCount(db, query.select('seq')), paging)
}

/** The number of entries of each chain name, including names without a chain. */
export async function countEntries(db: Db): Promise<{ chain: string; entries: number }[]> {
  const rows = await db
    .selectFrom('entries')
    .select(['chain', sql<number>`count(*)`.as('entries')])
    .groupBy('chain')
    .orderBy('chain')
    .execute()
  return rows.map(({ chain, entries }) => ({ chain, entries: Number(entries) }))
}

/** The largest difference between the times of an entry and of its usage row. */
const NEAR_S = 3600

/** Searches the user's entries of that time, because an index by request id would slow down every request. */
export const entriesOfRequest = (
  db: Db,
  { user_id, created_time, request_id }: Pick<LogRow, 'user_id' | 'created_time' | 'request_id'>,
): Promise<EntryRow[]> =>
  db
    .selectFrom('entries')
    .selectAll()
    .where('user_id', '=', user_id)
    .where('time', '>=', created_time - NEAR_S)
    .where('time', '<=', created_time + NEAR_S)
    .where('request_id', '=', request_id)
    .orderBy('time')
    .execute()

export const suspenseOfEntries = (db: Db, requestId: string): Promise<SuspenseRow[]> =>
  db.selectFrom('suspense').selectAll().where('request_id', '=', requestId).orderBy('id').execute()

/** Open amounts and positions of the ledger. */
export async function readLedgerHealth(db: Db) {
  const [heads, nodes, leases, suspense] = await Promise.all([
    db
      .selectFrom('chains')
      .select(sql<number>`coalesce(sum(seq), 0)`.as('entries'))
      .where('name', '<>', 'audit')
      .executeTakeFirstOrThrow(),
    db.selectFrom('nodes').selectAll().orderBy('id').execute(),
    db
      .selectFrom('leases')
      .select([
        'node_id',
        sql<number>`coalesce(sum(amount), 0)`.as('amount'),
        sql<number>`count(*)`.as('accounts'),
      ])
      .where('amount', '>', 0)
      .groupBy('node_id')
      .execute(),
    db
      .selectFrom('suspense')
      .select([
        sql<number>`count(*)`.as('open'),
        // Providers may report any amount, so the sum is capped at the largest exact number.
        sql<number>`case when sum(amount) > ${sql.lit(Number.MAX_SAFE_INTEGER)}
          then ${sql.lit(Number.MAX_SAFE_INTEGER)} else coalesce(sum(amount), 0) end`.as('amount'),
        sql<number | null>`min(time)`.as('oldest'),
      ])
      .where('closed_time', 'is', null)
      .executeTakeFirstOrThrow(),
  ])
  const leasesOf = new Map(leases.map(lease => [lease.node_id, lease]))
  return {
    entries: Number(heads.entries),
    leased: leases.reduce((sum, { amount }) => sum + Number(amount), 0),
    suspense: { open: Number(suspense.open), amount: Number(suspense.amount), oldest: suspense.oldest },
    nodes: nodes.map(node => ({
      ...node,
      leased: Number(leasesOf.get(node.id)?.amount ?? 0),
      accounts: Number(leasesOf.get(node.id)?.accounts ?? 0),
    })),
  }
}
