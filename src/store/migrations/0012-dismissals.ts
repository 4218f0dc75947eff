import { type ColumnDataType, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** What a user has dismissed from the list of what needs attention. */
export async function dismissals(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const table = db.schema
    .createTable('dismissals')
    .addColumn('user_id', whole, column => column.notNull())
    .addColumn('item', 'text', column => column.notNull())
    .addColumn('time', whole, column => column.notNull())
    .addPrimaryKeyConstraint('dismissals_key', ['user_id', 'item'])
  await (engine === 'sqlite' ? table.modifyEnd(sql`strict, without rowid`) : table).execute()
}
