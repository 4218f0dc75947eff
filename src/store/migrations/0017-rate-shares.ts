import { type ColumnDataType, type CreateTableBuilder, type Kysely, sql } from 'kysely'
import type { Engine } from '../engine/schema.ts'

/** Shares of rate limits, and failed sign-ins, of all machines that share a PostgreSQL database. */
export async function rateShares(db: Kysely<unknown>, engine: Engine): Promise<void> {
  const whole: ColumnDataType = engine === 'sqlite' ? 'integer' : 'bigint'
  const strict = <T extends string, C extends string>(builder: CreateTableBuilder<T, C>) =>
    engine === 'sqlite' ? builder.modifyEnd(sql`strict`).execute() : builder.execute()

  await strict(
    db.schema
      .createTable('rate_shares')
      .addColumn('subject', 'text', column => column.primaryKey())
      .addColumn('version', whole, column => column.notNull())
      .addColumn('shares', 'text', column => column.notNull()),
  )
  await strict(
    db.schema
      .createTable('sign_in_failures')
      .addColumn('bucket', 'text', column => column.primaryKey())
      .addColumn('failures', whole, column => column.notNull())
      .addColumn('last_ms', whole, column => column.notNull())
      .addColumn('blocked_until_ms', whole, column => column.notNull()),
  )
  await db.schema.createIndex('sign_in_failures_last').on('sign_in_failures').column('last_ms').execute()
}
