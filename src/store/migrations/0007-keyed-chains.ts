import { type Kysely, sql } from 'kysely'

/** Heads are proven by a keyed digest, and audit records say how their change left the rows they are about. */
export async function keyedChains(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable('chains')
    .addColumn('mac', 'text', column => column.notNull().defaultTo(sql.lit('')))
    .execute()
  await db.schema.alterTable('audit').addColumn('state', 'text').execute()
}
