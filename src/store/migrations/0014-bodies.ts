import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Bodies of requests and answers, and who wants them kept. */
export async function bodies(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const bytes: ColumnDataType = engine === 'sqlite' ? 'blob' : 'bytea'
  const strict = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict`).execute() : builder.execute()

  for (const table of ['users', 'tokens'])
    await db.schema
      .alterTable(table)
      // A constant default: neither engine rewrites the existing rows.
      .addColumn('log_bodies', 'text', column => column.notNull().defaultTo('none'))
      .execute()
  await strict(
    db.schema
      .createTable('bodies')
      .addColumn('request_id', 'text', column => column.primaryKey())
      .addColumn('user_id', whole, column => column.notNull())
      .addColumn('token_id', whole, column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('size', whole, column => column.notNull())
      .addColumn('content', bytes, column => column.notNull()),
  )
  // The sizes are added up from the index alone.
  await db.schema
    .createIndex('bodies_age')
    .on('bodies')
    .columns(['created_time', 'request_id', 'size'])
    .execute()
  await db.schema.createIndex('bodies_user').on('bodies').columns(['user_id']).execute()
}
