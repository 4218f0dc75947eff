import { type ColumnDataType, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Vendor-reported costs, summed by channel, and our cost of the same requests. */
export async function vendorCosts(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  for (const name of ['vendor_cost', 'vendor_compared'])
    await db.schema
      .alterTable('channels')
      .addColumn(name, whole, column => column.notNull().defaultTo(sql.lit(0)))
      .execute()
}
