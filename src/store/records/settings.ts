import { SETTINGS, type Settings } from '../../domain/setting.ts'
import type { Db, Trx } from '../engine/store.ts'

/** Every setting with its effective value. */
export async function readSettings(db: Db): Promise<Settings> {
  const stored = new Map((await listSettings(db)).map(row => [row.key, JSON.parse(row.value)]))
  const entries = Object.entries(SETTINGS).map(([key, setting]) => [key, stored.get(key) ?? setting.default])
  return Object.fromEntries(entries) as Settings
}

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
  await trx.deleteFrom('setting_secrets').where('key', '=', key).execute()
}

/** The place that the encrypted value of a setting is bound to. */
export const secretSettingPlace = (key: string) => ({ table: 'setting_secrets', row: key, field: 'value' })

/** The encrypted value of a setting that contains a secret. */
export async function readSecretSetting(db: Db, key: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('setting_secrets')
    .select('sealed')
    .where('key', '=', key)
    .executeTakeFirst()
  return row?.sealed
}

export async function writeSecretSetting(trx: Trx, key: string, sealed: string): Promise<void> {
  await trx
    .insertInto('setting_secrets')
    .values({ key, sealed })
    .onConflict(conflict => conflict.column('key').doUpdateSet({ sealed }))
    .execute()
}
