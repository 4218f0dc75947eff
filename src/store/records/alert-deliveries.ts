import type { DeliveryStatus, Notice } from '../../domain/alert.ts'
import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { AlertDeliveryRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

/** The notices that a message contains; further ones are counted. */
export const MAX_NOTICES = 100
/** Messages of a target that wait. Further notices are added to the last one. */
export const MAX_PENDING = 100
const DAY_S = 86_400
/** How long messages are kept after they were sent, and after the last attempt failed. */
export const SENT_KEEP_S = 7 * DAY_S
export const DEAD_KEEP_S = 30 * DAY_S

const noticesOf = (row: Pick<AlertDeliveryRow, 'notices'>) => JSON.parse(row.notices) as Notice[]

export type AlertDelivery = Omit<AlertDeliveryRow, 'notices'> & { readonly notices: readonly Notice[] }
const parse = (row: AlertDeliveryRow): AlertDelivery => ({ ...row, notices: noticesOf(row) })

/** The message that still waits for further alerts, or the last one if too many wait. */
async function openDelivery(trx: Trx, targetId: number): Promise<AlertDeliveryRow | undefined> {
  const pending = trx
    .selectFrom('alert_deliveries')
    .selectAll()
    .where('target_id', '=', targetId)
    .where('status', '=', 'pending')
    .orderBy('id', 'desc')
  const rows = await pending.limit(MAX_PENDING).execute()
  const isFull = rows.length >= MAX_PENDING
  // What is added to a message while it is being sent would be lost.
  return rows.find((row, index) => row.claimed_until === 0 && (isFull || (index === 0 && row.attempts === 0)))
}

type NewNotices = {
  readonly targetId: number
  readonly notices: readonly Notice[]
  readonly now: number
  /** When a new message is sent. */
  readonly sendTime: number
}

/** Adds notices to the target's waiting message, or creates one. */
export async function enqueue(trx: Trx, { targetId, notices, now, sendTime }: NewNotices): Promise<void> {
  const open = await openDelivery(trx, targetId)
  if (open) {
    const all = [...noticesOf(open), ...notices]
    const { numUpdatedRows } = await trx
      .updateTable('alert_deliveries')
      .set({
        notices: JSON.stringify(all.slice(0, MAX_NOTICES)),
        omitted: open.omitted + Math.max(0, all.length - MAX_NOTICES),
      })
      .where('id', '=', open.id)
      .where('status', '=', 'pending')
      // Another machine may have added notices or begun to send it.
      .where('notices', '=', open.notices)
      .where('claimed_until', '=', 0)
      .executeTakeFirst()
    if (numUpdatedRows === 1n) return
  }
  await trx
    .insertInto('alert_deliveries')
    .values({
      target_id: targetId,
      status: 'pending',
      notices: JSON.stringify(notices.slice(0, MAX_NOTICES)),
      omitted: Math.max(0, notices.length - MAX_NOTICES),
      created_time: now,
      attempts: 0,
      next_time: sendTime,
      claimed_until: 0,
      ended_time: null,
      last_error: '',
    })
    .execute()
}

/** How far the clocks of two machines may differ. A time beyond it was written before the clock was set back. */
const MAX_SKEW_S = 600
/** The longest time that a message waits for further alerts or for its next attempt. */
const MAX_WAIT_S = 3_600

/** Claims due messages for this process. A claim expires, so a message of a killed process is sent by the next. */
export async function claimDue(
  db: Db,
  { now, untilTime, limit }: { now: number; untilTime: number; limit: number },
): Promise<AlertDelivery[]> {
  const due = await db
    .selectFrom('alert_deliveries')
    .select(['id', 'claimed_until'])
    .where('status', '=', 'pending')
    .where(row => row.or([row('next_time', '<=', now), row('next_time', '>', now + MAX_WAIT_S + MAX_SKEW_S)]))
    .where(row =>
      row.or([row('claimed_until', '<=', now), row('claimed_until', '>', untilTime + MAX_SKEW_S)]),
    )
    .orderBy('next_time')
    .orderBy('id')
    .limit(limit)
    .execute()
  const claimed: AlertDelivery[] = []
  for (const { id, claimed_until } of due) {
    const row = await db
      .updateTable('alert_deliveries')
      .set({ claimed_until: untilTime })
      .where('id', '=', id)
      .where('status', '=', 'pending')
      .where('claimed_until', '=', claimed_until)
      .returningAll()
      .executeTakeFirst()
    if (row) claimed.push(parse(row))
  }
  return claimed
}

type Attempted = Pick<AlertDeliveryRow, 'status' | 'attempts' | 'next_time' | 'ended_time' | 'last_error'>

/** Writes the outcome of an attempt. */
export async function concludeDelivery(db: Db, id: number, attempted: Attempted): Promise<void> {
  await db
    .updateTable('alert_deliveries')
    .set({ ...attempted, claimed_until: 0 })
    .where('id', '=', id)
    .where('status', '=', 'pending')
    .execute()
}

export const findDelivery = async (db: Db, id: number): Promise<AlertDelivery | undefined> => {
  const row = await db.selectFrom('alert_deliveries').selectAll().where('id', '=', id).executeTakeFirst()
  return row && parse(row)
}

/** Newest first. */
export async function listDeliveries(
  db: Db,
  filter: { readonly status?: DeliveryStatus | undefined; readonly targetId?: number | undefined },
  paging: Paging,
): Promise<Page<AlertDelivery>> {
  let query = db.selectFrom('alert_deliveries')
  if (filter.status !== undefined) query = query.where('status', '=', filter.status)
  if (filter.targetId !== undefined) query = query.where('target_id', '=', filter.targetId)
  const page = await pageOf(
    query.selectAll().orderBy('id', 'desc'),
    boundedCount(db, query.select('id')),
    paging,
  )
  return { ...page, items: page.items.map(parse) }
}

/** Puts a dead message into the queue again. False if it is not dead. */
export async function reviveDelivery(trx: Trx, id: number, now: number): Promise<boolean> {
  const { numUpdatedRows } = await trx
    .updateTable('alert_deliveries')
    .set({ status: 'pending', attempts: 0, next_time: now, claimed_until: 0, ended_time: null })
    .where('id', '=', id)
    .where('status', '=', 'dead')
    .executeTakeFirst()
  return numUpdatedRows === 1n
}
