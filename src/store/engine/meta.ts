import type { Db } from './store.ts'

/** Values that belong to the store as a whole. */
type MetaKey = 'digest_key' | 'chain_key' | 'body_key' | 'last_verify' | 'copy_state' | 'moved_from'

export async function readMeta(db: Db, key: MetaKey): Promise<string | undefined> {
  const row = await db.selectFrom('meta').select('value').where('key', '=', key).executeTakeFirst()
  return row?.value
}

/** Inserts a value. False if another process has inserted one before: several may start at once. */
export async function claimMeta(db: Db, key: MetaKey, value: string): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto('meta')
    .values({ key, value })
    .onConflict(conflict => conflict.column('key').doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

export async function writeMeta(db: Db, key: MetaKey, value: string): Promise<void> {
  await db
    .insertInto('meta')
    .values({ key, value })
    .onConflict(conflict => conflict.column('key').doUpdateSet({ value }))
    .execute()
}
