import { type ColumnDataType, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/**
 * Records the order in which a model's versions came into force, so that a clock that is set back does not change the price
 * of a request.
 */
export async function priceActivations(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  await db.schema.alterTable('prices').addColumn('activation', whole).execute()
  const now = Math.floor(Date.now() / 1000)
  await sql`update prices set activation = (
      select count(*) from prices as earlier
      where earlier.model = prices.model
        and (earlier.effective_time < prices.effective_time
          or (earlier.effective_time = prices.effective_time and earlier.version <= prices.version))
    )
    where effective_time <= ${now} or effective_time <= created_time`.execute(db)
  await db.schema.dropIndex('prices_live').execute()
  // Finds a model's version in force without reading ended versions.
  await db.schema
    .createIndex('prices_live')
    .on('prices')
    .columns(['model', 'activation', 'effective_time', 'version'])
    .where(sql.ref('ended_time'), 'is', null)
    .execute()
  await db.schema
    .createIndex('prices_pending')
    .on('prices')
    .columns(['effective_time', 'id'])
    .where(sql`ended_time is null and activation is null` as never)
    .execute()
}
