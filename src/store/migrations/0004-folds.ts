import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Folds: sums of rollups, so that a chart of three months reads thousands of rows instead of millions. */
export async function folds(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  // Rows are only read by their key, so SQLite stores them in its order.
  const keyed = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict, without rowid`).execute() : builder.execute()

  await keyed(
    db.schema
      .createTable('rollup_sums')
      .addColumn('kind', 'text', column => column.notNull())
      .addColumn('start', whole, column => column.notNull())
      .addColumn('user_id', whole, column => column.notNull())
      .addColumn('token_id', whole, column => column.notNull())
      .addColumn('channel_id', whole, column => column.notNull())
      .addColumn('model', 'text', column => column.notNull())
      .addColumn('requests', whole, column => column.notNull())
      .addColumn('failures', whole, column => column.notNull())
      .addColumn('prompt_tokens', whole, column => column.notNull())
      .addColumn('completion_tokens', whole, column => column.notNull())
      .addColumn('cost', whole, column => column.notNull())
      .addPrimaryKeyConstraint('rollup_sums_key', [
        'kind',
        'start',
        'user_id',
        'token_id',
        'channel_id',
        'model',
      ]),
  )
  await keyed(
    db.schema
      .createTable('rollup_folds')
      .addColumn('unit', whole, column => column.notNull())
      .addColumn('start', whole, column => column.notNull())
      .addColumn('run', 'text', column => column.notNull())
      .addPrimaryKeyConstraint('rollup_folds_key', ['unit', 'start']),
  )

  // Sums come from the rollups, so these indexes only need to find rows; every request writes them.
  await db.schema.dropIndex('logs_time').execute()
  await db.schema.createIndex('logs_time').on('logs').columns(['created_time', 'id']).execute()
  await db.schema.dropIndex('logs_user').execute()
  await db.schema.createIndex('logs_user').on('logs').columns(['user_id', 'created_time', 'id']).execute()
}
