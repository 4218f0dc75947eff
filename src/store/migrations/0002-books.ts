import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Nodes and their leases, suspense entries, and sums by quarter hour. */
export async function books(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const strict = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict`).execute() : builder.execute()
  const table = <Name extends string>(name: Name) => db.schema.createTable(name)

  await strict(
    table('nodes')
      .addColumn('id', 'text', column => column.primaryKey())
      .addColumn('epoch', whole, column => column.notNull())
      .addColumn('applied_lsn', whole, column => column.notNull())
      .addColumn('oldest_open_lsn', whole, column => column.notNull())
      .addColumn('started_time', whole, column => column.notNull()),
  )

  await strict(
    table('leases')
      .addColumn('node_id', 'text', column => column.notNull())
      .addColumn('kind', 'text', column => column.notNull())
      .addColumn('owner_id', whole, column => column.notNull())
      .addColumn('amount', whole, column => column.notNull())
      .addPrimaryKeyConstraint('leases_key', ['node_id', 'kind', 'owner_id'])
      .addCheckConstraint('leases_amount', sql`amount >= 0`),
  )

  await strict(
    table('suspense')
      .addColumn('id', whole, column =>
        engine === 'sqlite'
          ? column.primaryKey().autoIncrement()
          : column.primaryKey().generatedAlwaysAsIdentity(),
      )
      .addColumn('time', whole, column => column.notNull())
      .addColumn('request_id', 'text', column => column.notNull())
      .addColumn('user_id', whole, column => column.notNull())
      .addColumn('token_id', whole, column => column.notNull())
      .addColumn('channel_id', whole, column => column.notNull())
      .addColumn('amount', whole, column => column.notNull())
      .addColumn('reason', 'text', column => column.notNull())
      .addColumn('closed_time', whole)
      .addColumn('closed_by', 'text')
      .addColumn('closed_as', 'text')
      .addColumn('closed_reason', 'text'),
  )
  await db.schema.createIndex('suspense_open').on('suspense').columns(['closed_time', 'id']).execute()

  await strict(
    table('rollups')
      .addColumn('bucket', whole, column => column.notNull())
      .addColumn('user_id', whole, column => column.notNull())
      .addColumn('token_id', whole, column => column.notNull())
      .addColumn('channel_id', whole, column => column.notNull())
      .addColumn('model', 'text', column => column.notNull())
      .addColumn('requests', whole, column => column.notNull())
      .addColumn('failures', whole, column => column.notNull())
      .addColumn('prompt_tokens', whole, column => column.notNull())
      .addColumn('completion_tokens', whole, column => column.notNull())
      .addColumn('cost', whole, column => column.notNull())
      .addPrimaryKeyConstraint('rollups_key', ['bucket', 'user_id', 'token_id', 'channel_id', 'model']),
  )
  await db.schema.createIndex('rollups_user').on('rollups').columns(['user_id', 'bucket']).execute()
}
