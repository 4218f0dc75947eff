import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Pages of bodies, and the pages of requests (docs/adr/0038-bodies-in-pages.md). */
export async function bodyPages(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const bytes: ColumnDataType = engine === 'sqlite' ? 'blob' : 'bytea'
  const create = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>, options: string) =>
    engine === 'sqlite' ? builder.modifyEnd(sql.raw(options)).execute() : builder.execute()

  await create(
    db.schema
      .createTable('body_pages')
      .addColumn('id', 'text', column => column.primaryKey())
      .addColumn('user_id', whole, column => column.notNull())
      .addColumn('created_time', whole, column => column.notNull())
      .addColumn('size', whole, column => column.notNull())
      .addColumn('other_requests', 'text', column => column.notNull())
      .addColumn('content', bytes, column => column.notNull()),
    'strict',
  )
  // The sizes are added up from the index alone.
  await db.schema
    .createIndex('body_pages_age')
    .on('body_pages')
    .columns(['created_time', 'id', 'size'])
    .execute()
  await db.schema.createIndex('body_pages_user').on('body_pages').columns(['user_id']).execute()
  await create(
    db.schema
      .createTable('body_places')
      .addColumn('request_id', 'text', column => column.primaryKey().notNull())
      .addColumn('page_id', 'text', column => column.notNull()),
    'strict, without rowid',
  )
}
