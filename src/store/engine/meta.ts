import type { Db } from './store.ts'

/** Facts about the store as a whole. */
type MetaKey = 'digest_key' | 'chain_key'

export async function readMeta(db: Db, key: MetaKey): Promise<string | undefined> {
  const row = await db.selectFrom('meta').select('value').where('key', '=', key).executeTakeFirst()
  return row?.value
}

/** False if another process was first: several may start at once. */
export async function claimMeta(db: Db, key: MetaKey, value: string): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('meta')
    .values({ key, value })
    .onConflict(conflict => conflict.column('key').doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}
