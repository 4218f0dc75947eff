import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** A row for each node that serves requests, or has not left properly. Beats do not lock `nodes`, which settlements update. */
export async function heartbeats(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const strict = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict`).execute() : builder.execute()

  await strict(
    db.schema
      .createTable('node_heartbeats')
      .addColumn('node_id', 'text', column => column.primaryKey())
      .addColumn('machine', 'text', column => column.notNull())
      .addColumn('name', 'text', column => column.notNull())
      .addColumn('address', 'text', column => column.notNull())
      .addColumn('version', 'text', column => column.notNull())
      .addColumn('state', 'text', column => column.notNull())
      .addColumn('fence_ms', whole, column => column.notNull())
      .addColumn('beat_ms', whole, column => column.notNull())
      .addColumn('applied', whole, column => column.notNull())
      .addColumn('in_flight', whole, column => column.notNull()),
  )
}
