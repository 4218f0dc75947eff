import type { ColumnDataType, Kysely } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Lets one log row stand for several requests that the gateway rejected. */
export async function rejectedRequests(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  // A constant default: neither engine rewrites the existing rows.
  await db.schema
    .alterTable('logs')
    .addColumn('requests', whole, column => column.notNull().defaultTo(1))
    .execute()
}
