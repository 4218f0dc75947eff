import { type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Finds a request by an ID of its provider, in its own column or in the report of a failed attempt, and by its tags. */
export async function explainedRequests(db: Kysely<unknown>, engine: Engine): Promise<void> {
  await db.schema
    .createIndex('logs_upstream_request')
    .on('logs')
    .column('upstream_request_id')
    .where(sql.ref('upstream_request_id'), '<>', sql.lit(''))
    .execute()
  const position = sql.raw(engine === 'sqlite' ? 'instr' : 'strpos')
  await sql`
    create index logs_reports on logs (created_time, id) where ${position}(other, '"request_id"') > 0
  `.execute(db)
  await sql`
    create index logs_tags on logs (created_time, id) where ${position}(other, '"tags"') > 0
  `.execute(db)
}
