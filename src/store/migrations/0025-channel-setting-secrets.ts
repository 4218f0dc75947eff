import { type Kysely, sql } from 'kysely'

/** The encrypted part of a channel's setting: credentials of its proxy, and the key of its client certificate. */
export async function channelSettingSecrets(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('channels')
    .addColumn('setting_sealed', 'text', column => column.notNull().defaultTo(sql.lit('')))
    .execute()
}
