import { type Kysely, sql } from 'kysely'

/** Heads get a keyed digest, and audit records the states of the rows after their change. */
export async function keyedChains(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('chains')
    .addColumn('mac', 'text', column => column.notNull().defaultTo(sql.lit('')))
    .execute()
  await db.schema.alterTable('audit').addColumn('state', 'text').execute()
}
