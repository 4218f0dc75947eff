import type { SessionRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

/** Ended sessions are kept this long, for audits of sign-ins. */
export const SESSION_KEEP_S = 30 * 24 * 3600

export const findSession = (db: Db, digest: string): Promise<SessionRow | undefined> =>
  db
    .selectFrom('sessions')
    .selectAll()
    .where('digest', '=', digest)
    .where('ended_time', 'is', null)
    .executeTakeFirst()

type NewSession = Omit<SessionRow, 'id' | 'last_seen_time' | 'ended_time'>

export async function insertSession(trx: Trx, session: NewSession): Promise<number> {
  await trx
    .deleteFrom('sessions')
    .where('ended_time', '<', session.created_time - SESSION_KEEP_S)
    .execute()
  const { id } = await trx
    .insertInto('sessions')
    .values({ ...session, last_seen_time: session.created_time, ended_time: null })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

/** Active sessions, the latest first. */
export const listSessions = (
  db: Db,
  userId: number,
  aliveSince: { seen: number; created: number },
): Promise<SessionRow[]> =>
  db
    .selectFrom('sessions')
    .selectAll()
    .where('user_id', '=', userId)
    .where('ended_time', 'is', null)
    .where('last_seen_time', '>', aliveSince.seen)
    .where('created_time', '>', aliveSince.created)
    .orderBy('id', 'desc')
    .limit(500)
    .execute()

/** The addresses of a user's latest sign-ins, ended sessions included, the latest first. */
export async function signInAddresses(db: Db, userId: number): Promise<string[]> {
  const rows = await db
    .selectFrom('sessions')
    .select('address')
    .where('user_id', '=', userId)
    .orderBy('id', 'desc')
    .limit(50)
    .execute()
  return rows.map(({ address }) => address)
}

export const isSessionLive = async (db: Db, id: number): Promise<boolean> =>
  (await db
    .selectFrom('sessions')
    .select('id')
    .where('id', '=', id)
    .where('ended_time', 'is', null)
    .executeTakeFirst()) !== undefined

export async function touchSession(db: Db, id: number, time: number): Promise<void> {
  await db.updateTable('sessions').set({ last_seen_time: time }).where('id', '=', id).execute()
}

/** Ends all sessions of a user, only one, or all but one. Returns the number of ended sessions. */
export async function endSessions(
  trx: Trx,
  userId: number,
  time: number,
  which: { only?: number; except?: number } = {},
): Promise<number> {
  let query = trx
    .updateTable('sessions')
    .set({ ended_time: time })
    .where('user_id', '=', userId)
    .where('ended_time', 'is', null)
  if (which.only !== undefined) query = query.where('id', '=', which.only)
  if (which.except !== undefined) query = query.where('id', '!=', which.except)
  const { numUpdatedRows } = await query.executeTakeFirst()
  return Number(numUpdatedRows)
}
