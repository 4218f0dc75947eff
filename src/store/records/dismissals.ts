import type { Db, Trx } from '../engine/store.ts'

/** A user's oldest dismissals beyond this number are forgotten. */
const MAX_DISMISSALS = 200

export async function listDismissals(db: Db, userId: number): Promise<string[]> {
  const rows = await db.selectFrom('dismissals').select('item').where('user_id', '=', userId).execute()
  return rows.map(({ item }) => item)
}

export async function addDismissal(trx: Trx, userId: number, dismissal: { item: string; time: number }) {
  await trx
    .insertInto('dismissals')
    .values({ user_id: userId, ...dismissal })
    .onConflict(conflict => conflict.columns(['user_id', 'item']).doUpdateSet({ time: dismissal.time }))
    .execute()
  const surplus = await trx
    .selectFrom('dismissals')
    .select('item')
    .where('user_id', '=', userId)
    .orderBy('time', 'desc')
    .orderBy('item')
    .offset(MAX_DISMISSALS)
    .limit(MAX_DISMISSALS)
    .execute()
  await removeDismissals(
    trx,
    userId,
    surplus.map(({ item }) => item),
  )
}

export async function removeDismissals(db: Db, userId: number, items: readonly string[]): Promise<void> {
  if (items.length === 0) return
  await db.deleteFrom('dismissals').where('user_id', '=', userId).where('item', 'in', items).execute()
}
