import { type ColumnDataType, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Usage rows per statement, so that a statement on a large store stays within its timeout. */
const ROWS_AT_ONCE = 100_000

/** Usage is looked up by the name of a token through the token: an index of names would slow down every request. */
export async function tokenNames(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const table = db.schema
    .createTable('token_names')
    .addColumn('token_id', whole, column => column.notNull())
    .addColumn('name', 'text', column => column.notNull())
    .addColumn('user_id', whole, column => column.notNull())
    .addPrimaryKeyConstraint('token_names_key', ['token_id', 'name'])
  await (engine === 'sqlite' ? table.modifyEnd(sql`strict, without rowid`) : table).execute()
  await db.schema
    .createIndex('token_names_name')
    .on('token_names')
    .columns(['name', 'user_id', 'token_id'])
    .execute()

  await sql`insert into token_names (token_id, name, user_id) select id, name, user_id from tokens`.execute(
    db,
  )
  const { rows } = await sql<{ last: number | null }>`select max(id) as last from logs`.execute(db)
  const last = rows[0]?.last ?? 0
  for (let from = 0; from < last; from += ROWS_AT_ONCE)
    await sql`insert into token_names (token_id, name, user_id)
      select token_id, token_name, min(user_id) from logs
      where id > ${from} and id <= ${from + ROWS_AT_ONCE} and token_id > 0
      group by token_id, token_name
      on conflict (token_id, name) do nothing`.execute(db)
  await db.schema.dropIndex('logs_token_name').execute()

  // Folds get a further sum with this version, so existing folds must be computed again.
  await sql`delete from rollup_folds`.execute(db)
}
