import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { SuspenseRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

export async function listSuspense(db: Db, isOpenOnly: boolean, paging: Paging): Promise<Page<SuspenseRow>> {
  let query = db.selectFrom('suspense')
  if (isOpenOnly) query = query.where('closed_time', 'is', null)
  return pageOf(query.selectAll().orderBy('id', 'desc'), boundedCount(db, query.select('id')), paging)
}

export type Closing = Pick<SuspenseRow, 'closed_time' | 'closed_by' | 'closed_as' | 'closed_reason'>

/** Closes an open suspense entry; undefined if it is closed already or does not exist. */
export const closeSuspense = (trx: Trx, id: number, closing: Closing): Promise<SuspenseRow | undefined> =>
  trx
    .updateTable('suspense')
    .set(closing)
    .where('id', '=', id)
    .where('closed_time', 'is', null)
    .returningAll()
    .executeTakeFirst()

export const findSuspense = (db: Db, id: number): Promise<SuspenseRow | undefined> =>
  db.selectFrom('suspense').selectAll().where('id', '=', id).executeTakeFirst()

/** Reduces a charge that was just closed to an amount, and leaves the rest of it open, as a charge of its own. */
export async function leaveOpen(trx: Trx, closed: SuspenseRow, amount: number): Promise<void> {
  const { time, request_id, user_id, token_id, channel_id, reason } = closed
  await trx.updateTable('suspense').set({ amount }).where('id', '=', closed.id).execute()
  await trx
    .insertInto('suspense')
    .values({
      time,
      request_id,
      user_id,
      token_id,
      channel_id,
      amount: closed.amount - amount,
      reason,
      closed_time: null,
      closed_by: null,
      closed_as: null,
      closed_reason: null,
    })
    .execute()
}
