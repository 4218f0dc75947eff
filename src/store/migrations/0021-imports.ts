import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** What was imported from other gateways, so that another import writes only the differences. */
export async function imports(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const strict = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict`).execute() : builder.execute()

  await strict(
    db.schema
      .createTable('imports')
      .addColumn('source', 'text', column => column.notNull())
      .addColumn('kind', 'text', column => column.notNull())
      .addColumn('source_id', 'text', column => column.notNull())
      .addColumn('target_id', whole, column => column.notNull())
      .addColumn('state', 'text', column => column.notNull())
      .addColumn('time', whole, column => column.notNull())
      .addPrimaryKeyConstraint('imports_key', ['source', 'kind', 'source_id']),
  )
}
