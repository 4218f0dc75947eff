import { type ColumnDataType, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** The node numbers its lease changes, so that a retried change is executed once. */
export async function leaseNumbers(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  for (const name of ['number', 'granted'])
    await db.schema
      .alterTable('leases')
      .addColumn(name, whole, column => column.notNull().defaultTo(sql.lit(0)))
      .execute()
}
