import { type Kysely, sql } from 'kysely'

/** The ids of the master secrets that a node has. Empty: a node of an older version. */
export async function nodeSecrets(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('node_heartbeats')
    .addColumn('secret_ids', 'text', column => column.notNull().defaultTo(sql.lit('')))
    .execute()
}
