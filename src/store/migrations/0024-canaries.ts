import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Canaries, the sums and times of their requests, and the sums of shadow prices. */
export async function canaries(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const strict = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict`).execute() : builder.execute()

  await strict(
    db.schema
      .createTable('canaries')
      .addColumn('id', whole, column =>
        engine === 'sqlite'
          ? column.primaryKey().autoIncrement()
          : column.primaryKey().generatedAlwaysAsIdentity(),
      )
      .addColumn('kind', 'text', column => column.notNull())
      .addColumn('subject', 'text', column => column.notNull())
      .addColumn('name', 'text', column => column.notNull())
      .addColumn('changes_sealed', 'text', column => column.notNull())
      .addColumn('state', 'text', column => column.notNull())
      .addColumn('round', whole, column => column.notNull())
      .addColumn('share', whole, column => column.notNull())
      .addColumn('split_by', 'text', column => column.notNull())
      .addColumn('token_ids', 'text')
      .addColumn('from_time', whole, column => column.notNull())
      .addColumn('until_time', whole)
      .addColumn('note', 'text', column => column.notNull())
      .addColumn('author_id', whole, column => column.notNull())
      .addColumn('author_name', 'text', column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('round_time', whole, column => column.notNull())
      .addColumn('ended_time', whole)
      .addColumn('end_note', 'text', column => column.notNull()),
  )
  await db.schema
    .createIndex('canaries_open')
    .unique()
    .on('canaries')
    .columns(['kind', 'subject'])
    .where(sql.ref('ended_time'), 'is', null)
    .execute()
  await strict(
    db.schema
      .createTable('canary_sums')
      .addColumn('canary_id', whole, column => column.notNull())
      .addColumn('round', whole, column => column.notNull())
      .addColumn('side', 'text', column => column.notNull())
      .addColumn('requests', whole, column => column.notNull())
      .addColumn('errors', whole, column => column.notNull())
      .addColumn('prompt_tokens', whole, column => column.notNull())
      .addColumn('completion_tokens', whole, column => column.notNull())
      .addColumn('cost', whole, column => column.notNull())
      .addPrimaryKeyConstraint('canary_sums_key', ['canary_id', 'round', 'side']),
  )
  await strict(
    db.schema
      .createTable('canary_times')
      .addColumn('canary_id', whole, column => column.notNull())
      .addColumn('round', whole, column => column.notNull())
      .addColumn('side', 'text', column => column.notNull())
      .addColumn('time', whole, column => column.notNull())
      .addColumn('request_id', 'text', column => column.notNull())
      .addColumn('use_time_ms', whole, column => column.notNull())
      .addColumn('first_ms', whole)
      .addPrimaryKeyConstraint('canary_times_key', ['canary_id', 'round', 'side', 'time', 'request_id']),
  )
  await db.schema.createIndex('canary_times_time').on('canary_times').columns(['time']).execute()
  await strict(
    db.schema
      .createTable('shadow_sums')
      .addColumn('canary_id', whole, column => column.notNull())
      .addColumn('day', whole, column => column.notNull())
      .addColumn('user_id', whole, column => column.notNull())
      .addColumn('token_id', whole, column => column.notNull())
      .addColumn('requests', whole, column => column.notNull())
      .addColumn('cost', whole, column => column.notNull())
      .addColumn('shadow_cost', whole, column => column.notNull())
      .addPrimaryKeyConstraint('shadow_sums_key', ['canary_id', 'day', 'user_id', 'token_id']),
  )
}
