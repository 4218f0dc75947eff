import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Revisions of the configuration with the changes of each, and the objects that were applied from a file. */
export async function configHistory(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const strict = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict`).execute() : builder.execute()

  await strict(
    db.schema
      .createTable('config_revisions')
      .addColumn('revision', whole, column => column.primaryKey())
      .addColumn('time', whole, column => column.notNull())
      .addColumn('actor_id', whole, column => column.notNull())
      .addColumn('actor_name', 'text', column => column.notNull())
      .addColumn('via', 'text', column => column.notNull())
      .addColumn('reason', 'text', column => column.notNull()),
  )
  await strict(
    db.schema
      .createTable('config_changes')
      .addColumn('revision', whole, column => column.notNull())
      .addColumn('target', 'text', column => column.notNull())
      .addColumn('object', 'text', column => column.notNull())
      .addColumn('name', 'text', column => column.notNull())
      .addColumn('before', 'text')
      .addColumn('after', 'text')
      .addPrimaryKeyConstraint('config_changes_key', ['revision', 'target']),
  )
  await db.schema
    .createIndex('config_changes_target')
    .on('config_changes')
    .columns(['target', 'revision'])
    .execute()
  await strict(
    db.schema
      .createTable('config_owned')
      .addColumn('target', 'text', column => column.primaryKey())
      .addColumn('name', 'text', column => column.notNull())
      .addColumn('fields', 'text', column => column.notNull())
      .addColumn('time', whole, column => column.notNull()),
  )
}
