import type { Db, Trx } from './store.ts'

export const listSettings = (db: Db) => db.selectFrom('settings').selectAll().execute()

export async function writeSetting(
  trx: Trx,
  setting: { key: string; value: string; time: number; authorId: number },
): Promise<void> {
  const row = {
    key: setting.key,
    value: setting.value,
    updated_time: setting.time,
    author_id: setting.authorId,
  }
  const { key: _key, ...update } = row
  await trx
    .insertInto('settings')
    .values(row)
    .onConflict(conflict => conflict.column('key').doUpdateSet(update))
    .execute()
}

export async function clearSetting(trx: Trx, key: string): Promise<void> {
  await trx.deleteFrom('settings').where('key', '=', key).execute()
}
