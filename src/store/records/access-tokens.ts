import { boundedCount, type Page, type Paging, pageOf } from '../engine/page.ts'
import type { AccessTokenRow } from '../engine/schema.ts'
import type { Db, Trx } from '../engine/store.ts'

export const findAccessToken = (db: Db, digest: string): Promise<AccessTokenRow | undefined> =>
  db.selectFrom('access_tokens').selectAll().where('digest', '=', digest).executeTakeFirst()

export async function listAccessTokens(
  db: Db,
  userId: number,
  paging: Paging,
): Promise<Page<AccessTokenRow>> {
  const query = db.selectFrom('access_tokens').where('user_id', '=', userId)
  return pageOf(query.selectAll().orderBy('id', 'desc'), boundedCount(db, query.select('id')), paging)
}

type NewAccessToken = Omit<AccessTokenRow, 'id' | 'last_used_time'>

export async function insertAccessToken(trx: Trx, token: NewAccessToken): Promise<number> {
  const { id } = await trx
    .insertInto('access_tokens')
    .values({ ...token, last_used_time: 0 })
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

/** Undefined if the user has no access token with this id. */
export const deleteAccessToken = (
  trx: Trx,
  userId: number,
  id: number,
): Promise<AccessTokenRow | undefined> =>
  trx
    .deleteFrom('access_tokens')
    .where('user_id', '=', userId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst()

export async function deleteAccessTokensNamed(trx: Trx, userId: number, name: string): Promise<void> {
  await trx.deleteFrom('access_tokens').where('user_id', '=', userId).where('name', '=', name).execute()
}

export const isAccessTokenLive = async (db: Db, id: number): Promise<boolean> =>
  (await db.selectFrom('access_tokens').select('id').where('id', '=', id).executeTakeFirst()) !== undefined

/** Returns the number of deleted access tokens. */
export async function deleteAccessTokensOf(trx: Trx, userId: number): Promise<number> {
  const { numDeletedRows } = await trx
    .deleteFrom('access_tokens')
    .where('user_id', '=', userId)
    .executeTakeFirst()
  return Number(numDeletedRows)
}

export async function touchAccessToken(db: Db, id: number, time: number): Promise<void> {
  await db.updateTable('access_tokens').set({ last_used_time: time }).where('id', '=', id).execute()
}
