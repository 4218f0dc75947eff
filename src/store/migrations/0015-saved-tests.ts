import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Requests that are saved to be sent again, each with a check of its answer. */
export async function savedTests(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const bytes: ColumnDataType = engine === 'sqlite' ? 'blob' : 'bytea'
  const strict = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict`).execute() : builder.execute()

  await strict(
    db.schema
      .createTable('saved_tests')
      .addColumn('id', whole, column =>
        engine === 'sqlite'
          ? column.primaryKey().autoIncrement()
          : column.primaryKey().generatedAlwaysAsIdentity(),
      )
      .addColumn('user_id', whole, column => column.notNull())
      .addColumn('name', 'text', column => column.notNull())
      .addColumn('path', 'text', column => column.notNull())
      .addColumn('model', 'text', column => column.notNull())
      .addColumn('expectation', 'text', column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('content', bytes, column => column.notNull()),
  )
  await db.schema.createIndex('saved_tests_user').on('saved_tests').columns(['user_id']).execute()
}
